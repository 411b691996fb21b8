"""Connections between a client and a bookie of one process and event loop, without a socket.

Bytes are handed over in memory, and otherwise as a socket would: later than the call that writes them, in order, and
no more than the other side takes. As BookKeeper's `enableLocalTransport`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

P = TypeVar("P", bound=asyncio.Protocol)

Address = tuple[str, int]
ProtocolFactory = Callable[[], asyncio.BufferedProtocol]

_HIGH_WATER = 64 << 10
_PEER_NAME = ("local", 0)

_served: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Address, ProtocolFactory]] = WeakKeyDictionary()


def serve_locally(address: Address, make: ProtocolFactory, id_port: int = 0) -> Callable[[], None]:
    """Let clients on the running loop that connect to `address` reach what `make` returns; returns what ends that.

    `id_port`: the port in the bookie's id, if it listens at another one. Clients try that while the bookie is not
    registered, and another program may listen there: they do not reach it, afterwards either.

    OSError if the running loop serves another bookie at that port, or knows another one by the port of `address`: that
    can be by chance, if it is a free one, and clients would take one bookie for the other.
    """
    bookies = _served.setdefault(asyncio.get_running_loop(), {})
    other = (address[0], id_port or address[1])
    here = bookies.get(address, _refuse)
    known_here = here is not _refuse and any(each is here for at, each in bookies.items() if at != address)
    if known_here or (other != address and bookies.get(other, _refuse) is not _refuse):
        host, port = address if known_here else other
        raise OSError(f"{host}:{port} is another bookie of this process: start again, at another free port")
    bookies[address] = bookies[other] = make

    def end() -> None:
        if other != address and bookies.get(other) is make:
            bookies[other] = _refuse
        if bookies.get(address) is make:
            del bookies[address]

    return end


def _refuse() -> asyncio.BufferedProtocol:
    raise ConnectionRefusedError("the bookie has ended")


def connect_locally(make: Callable[[], P], address: Address) -> P | None:
    """Connect what `make` returns to the bookie that the running loop serves at `address`; None if there is none."""
    loop = asyncio.get_running_loop()
    bookie = _served.get(loop, {}).get(address)
    if bookie is None:
        return None
    protocol = make()
    ours, theirs = LocalTransport(loop, protocol), LocalTransport(loop, bookie())
    ours.connect(theirs)
    return protocol


class LocalTransport(asyncio.Transport):
    """One end of a connection; bytes that are written to it are in the other end's inbox at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._loop, self._protocol = loop, protocol
        self._peer: LocalTransport
        self._inbox: deque[bytes] = deque()
        self._held = 0  # bytes in the inbox
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._closed = self._peer_closed = self._full = False
        self._reading, self._scheduled = True, False

    def connect(self, peer: "LocalTransport") -> None:
        """Begin; the peer, which is the bookie's end, begins first."""
        self._peer, peer._peer = peer, self
        peer._protocol.connection_made(peer)
        self._protocol.connection_made(self)

    # Out

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Put `data` into the other end's inbox; dropped if either end is closed."""
        peer = self._peer
        if self._closed or peer._closed or not data:
            return
        peer._inbox.append(data if isinstance(data, bytes) else bytes(data))
        peer._held += len(data)
        peer._wake()
        if peer._held > self._high and not self._full:
            self._full = True
            self._tell(self._protocol.pause_writing)

    def _drained(self) -> None:
        if self._full and self._peer._held <= self._low and not self._closed:
            self._full = False
            self._tell(self._protocol.resume_writing)

    def _tell(self, call: Callable[[], None]) -> None:
        """Call the protocol on behalf of who writes or of the other end, to whom its failure means nothing."""
        try:
            call()
        except Exception as error:
            what = "a protocol failed on being told of its buffer"
            self._loop.call_exception_handler({"message": what, "exception": error, "protocol": self._protocol})

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set how many bytes may wait in the other end's inbox before the protocol is told to pause."""
        self._high = _HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """The bytes that the other end has not taken."""
        return self._peer._held

    # In

    def is_reading(self) -> bool:
        """Whether received bytes are handed to the protocol."""
        return self._reading and not self._closed

    def pause_reading(self) -> None:
        """Keep received bytes in the inbox."""
        self._reading = False

    def resume_reading(self) -> None:
        """Hand received bytes to the protocol again."""
        self._reading = True
        self._wake()

    def _wake(self) -> None:
        if self._reading and not self._scheduled and (self._inbox or self._peer_closed):
            self._scheduled = True
            self._loop.call_soon(self._take)

    def _take(self) -> None:
        """Hand over what has come by now, and the end of the connection behind it."""
        self._scheduled = False
        if self._closed or not self._reading:
            return
        try:
            if self._inbox:
                self._deliver()
        except Exception as error:
            what = "a protocol failed on what it received"
            self._loop.call_exception_handler({"message": what, "exception": error, "protocol": self._protocol})
            self._close(error)
            return
        if self._peer_closed and not self._inbox and self._reading:
            self._close(None)
        else:
            self._wake()
        self._peer._drained()  # last, since it may raise

    def _deliver(self) -> None:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._fill(self._protocol)
            return
        data = self._inbox[0] if len(self._inbox) == 1 else b"".join(self._inbox)
        self._inbox.clear()
        self._held = 0
        cast("asyncio.Protocol", self._protocol).data_received(data)

    def _fill(self, protocol: asyncio.BufferedProtocol) -> None:
        """Fill the protocol's buffer once from as many pieces as fit."""
        inbox = self._inbox
        buffer = memoryview(protocol.get_buffer(self._held))
        room, at = len(buffer), 0
        while inbox and at < room:
            piece = inbox.popleft()
            end = at + len(piece)
            if end > room:
                inbox.appendleft(piece[room - at :])
                piece, end = piece[: room - at], room
            buffer[at:end] = piece
            at = end
        self._held -= at
        protocol.buffer_updated(at)

    # The end

    def is_closing(self) -> bool:
        """Whether the end has begun."""
        return self._closed

    def close(self) -> None:
        """End the connection; the other end still gets what was written."""
        self._close(None)

    def abort(self) -> None:
        """As `close`: nothing that was written waits here."""
        self._close(None)

    def _close(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._inbox.clear()
        self._held = 0
        self._loop.call_soon(self._protocol.connection_lost, error)
        self._peer._peer_closed = True
        self._peer._wake()
        self._loop.call_soon(self._peer._drained)  # it may read nothing, not even the end, until what it wrote is taken

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`peername` only."""
        return _PEER_NAME if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what comes from now on to another protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol."""
        return self._protocol
