"""How a broker asks others over HTTP for their part of a request: its own certificate and token, and whom it trusts.

The settings have Pulsar's names. What a client sent with its own credentials goes on with those; what a broker asks by
itself, or for a client that showed a certificate only, with the broker's: it has checked the client's rights before.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.settings import Settings

_TOKEN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"  # noqa: S105 - the name of a class
_TLS = "org.apache.pulsar.client.impl.auth.AuthenticationTls"
_INLINE, _FILE = "token:", "file:"


class PeerSettings(Struct, frozen=True):
    """Paths of PEM files, empty where the system's authorities count and where no certificate is shown.

    `token` is one, or `file:` and the path of a file that has it; empty: none is sent.
    """

    authorities: str = ""
    certificate: str = ""
    key: str = ""
    token: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the context is made of."""
        return tuple(filter(None, (self.authorities, self.certificate, self.key)))

    def headers(self) -> Mapping[str, str]:
        """The broker's own credentials, as a request has them. InvalidSetting if the token's file cannot be read."""
        if not self.token:
            return {}
        if not self.token.startswith(_FILE):
            return {"authorization": f"Bearer {self.token}"}
        path = Path("/" + self.token[len(_FILE) :].lstrip("/"))
        try:
            return {"authorization": f"Bearer {path.read_text().strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSetting(f"brokerClientAuthenticationParameters: the token in {path}: {error}") from None


def peer_settings(settings: Settings) -> PeerSettings:
    """The part of `settings`; takes its keys. InvalidSetting if something is missing."""
    plugin = settings.take("brokerClientAuthenticationPlugin", str, "").strip()
    parameters = settings.take("brokerClientAuthenticationParameters", str, "").strip()
    of_plugin = _tls_parameters(parameters) if plugin == _TLS else {}
    found = PeerSettings(
        authorities=settings.take("brokerClientTrustCertsFilePath", str, ""),
        certificate=settings.take("brokerClientCertificateFilePath", str, "") or of_plugin.get("tlsCertFile", ""),
        key=settings.take("brokerClientKeyFilePath", str, "") or of_plugin.get("tlsKeyFile", ""),
        token=parameters.removeprefix(_INLINE) if plugin == _TOKEN else "",
    )
    if bool(found.certificate) != bool(found.key):
        raise InvalidSetting(
            "brokerClientCertificateFilePath and brokerClientKeyFilePath belong together: set both, or neither"
        )
    return found


def client_context(peers: PeerSettings) -> ssl.SSLContext:
    """The context for handshakes with other brokers. InvalidSetting names the wrong file."""
    try:
        context = ssl.create_default_context(cafile=peers.authorities or None)
    except OSError as error:
        raise InvalidSetting(
            f"brokerClientTrustCertsFilePath {peers.authorities}: {error}; name a PEM file with the certificates that "
            "vouch for the brokers of the cluster"
        ) from None
    if peers.certificate:
        try:
            context.load_cert_chain(peers.certificate, peers.key, lambda: "")
        except (OSError, ValueError) as error:
            raise InvalidSetting(
                f"brokerClientCertificateFilePath {peers.certificate} and brokerClientKeyFilePath {peers.key}: "
                f"{error}; name the PEM files of the certificate that this broker shows to others, and of its key, "
                "which has no password"
            ) from None
    return context


def _tls_parameters(text: str) -> dict[str, str]:
    """`name:value` pairs, separated by commas."""
    pairs = (part.partition(":") for part in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs}
