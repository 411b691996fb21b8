"""The sockets that a broker listens at: for its own protocol and for HTTP, each unencrypted and by TLS."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from msgspec import Struct

from mledger.broker.lookup.broker_records import BrokerAddress
from mledger.broker.process.options import BrokerOptions, plan_web_url
from mledger.broker.security.tls_settings import BrokerTls, server_context
from mledger.metastore.runtime.network.listening_port import BACKLOG, bind_listener
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates, TlsListener


class ServedPorts(Struct, frozen=True):
    """The ports, None where a broker does not serve."""

    plain: int | None = None
    tls: int | None = None
    web: int | None = None
    web_tls: int | None = None


class BrokerListeners(Struct, frozen=True):
    """Listening sockets, None where a broker does not serve."""

    plain: socket.socket | None = None
    tls: socket.socket | None = None
    web: socket.socket | None = None
    web_tls: socket.socket | None = None

    @property
    def ports(self) -> ServedPorts:
        """Their ports."""
        sockets = (self.plain, self.tls, self.web, self.web_tls)
        return ServedPorts(*(None if each is None else each.getsockname()[1] for each in sockets))


def certificates_of(tls: BrokerTls) -> RenewedCertificates | None:
    """What encrypts the ports that are to be; None if there is none. InvalidSetting names a wrong file."""
    return RenewedCertificates(lambda: server_context(tls), tls.files, tls.refresh_check_s) if tls.used else None


def bind_listeners(options: BrokerOptions, stack: contextlib.ExitStack) -> BrokerListeners:
    """Listen where the options say; `stack` closes the sockets. PortUnavailable."""

    def bind(host: str, port: int | None) -> socket.socket | None:
        return None if port is None else stack.enter_context(bind_listener(host, port))

    web_host, web_port = (options.metrics_host, None) if options.metrics is None else options.metrics
    return BrokerListeners(
        plain=bind(options.host, options.port),
        tls=bind(options.host, options.tls.port),
        web=bind(web_host, web_port),
        web_tls=bind(options.metrics_host, options.tls.web_port),
    )


def plan_address(options: BrokerOptions, ports: ServedPorts) -> BrokerAddress:
    """What clients and other brokers are told of a broker that serves at `ports`."""
    host = f"[{options.announced}]" if ":" in options.announced else options.announced
    return BrokerAddress(
        f"{host}:{ports.tls if ports.plain is None else ports.plain}",
        "" if ports.plain is None else f"pulsar://{host}:{ports.plain}",
        url_tls="" if ports.tls is None else f"pulsar+ssl://{host}:{ports.tls}",
        web_url="" if ports.web is None else plan_web_url(options, ports.web),
        web_url_tls="" if ports.web_tls is None else plan_web_url(options, ports.web_tls, encrypted=True),
    )


async def serve_connections(
    factory: Callable[[], asyncio.BaseProtocol], listeners: BrokerListeners, certificates: RenewedCertificates | None
) -> list[asyncio.Server | TlsListener]:
    """Serve clients of the broker's own protocol, each by what `factory` makes."""
    loop, servers = asyncio.get_running_loop(), list[asyncio.Server | TlsListener]()
    if listeners.plain is not None:
        servers.append(await loop.create_server(factory, sock=listeners.plain, backlog=BACKLOG))
    if listeners.tls is not None and certificates is not None:
        servers.append(TlsListener(listeners.tls, factory, certificates))
    return servers
