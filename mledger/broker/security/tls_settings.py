"""TLS at a broker's ports: its settings under Pulsar's names, and the SSL context that they mean.

- The binary port and the HTTP port share certificate, key and authorities.
- Clients are asked for a certificate if `tlsTrustCertsFilePath` names authorities. One of another authority ends the
  handshake; to have none does so with `tlsRequireTrustedClientCertOnConnect` only.
- `tlsAllowInsecureConnection`: clients may have any certificate. None is asked for then, so none names a role.
"""

import ssl

from msgspec import Struct

from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.settings import Settings, boolean, integer

_MAX_INT = 2**31 - 1
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PORT = integer(0, 65_535)


class BrokerTls(Struct, frozen=True):
    """Ports that are encrypted, None where there is none, and paths of PEM files; 0 is a free port."""

    port: int | None = None
    web_port: int | None = None
    certificate: str = ""
    key: str = ""
    authorities: str = ""
    client_certificate_required: bool = False
    any_client_certificate: bool = False
    refresh_check_s: float = 300.0
    protocols: tuple[str, ...] = ()
    ciphers: str = ""

    @property
    def used(self) -> bool:
        """Whether some port is encrypted."""
        return self.port is not None or self.web_port is not None

    @property
    def asks_for_certificates(self) -> bool:
        """Whether clients are asked for certificates, and those are verified."""
        return bool(self.authorities) and not self.any_client_certificate

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the context is made of."""
        return tuple(filter(None, (self.certificate, self.key, self.authorities)))


class _TlsKey(Struct, frozen=True):
    """A key of broker.conf and the field that it sets."""

    key: str
    field: str


TLS_KEYS = (
    _TlsKey("brokerServicePortTls", "port"),
    _TlsKey("webServicePortTls", "web_port"),
    _TlsKey("tlsCertificateFilePath", "certificate"),
    _TlsKey("tlsKeyFilePath", "key"),
    _TlsKey("tlsTrustCertsFilePath", "authorities"),
    _TlsKey("tlsRequireTrustedClientCertOnConnect", "client_certificate_required"),
    _TlsKey("tlsAllowInsecureConnection", "any_client_certificate"),
    _TlsKey("tlsCertRefreshCheckDurationSec", "refresh_check_s"),
    _TlsKey("tlsProtocols", "protocols"),
    _TlsKey("tlsCiphers", "ciphers"),
)


def tls_settings(settings: Settings) -> BrokerTls:
    """The TLS part of `settings`; takes its keys. InvalidSetting says what is missing."""
    plain = BrokerTls()
    found = BrokerTls(
        port=settings.take("brokerServicePortTls", _PORT, None),
        web_port=settings.take("webServicePortTls", _PORT, None),
        certificate=settings.take("tlsCertificateFilePath", str, ""),
        key=settings.take("tlsKeyFilePath", str, ""),
        authorities=settings.take("tlsTrustCertsFilePath", str, ""),
        client_certificate_required=settings.take("tlsRequireTrustedClientCertOnConnect", boolean, False),
        any_client_certificate=settings.take("tlsAllowInsecureConnection", boolean, False),
        refresh_check_s=settings.take("tlsCertRefreshCheckDurationSec", integer(0, _MAX_INT), plain.refresh_check_s),
        protocols=settings.take("tlsProtocols", _protocols, ()),
        ciphers=settings.take("tlsCiphers", _ciphers, ""),
    )
    if settings.take("tlsEnabledWithKeyStore", boolean, False):
        raise InvalidSetting(
            "tlsEnabledWithKeyStore is true: this broker reads PEM files only; convert the key store (openssl pkcs12) "
            "and name the files with tlsCertificateFilePath and tlsKeyFilePath"
        )
    _check(found)
    return found


def _check(found: BrokerTls) -> None:
    needed = {"tlsCertificateFilePath": found.certificate, "tlsKeyFilePath": found.key}
    missing = [key for key, path in needed.items() if not path]
    if found.used and missing:
        raise InvalidSetting(
            f"{' and '.join(missing)} missing: brokerServicePortTls and webServicePortTls need the PEM files of the "
            "broker's certificate and of its key"
        )
    if found.client_certificate_required and not found.asks_for_certificates:
        raise InvalidSetting(
            "tlsRequireTrustedClientCertOnConnect is true: name the authorities of clients with tlsTrustCertsFilePath, "
            "and leave tlsAllowInsecureConnection false"
        )


def server_context(tls: BrokerTls) -> ssl.SSLContext:
    """The context for handshakes. InvalidSetting names the wrong file or setting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in tls.protocols] or list(_VERSIONS.values())
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    try:
        # without a password the library would ask for one at the terminal
        context.load_cert_chain(tls.certificate, tls.key, lambda: "")
    except (OSError, ValueError) as error:
        raise InvalidSetting(
            f"tlsCertificateFilePath {tls.certificate} and tlsKeyFilePath {tls.key}: {error}; name the PEM files of "
            "the broker's certificate and of its key, without a password and readable for the user that it runs as"
        ) from None
    if tls.asks_for_certificates:
        context.verify_mode = ssl.CERT_REQUIRED if tls.client_certificate_required else ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(tls.authorities)
        except OSError as error:
            raise InvalidSetting(
                f"tlsTrustCertsFilePath {tls.authorities}: {error}; name a PEM file with the certificates that vouch "
                "for clients"
            ) from None
    if tls.ciphers:
        try:
            context.set_ciphers(tls.ciphers)
        except ssl.SSLError:
            raise InvalidSetting(
                f"tlsCiphers {tls.ciphers}: none that OpenSSL knows; write them by OpenSSL's names"
            ) from None
    return context


def _protocols(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if any(name not in _VERSIONS for name in names):
        raise ValueError(f"one of {', '.join(_VERSIONS)} is needed")
    return names


def _ciphers(text: str) -> str:
    return text.replace(",", ":")
