"""Certificates of an authority that a test creates with the openssl program, as PEM files."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certified:
    """A certificate, its key, and the certificate of its authority."""

    certificate: Path
    key: Path
    authority: Path


def certify(directory: Path, name: str = "localhost") -> Certified:
    """A certificate for 127.0.0.1, signed by an authority of its own."""
    directory.mkdir(exist_ok=True)
    made = Certified(directory / "certificate.pem", directory / "key.pem", directory / "authority.pem")
    signer, extensions = directory / "authority-key.pem", directory / "extensions"
    request = directory / "request.pem"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    _openssl(*new, "-x509", "-days", "30", "-subj", "/CN=authority", "-keyout", signer, "-out", made.authority)
    _openssl(*new, "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
    signing = ("-CA", made.authority, "-CAkey", signer, "-CAcreateserial", "-extfile", extensions)
    _openssl("x509", "-req", "-days", "30", "-in", request, *signing, "-out", made.certificate)
    return made


def certify_by(authority: Certified, directory: Path, name: str, *, unit: str = "", days: int = 30) -> Certified:
    """A certificate with this common name and organizational unit, signed by the authority of another one.

    With `days` below 0, it has expired.
    """
    directory.mkdir(exist_ok=True)
    made = Certified(directory / "certificate.pem", directory / "key.pem", authority.authority)
    signer, request = authority.authority.parent / "authority-key.pem", directory / "request.pem"
    subject = f"/OU={unit}/CN={name}" if unit else f"/CN={name}"
    _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", made.key, "-out", request)
    signing = ("-CA", authority.authority, "-CAkey", signer, "-CAcreateserial")
    _openssl("x509", "-req", "-days", days, "-in", request, *signing, "-out", made.certificate)
    return made


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
