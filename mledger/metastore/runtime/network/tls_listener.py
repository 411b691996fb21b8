"""The server's side of encrypted connections: certificates that may change meanwhile, and the handshake.

Each connection begins its handshake with the certificate of that time. A failed handshake is logged and ends its own
connection only. Clients that begin many and go on with none take no more than a fixed number of files.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence

from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.connection_limit import takes_last_files

log = get_logger(__name__)

HANDSHAKE_S = 20.0
MOST_HANDSHAKES = 1_000
"""How many go on at once. The oldest is given up for a further one: it is of a client that does not go on with it."""
SHUTDOWN_S = 5.0
"""How long a client has to answer the end of an encrypted connection."""
ACCEPT_AGAIN_S = 1.0

_Versions = tuple[tuple[int, int, int] | None, ...]


class RenewedCertificates:
    """The SSL context that `build` makes of some files, made again when they change.

    They are looked at when a client connects, at most every `every_s` seconds. A context that cannot be made is logged,
    the one before stays, and the next look tries again: a file's new permissions do not change what is seen of it.
    """

    def __init__(self, build: Callable[[], ssl.SSLContext], files: Sequence[str], every_s: float) -> None:
        self._build = build
        self._files = files
        self._every_s = every_s
        self._seen = self._versions()
        self._context = build()
        self._looked = asyncio.get_running_loop().time()

    def current(self) -> ssl.SSLContext:
        """The context for a handshake now."""
        now = asyncio.get_running_loop().time()
        if now - self._looked >= self._every_s:
            self._looked = now
            self._look()
        return self._context

    def _look(self) -> None:
        found = self._versions()
        if found == self._seen:
            return
        try:
            self._context = self._build()
        except MledgerError as error:
            log.warning("certificates_not_renewed", files=self._files, error=error)
        else:
            self._seen = found
            log.info("certificates_renewed", files=self._files)

    def _versions(self) -> _Versions:
        """What tells that a file changed; None for one that cannot be looked at."""
        found: list[tuple[int, int, int] | None] = []
        for path in self._files:
            try:
                status = os.stat(path)
            except OSError:
                found.append(None)
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)


class TlsListener:
    """Accepts encrypted connections at a listening socket; each is served by what `factory` makes."""

    def __init__(
        self, listener: socket.socket, factory: Callable[[], asyncio.BaseProtocol], certificates: RenewedCertificates
    ) -> None:
        self._listener = listener
        self._factory = factory
        self._certificates = certificates
        self._handshakes: dict[asyncio.Task[None], str] = {}  # oldest first, with their clients
        listener.setblocking(False)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and give up handshakes; what is served goes on."""
        self._accepting.cancel()
        for handshake in self._handshakes:
            handshake.cancel()

    def _give_up_oldest(self) -> None:
        oldest = next(iter(self._handshakes))
        log.warning("tls_handshake_given_up", client=self._handshakes.pop(oldest), others=len(self._handshakes))
        oldest.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._listener)
            except ConnectionError:  # gone before it was accepted
                continue
            except OSError as error:  # too many open files
                log.warning("connection_not_accepted", error=error)
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            if takes_last_files(connection):
                log.warning("connection_not_accepted", error="the process could open few more files")
                connection.close()
                continue
            if len(self._handshakes) >= MOST_HANDSHAKES:
                self._give_up_oldest()
            client = f"{peer[0]}:{peer[1]}"
            handshake = loop.create_task(self._encrypt(connection, client))
            self._handshakes[handshake] = client
            handshake.add_done_callback(self._ended)

    def _ended(self, handshake: "asyncio.Task[None]") -> None:
        self._handshakes.pop(handshake, None)

    async def _encrypt(self, connection: socket.socket, client: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory,
                connection,
                ssl=self._certificates.current(),
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:  # ssl.SSLError is one
            log.warning("tls_handshake_failed", client=client, error=error)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
