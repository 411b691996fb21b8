"""Encrypted connections: an SSL context for the server's side, from BookKeeper's TLS settings."""

import ssl
from functools import partial

from msgspec import Struct

from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates

PEM = "PEM"


class TlsSettings(Struct, frozen=True):
    """Paths of PEM files, empty where there is none. `protocols`: versions as Java names them; empty for all.

    With `client_authentication`, a client needs a certificate signed by one of `authorities`. The files are looked at
    for changes at most every `refresh_s` seconds; 0 is never, as in BookKeeper.
    """

    certificate: str
    key: str
    password: str = ""
    authorities: str = ""
    client_authentication: bool = False
    protocols: tuple[str, ...] = ()
    ciphers: str = ""
    refresh_s: float = 0.0

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the context is made of."""
        return tuple(filter(None, (self.certificate, self.key, self.password, self.authorities)))


_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def certificates(settings: TlsSettings) -> RenewedCertificates:
    """The context for handshakes, made again when a file changes; needs a running loop. InvalidSetting as below."""
    every_s = settings.refresh_s or float("inf")
    return RenewedCertificates(partial(server_context, settings), settings.files, every_s)


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for handshakes. InvalidSetting names the wrong file or setting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _versions(settings.protocols)
    password = _read(settings.password, "tlsKeyStorePasswordPath").strip() if settings.password else ""
    try:
        # without a password the library would ask for one at the terminal
        context.load_cert_chain(settings.certificate, settings.key, lambda: password)
    except (OSError, ValueError) as error:
        raise InvalidSetting(
            f"tlsCertificatePath {settings.certificate} and tlsKeyStore {settings.key}: {error}: name the PEM files of "
            "the bookie's certificate and of its key, and the key's password with tlsKeyStorePasswordPath"
        ) from None
    if settings.client_authentication:
        context.verify_mode = ssl.CERT_REQUIRED
    if settings.authorities:
        try:
            context.load_verify_locations(settings.authorities)
        except OSError as error:
            raise InvalidSetting(
                f"tlsTrustStore {settings.authorities}: {error}: name a PEM file with the certificates that vouch for "
                "clients"
            ) from None
    if settings.ciphers:
        try:
            context.set_ciphers(settings.ciphers)
        except ssl.SSLError:
            raise InvalidSetting(
                f"tlsEnabledCipherSuites {settings.ciphers}: none that OpenSSL knows; write them by OpenSSL's names"
            ) from None
    return context


def _versions(named: tuple[str, ...]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    unknown = [name for name in named if name not in _VERSIONS]
    if unknown:
        raise InvalidSetting(f"tlsEnabledProtocols: {', '.join(unknown)}: one of {', '.join(_VERSIONS)} is needed")
    versions = [_VERSIONS[name] for name in named] or list(_VERSIONS.values())
    return min(versions), max(versions)


def _read(path: str, key: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{key} {path}: {error}") from None
