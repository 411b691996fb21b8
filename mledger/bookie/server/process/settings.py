"""BookKeeper's own keys, as in `bookkeeper.conf`, and what they mean here (docs/reference/configuration.md)."""

import socket
from collections.abc import Callable
from typing import Any, TypeVar

from mledger.bookie import wire
from mledger.bookie.server.process.known_settings import KNOWN
from mledger.bookie.server.serving.tls import PEM, TlsSettings
from mledger.metastore.errors import InvalidMetadataUrl, InvalidSetting
from mledger.metastore.runtime.settings import Settings, boolean, integer, number
from mledger.metastore.url import SplitUrl, parse_url

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - listened on only where a setting says so
OWN_KEYS = frozenset({"mledgerGcGraceTime", "mledgerMaxConnections"})
KNOWN_KEYS = KNOWN | OWN_KEYS

_PROMETHEUS = "PrometheusMetricsProvider"
_TLS_PROVIDER = "TLSContextFactory"
_ROLES_PROVIDER = "BookieAuthZFactory"
_SASL_PROVIDER = "SASLBookieAuthProviderFactory"
_HTTP_PORT = 8080
_MAX_INT = 2**31 - 1
_MIB = 1 << 20

_port = integer(0, 65535)
_share = number(0, 1)


class BookieSettings:
    """The settings of a bookie process in this program's terms; None or empty where not given."""

    def __init__(self, settings: Settings) -> None:
        """Raise InvalidSetting for settings with which a bookie cannot start."""
        self._settings = settings
        for key, instead in (
            ("httpServerTlsEnable", "this bookie serves HTTP without TLS: leave it out"),
            (
                "zkEnableSecurity",
                "a metadata URL says how to log in, zk://…?config=FILE (docs/how-to/zookeeper.md): leave it out",
            ),
        ):
            if settings.take(key, str.lower, "false") not in ("false", "null"):
                raise InvalidSetting(f"{settings.where(key)}: {key} is set, and {instead}")

    def text(self, key: str) -> str:
        """A text, empty if it was not given."""
        return self._settings.take(key, str, "")

    def flag(self, key: str, default: bool) -> bool:
        """A truth value."""
        return self._settings.take(key, boolean, default)

    def integer(self, key: str, default: int, *, low: int = 1, unit: int = 1) -> int:
        """A whole number in units of `unit`."""
        return self._settings.take(key, integer(low, _MAX_INT), default // unit) * unit

    def seconds(self, key: str, default: float, *, low: int = 1) -> float:
        """Seconds, written as milliseconds."""
        return self._settings.take(key, integer(low, _MAX_INT), round(default * 1000)) / 1000

    def share(self, key: str, default: float) -> float:
        """A share of a whole."""
        return self._settings.take(key, _share, default)

    @property
    def port(self) -> int | None:
        """The bookie's port."""
        found: int | None = self._optional("bookiePort", _port)
        return found

    @property
    def addresses(self) -> tuple[str, str]:
        """The address to listen on and the one to register; both empty if no setting names them.

        A bookie with an address to register listens on all interfaces, as BookKeeper does, unless that address is a
        loopback address or `listeningInterface` names one interface.
        """
        interface = self._optional("listeningInterface", _interface_address)
        announced = self.text("advertisedAddress")
        named = self.flag("useHostNameAsBookieID", False)
        short = self.flag("useShortHostName", False)
        if named and not announced:
            announced = socket.gethostname().partition(".")[0] if short else socket.getfqdn()
        if not announced:
            return interface or "", interface or ""
        loopback = announced == "localhost" or announced.startswith("127.")
        return interface or (announced if loopback else ALL_INTERFACES), announced

    @property
    def directory(self) -> str:
        """The directory of the index, and of the journal unless that has its own."""
        return self._one_directory("ledgerDirectories")

    @property
    def journal(self) -> str:
        """The journal's own directory."""
        return self._one_directory("journalDirectories") or self._one_directory("journalDirectory")

    @property
    def metadata(self) -> tuple[str, str]:
        """The metadata store's URL and the ledgers' root in it."""
        root = self.text("zkLedgersRootPath")
        servers = self._optional("zkServers", _metadata_of_servers) or ""
        found = self._optional("metadataServiceUri", _metadata_of_service)
        return found or (servers, root)

    @property
    def metrics(self) -> tuple[str, int] | None:
        """Where to serve metrics and health."""
        settings = self._settings
        host = settings.take("httpServerHost", str, LOOPBACK)
        port = settings.take("httpServerPort", _port, _HTTP_PORT)
        if self.flag("httpServerEnabled", False):
            return host, port
        provider = self.text("statsProviderClass")
        wanted = self.flag("enableStatistics", True) and self.flag("prometheusStatsHttpEnable", True)
        host = settings.take("prometheusStatsHttpAddress", str, LOOPBACK)
        stats_port = self._optional("prometheusStatsHttpPort", _port)
        if stats_port is None or not wanted or (provider and not provider.endswith(_PROMETHEUS)):
            return None
        return host, stats_port

    @property
    def auth(self) -> str:
        """The factory of connections' authentication, MODULE:FACTORY; empty for BookKeeper's own, by roles."""
        found = self._optional("bookieAuthProviderFactoryClass", _auth_factory) or ""
        return "" if found == _ROLES_PROVIDER else found

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that clients' certificates may name; empty if roles are not asked for."""
        found: tuple[str, ...] = self._optional("authorizedRoles", _listed) or ()
        if self._optional("bookieAuthProviderFactoryClass", _auth_factory) != _ROLES_PROVIDER:
            return ()
        wanted = {
            "authorizedRoles": found,
            "tlsProviderFactoryClass": self._optional("tlsProviderFactoryClass", _tls_provider),
            "tlsClientAuthentication=true": self.flag("tlsClientAuthentication", False),
        }
        missing = [name for name, value in wanted.items() if not value]
        if missing:
            raise InvalidSetting(
                f"{self._settings.where('bookieAuthProviderFactoryClass')}: bookieAuthProviderFactoryClass is "
                f"{_ROLES_PROVIDER}, and {', '.join(missing)} not set: it lets clients in by the roles in their "
                "certificates, and would refuse all"
            )
        return found

    @property
    def tls(self) -> TlsSettings | None:
        """How connections are encrypted when clients ask for it; None if encryption is not configured."""
        if self._optional("tlsProviderFactoryClass", _tls_provider) is None:
            return None
        self.text("tlsProvider")  # either of BookKeeper's: the system's OpenSSL serves
        kind = self._settings.take("tlsKeyStoreType", _pem, "")
        trusted = self.text("tlsTrustStore")
        if trusted:
            self._settings.take("tlsTrustStoreType", _pem, "")
        key, certificate = self.text("tlsKeyStore"), self.text("tlsCertificatePath")
        wanted = {"tlsKeyStoreType": kind, "tlsKeyStore": key, "tlsCertificatePath": certificate}
        missing = [name for name, value in wanted.items() if not value]
        if self.flag("tlsClientAuthentication", False) and not trusted:
            missing.append("tlsTrustStore")
        if missing:
            raise InvalidSetting(
                f"{self._settings.where('tlsProviderFactoryClass')}: tlsProviderFactoryClass is set, and "
                f"{', '.join(missing)} not: encrypted connections need tlsKeyStoreType=PEM, the PEM file of the "
                "bookie's key (tlsKeyStore) and of its certificate (tlsCertificatePath), and to authenticate clients "
                "that of their authorities (tlsTrustStore)"
            )
        return TlsSettings(
            certificate,
            key,
            self.text("tlsKeyStorePasswordPath"),
            trusted,
            self.flag("tlsClientAuthentication", False),
            tuple(filter(None, self.text("tlsEnabledProtocols").split(","))),
            self.text("tlsEnabledCipherSuites").replace(",", ":"),
            float(self.integer("tlsCertFilesRefreshDurationSeconds", 0, low=0)),
        )

    @property
    def max_frame(self) -> int | None:
        """The largest request in bytes."""
        found: int | None = self._optional("nettyMaxFrameSizeBytes", integer(wire.ADD_HEAD.size, wire.LARGEST_FRAME))
        return found

    @property
    def journal_file_bytes(self) -> int | None:
        """The most bytes that a journal file may have."""
        found = self._optional("journalMaxSizeMB", integer(1, 2047 * 1024))
        return None if found is None else found * _MIB

    def _optional(self, key: str, parse: Callable[[str], Any]) -> Any:
        return self._settings.take(key, parse, None)

    def _one_directory(self, key: str) -> str:
        found: str = self._settings.take(key, _single, "")
        return found


def _single(text: str) -> str:
    if "," in text:
        raise ValueError("this bookie has one journal and one index: name one directory")
    return text


def _auth_factory(text: str) -> str:
    if text == "null":
        return ""
    if text.rpartition(".")[2] == _ROLES_PROVIDER:
        return _ROLES_PROVIDER
    if text.endswith(_SASL_PROVIDER):
        raise ValueError(
            "this bookie has no SASL or Kerberos: let clients show certificates (tlsClientAuthentication), with roles "
            f"if need be (org.apache.bookkeeper.tls.{_ROLES_PROVIDER})"
        )
    module, separator, factory = text.partition(":")
    if not (module and separator and factory):
        raise ValueError("this bookie is not a Java program: write MODULE:FACTORY of a Python one, or leave it out")
    return text


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _tls_provider(text: str) -> str | None:
    if text.lower() in ("null", "false"):
        return None
    if not text.endswith(_TLS_PROVIDER):
        raise ValueError("this bookie has BookKeeper's own TLS only: write org.apache.bookkeeper.tls.TLSContextFactory")
    return text


def _pem(text: str) -> str:
    if text.upper() != PEM:
        raise ValueError(
            "this bookie reads PEM files only: convert the store (JKS to PKCS12 by keytool -importkeystore, then PEM "
            "by openssl pkcs12), and say PEM"
        )
    return PEM


def _metadata_of_servers(text: str) -> str:
    try:
        return str(parse_url(f"zk://{text}"))
    except InvalidMetadataUrl as error:
        raise ValueError(str(error)) from None


def _metadata_of_service(text: str) -> tuple[str, str]:
    try:
        parsed = parse_url(f"memory:?ledgers={text}")
    except InvalidMetadataUrl as error:
        raise ValueError(str(error)) from None
    assert isinstance(parsed, SplitUrl)
    return str(parsed.ledgers), parsed.root


def _interface_address(text: str) -> str:
    import psutil

    for each in psutil.net_if_addrs().get(text, ()):
        if each.family == socket.AF_INET:
            return str(each.address)
    raise ValueError(f"no such network interface with an address: {', '.join(sorted(psutil.net_if_addrs()))}")
