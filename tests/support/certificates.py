"""Certificates of an authority that a test makes: PEM files by the openssl program."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certified:
    """A certificate and its key, and the certificate that vouches for it."""

    certificate: Path
    key: Path
    authority: Path


def certify(directory: Path, name: str = "localhost") -> Certified:
    """A certificate of 127.0.0.1, and the authority's that signed it."""
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


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
