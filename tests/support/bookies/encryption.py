"""Settings of bookies that encrypt and let certain roles in, and of their clients."""

from pathlib import Path

from mledger.bookie.client.tls_settings import BookieTls
from tests.support.certificates import Certified

TLS_FACTORY = "org.apache.bookkeeper.tls.TLSContextFactory"


def encrypting(certified: Certified) -> dict[str, str]:
    """The bookkeeper.conf of a bookie that encrypts and asks for certificates."""
    return {
        "tlsProviderFactoryClass": TLS_FACTORY,
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": str(certified.key),
        "tlsCertificatePath": str(certified.certificate),
        "tlsClientAuthentication": "true",
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": str(certified.authority),
    }


def demanding(certified: Certified, roles: str = "broker") -> dict[str, str]:
    """The same, and it serves these roles only."""
    return {
        **encrypting(certified),
        "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.tls.BookieAuthZFactory",
        "authorizedRoles": roles,
    }


def arguments(settings: dict[str, str]) -> tuple[str, ...]:
    """Settings as a bookie's arguments."""
    return tuple(f"--set={key}={value}" for key, value in settings.items())


def showing(certified: Certified, authority: Path | None = None, **more: object) -> BookieTls:
    """A client that shows a certificate."""
    paths = (certified.certificate, certified.key, authority or certified.authority)
    return BookieTls(*map(str, paths), **more)


def broker_conf(path: Path, certified: Certified) -> Path:
    """The same, as a file of settings."""
    path.write_text(
        "bookkeeperTLSClientAuthentication=true\n"
        f"bookkeeperTLSCertificateFilePath={certified.certificate}\n"
        f"bookkeeperTLSKeyFilePath={certified.key}\n"
        f"bookkeeperTLSTrustCertsFilePath={certified.authority}\n"
    )
    return path
