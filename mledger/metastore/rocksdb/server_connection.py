"""One client's connection at a metadata server: requests in, answers and events out, in order, within limits."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Protocol, cast

from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb.peer import PeerProcess, process_of
from mledger.metastore.rocksdb.sessions import ServerSession
from mledger.metastore.rocksdb.wire import MAX_ANSWER, Frames, WireError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import NodeChange

log = get_logger(__name__)

MAX_UNREAD = 2 * MAX_ANSWER
"""The most unread bytes that a client may leave; beyond it, the server closes the connection."""
TURN_BYTES = MAX_ANSWER // 4
"""Bytes of answers after which a connection's other requests wait until the client has read them."""


class RequestProcessor(Protocol):
    """What a connection hands its requests to."""

    def admits(self, connection: "ServerConnection") -> bool:
        """Whether a connection may begin."""

    def submit(self, connection: "ServerConnection", request: pb.Request) -> None:
        """Have a request answered."""

    def answered(self, connection: "ServerConnection") -> None:
        """Something waits to be sent at the turn's end."""

    def lost(self, connection: "ServerConnection") -> None:
        """The connection has ended."""


class ServerConnection(asyncio.Protocol):
    """A connection; `session` is None before its greeting, and for clients that only read."""

    def __init__(self, turns: RequestProcessor) -> None:
        """Hand requests to `turns`."""
        self._turns = turns
        self._frames = Frames(pb.Request)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._unread = False
        self._later: list[pb.Request] = []
        self._transport: asyncio.Transport
        self.process: PeerProcess | None = None
        self.admitted = False
        self.greeted = False
        self.session: ServerSession | None = None
        self.watches: dict[int, tuple[str, bool, Callable[[NodeChange], None]]] = {}
        self.ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asyncio's: a client has connected."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it
        connection: socket.socket = transport.get_extra_info("socket")
        self.process = process_of(connection)
        self.admitted = self._turns.admits(self)
        if not self.admitted:
            self.stop()

    def data_received(self, data: bytes) -> None:
        """Asyncio's: bytes of requests."""
        self._hear()
        try:
            for request in self._frames.feed(data):
                self._turns.submit(self, request)
        except WireError as error:
            self.abort(str(error))

    def connection_lost(self, error: Exception | None) -> None:
        """Asyncio's: the connection has ended."""
        self.ending = True
        self._later = []
        self._turns.lost(self)

    def pause_writing(self) -> None:
        """Asyncio's: the client reads too slowly, so stop reading from it."""
        self._unread = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Asyncio's: the client has caught up. That it reads is a sign of life: its heartbeats may not be read yet."""
        self._unread = False
        self._hear()
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self._go_on()

    def postpones(self, request: pb.Request) -> bool:
        """Whether a request has to wait until the client has read earlier answers; it is then submitted again."""
        if self.ending or not (self._later or self._unread or self._out_bytes > TURN_BYTES):
            return False
        self._later.append(request)
        return True

    def _hear(self) -> None:
        if self.session is not None:
            self.session.heard(time.monotonic())

    def _go_on(self) -> None:
        """Submit the postponed requests again; no later ones can have come before them: nothing is read meanwhile."""
        later, self._later = self._later, []
        for request in later:
            self._turns.submit(self, request)

    def put(self, data: bytes) -> None:
        """Send `data` at the end of the turn."""
        if not self._out:
            self._turns.answered(self)
        self._out.append(data)
        self._out_bytes += len(data)

    def flush(self) -> None:
        """Send what was put; then close the connection if nothing more is to follow."""
        out, self._out, self._out_bytes = self._out, [], 0
        if self._transport.is_closing():
            return
        if out:
            self._transport.write(b"".join(out))
        if self.ending:
            self._transport.close()
        elif self._transport.get_write_buffer_size() > MAX_UNREAD:
            self.abort(f"it leaves more than {MAX_UNREAD} bytes unread")
        elif not self._unread:
            self._go_on()

    def abort(self, why: str) -> None:
        """End the connection at once; its session may continue on another."""
        log.warning("connection_aborted", pid=self.process and self.process.pid, reason=why)
        self.stop()

    def stop(self) -> None:
        """End the connection at once."""
        self.ending = True
        self._transport.abort()
