"""TLS to bookies: its settings under Pulsar's names, and the SSL context that they mean.

As with Pulsar, connections are encrypted if `bookkeeperTLSClientAuthentication` is true: the client shows its
certificate, and the bookie's is to be signed by one of the authorities that the client trusts.
"""

import os
import ssl
from collections.abc import Mapping

from msgspec import Struct

from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.settings import Settings, boolean, integer, read_settings

VARIABLE = "MLEDGER_BOOKIE_TLS"
"""Names a file with these settings, for clients whose own settings have none."""

_SWITCH = "bookkeeperTLSClientAuthentication"
_PLUGIN = "bookkeeperClientAuthenticationPlugin"
_FACTORY = "TLSContextFactory"
_MAX_INT = 2**31 - 1
_PEM = "PEM"


class BookieTls(Struct, frozen=True):
    """Paths of PEM files; `password` is the file of the key's, empty if it has none.

    The files are looked at for changes at most every `refresh_s` seconds; 0 is never.
    """

    certificate: str
    key: str
    authorities: str
    password: str = ""
    verify_hostname: bool = False
    refresh_s: float = 300.0

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the context is made of."""
        return tuple(filter(None, (self.certificate, self.key, self.authorities, self.password)))


def bookie_tls(settings: Settings) -> BookieTls | None:
    """The TLS part of `settings`, None if connections are to be plain. InvalidSetting says what is missing."""
    settings.take(_PLUGIN, _plugin, None)
    if not settings.take(_SWITCH, boolean, False):
        return None
    settings.take("bookkeeperTLSProviderFactoryClass", _factory, None)
    for key in ("bookkeeperTLSKeyFileType", "bookkeeperTLSTrustCertTypes"):
        settings.take(key, _pem, _PEM)
    found = BookieTls(
        certificate=settings.take("bookkeeperTLSCertificateFilePath", str, ""),
        key=settings.take("bookkeeperTLSKeyFilePath", str, ""),
        authorities=settings.take("bookkeeperTLSTrustCertsFilePath", str, ""),
        password=settings.take("bookkeeperTLSKeyStorePasswordPath", str, ""),
        verify_hostname=settings.take("bookkeeper_tlsHostnameVerificationEnabled", boolean, False),
        refresh_s=settings.take("bookkeeperTlsCertFilesRefreshDurationSeconds", integer(0, _MAX_INT), 300),
    )
    needed = {
        "bookkeeperTLSCertificateFilePath": found.certificate,
        "bookkeeperTLSKeyFilePath": found.key,
        "bookkeeperTLSTrustCertsFilePath": found.authorities,
    }
    missing = [key for key, path in needed.items() if not path]
    if missing:
        raise InvalidSetting(
            f"{settings.where(_SWITCH)}: {_SWITCH} is true, and {', '.join(missing)} not set: name the PEM files of "
            "this client's certificate and key, and of the authorities of bookies"
        )
    return found


def bookie_tls_of_environment(environment: Mapping[str, str] = os.environ) -> BookieTls | None:
    """The TLS settings of the file that the variable names, None if it names none. InvalidSetting."""
    path = environment.get(VARIABLE)
    if not path:
        return None
    found = bookie_tls(read_settings(path, ()))
    if found is None:
        raise InvalidSetting(f"{VARIABLE}: {path} does not set {_SWITCH}=true: set it, or unset the variable")
    return found


def client_context(tls: BookieTls) -> ssl.SSLContext:
    """The context for handshakes. InvalidSetting names the wrong file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.verify_hostname
    try:
        context.load_verify_locations(tls.authorities)
    except OSError as error:
        raise InvalidSetting(
            f"bookkeeperTLSTrustCertsFilePath {tls.authorities}: {error}; name a PEM file with the certificates that "
            "vouch for bookies"
        ) from None
    password = _password(tls.password) if tls.password else ""
    try:
        # without a password the library would ask for one at the terminal
        context.load_cert_chain(tls.certificate, tls.key, lambda: password)
    except (OSError, ValueError) as error:
        raise InvalidSetting(
            f"bookkeeperTLSCertificateFilePath {tls.certificate} and bookkeeperTLSKeyFilePath {tls.key}: {error}; name "
            "the PEM files of this client's certificate and key, and the key's password with "
            "bookkeeperTLSKeyStorePasswordPath"
        ) from None
    return context


def _password(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError) as error:
        raise InvalidSetting(
            f"bookkeeperTLSKeyStorePasswordPath {path}: {error}; name the key's password's file"
        ) from None


def _plugin(text: str) -> None:
    raise ValueError(
        f"this client has no SASL, Kerberos or other plug-in: it shows bookies a certificate ({_SWITCH}); leave it out"
    )


def _factory(text: str) -> None:
    if not text.endswith(_FACTORY):
        raise ValueError("this client has BookKeeper's own TLS only: write org.apache.bookkeeper.tls.TLSContextFactory")


def _pem(text: str) -> str:
    if text.upper() != _PEM:
        raise ValueError(
            "this client reads PEM files only: convert the store (JKS to PKCS12 by keytool -importkeystore, then PEM "
            "by openssl pkcs12), and say PEM"
        )
    return _PEM
