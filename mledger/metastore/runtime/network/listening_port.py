"""A server's listening socket, and how many connections the system lets it keep."""

import errno
import resource
import socket

from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.fork_guard import hold_listener
from mledger.metastore.runtime.network.port_ranges import ports_to_try

log = get_logger(__name__)

BACKLOG = 1024
NAME_ANOTHER = "name another"
_KEEPALIVE_S = 60
_KEEPALIVE_AGAIN_S = 15
_KEEPALIVE_TIMES = 4
_OTHER_FILES = 512
"""The most files that a server opens besides its connections."""
_FEW_FILES_PART = 5
"""The part of a low limit that connections get: a bookie that can open no file for its index ends."""


class PortUnavailable(MledgerError):
    """The address cannot be listened on."""


def bind_listener(host: str, port: int, *, if_in_use: str = NAME_ANOTHER) -> socket.socket:
    """A listening socket; with port 0, one outside the range of ports that outgoing connections get.

    `if_in_use` is the end of the error if the port is in use: what to do about it.

    Raises:
        PortUnavailable: the port is in use, or the address is not of this machine.
    """
    ports = (port,) if port else ports_to_try()
    for number in ports:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _keep_alive(listener)
        try:
            listener.bind((host, number))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if port or error.errno != errno.EADDRINUSE:
                hint = if_in_use if error.errno == errno.EADDRINUSE else NAME_ANOTHER
                raise PortUnavailable(f"cannot listen on {host} port {number}: {error.strerror}; {hint}") from None
        else:
            hold_listener(listener)
            return listener
    raise PortUnavailable(f"no free port found on {host}: name one with --port")


def refuse_waiting(listener: socket.socket) -> int:
    """Close the connections that clients have opened and nobody has accepted yet; return their number."""
    listener.setblocking(False)
    for refused in range(BACKLOG):
        try:
            connection, _ = listener.accept()
        except OSError:  # no more
            return refused
        connection.close()
    return BACKLOG


def allow_connections(wanted: int) -> int:
    """Raise the system's limit to `wanted` connections; return how many it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(soft - _OTHER_FILES, soft // _FEW_FILES_PART)
    log.warning("connections_limited", wanted=wanted, allowed=allowed, open_files=soft)
    return allowed


def _keep_alive(listener: socket.socket) -> None:
    """Have the system end connections to clients that vanished, such as a machine that was switched off.

    Otherwise each would occupy a place within the connection limit, and its buffer. Connections inherit the option from
    their listener.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_AGAIN_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_TIMES)
