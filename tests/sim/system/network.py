"""Connections between simulated processes: ordered, delayed, cut, blocked and half open.

Every direction of a connection keeps its order. What is on its way when a link is blocked waits until it is healed, as
TCP sends it again. A process that is killed closes its connections; a machine that loses its power does not, and its
peers learn of it only when they send to it after it is back.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import Any

from tests.sim.system.loop import Process, SimLoop

LATENCY_S = 0.0003
_HIGH_WATER = 64 << 10
_CONNECT_REFUSED = 111
Address = tuple[str, int]


@dataclass(eq=False)
class Listener:
    """A port that a process listens on."""

    network: "Network"
    process: Process
    address: Address
    factory: Callable[[], asyncio.BaseProtocol] | None = None
    waiting: "list[SimTransport]" = field(default_factory=list)
    """Ends of connections that came before it is served."""

    def getsockname(self) -> Address:
        """As a socket."""
        return self.address

    def close(self) -> None:
        """Listen no more."""
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]


@dataclass(eq=False)
class Link:
    """The way from one process to another. `held` is what waits there, each with its place in the order of all."""

    blocked: bool = False
    held: list[tuple[int, Callable[[], None]]] = field(default_factory=list)


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "Network", process: Process, host: str, peer: Address) -> None:
        super().__init__({"peername": peer})
        self.network, self.process, self.host = network, process, host
        self.protocol: Any = None
        self.other: SimTransport
        self.rng: Random
        self.last_delivery = 0.0
        self._inbox: deque[bytes | None] = deque()
        self._paused = self._closing = self.lost = False
        self.reset_early = False  # before the process knew that it is connected
        self._unsent, self._high, self._choked = 0, _HIGH_WATER, False

    def write(self, data: Any) -> None:
        """Send a copy of `data` after everything sent before."""
        if self._closing or not data:
            return
        copy = bytes(data)
        self._unsent += len(copy)
        self.network.send(self, copy)
        if self._unsent > self._high and not self._choked:
            self._choked = True
            self.protocol.pause_writing()

    def delivered(self, size: int) -> None:
        """The other end has taken `size` bytes."""
        self._unsent -= size
        if self._choked and self._unsent <= self._high // 4 and not self.lost:
            self._choked = False
            self.network.loop.run_as(self.process, self._resume)

    def _resume(self) -> None:
        if not self.lost and not self._choked:
            self.protocol.resume_writing()

    def take(self, data: bytes | None) -> None:
        """What arrives; None is the end of the stream."""
        if self.lost:
            return
        self._inbox.append(data)
        self._hand_over()

    def _hand_over(self) -> None:
        while self._inbox and not self._paused and not self._closing:
            data = self._inbox.popleft()
            if data is None:
                if not self.protocol.eof_received():
                    self._lose(None)
                return
            self.other.delivered(len(data))
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                self._fill(data)
            else:
                self.protocol.data_received(data)

    def _fill(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._closing:
            if self._paused:
                self._inbox.appendleft(data[at:])
                self.other._unsent += len(data) - at
                return
            buffer = self.protocol.get_buffer(-1)
            if not buffer:
                raise RuntimeError("get_buffer() returned an empty buffer")  # as asyncio
            size = min(len(buffer), len(data) - at)
            buffer[:size] = data[at : at + size]
            at += size
            self.protocol.buffer_updated(size)

    def pause_reading(self) -> None:
        """Take nothing until `resume_reading`."""
        self._paused = True

    def resume_reading(self) -> None:
        """Take what arrived meanwhile, soon."""
        if self._paused:
            self._paused = False
            self.network.loop.run_as(self.process, self._hand_over)

    def is_reading(self) -> bool:
        """Whether what arrives is taken."""
        return not self._paused

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what arrives to `protocol`."""
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who gets what arrives."""
        assert self.protocol is not None
        return self.protocol  # type: ignore[no-any-return]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As a transport."""
        self._high = _HIGH_WATER if high is None else high

    def get_write_buffer_size(self) -> int:
        """Bytes that the other end has not taken."""
        return self._unsent

    def is_closing(self) -> bool:
        """Whether this end was closed."""
        return self._closing

    def close(self) -> None:
        """Send what was written, then the end."""
        if not self._closing:
            self._closing = True
            self.network.send(self, None)
            self.network.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """End the connection at once."""
        if not self.lost:
            self._closing = True
            self.network.reset(self.other)
            self.network.loop.call_soon(self._lose, None)

    def break_off(self) -> None:
        """The connection is reset from outside."""
        self._closing = True
        self.network.loop.run_as(self.process, self._lose, ConnectionResetError(104, "connection reset by peer"))

    def _lose(self, error: Exception | None) -> None:
        if self.lost:
            return
        self.lost = self._closing = True
        self._inbox.clear()
        self.network.forget(self)
        self.protocol.connection_lost(error)


class Network:
    """All connections of a simulation."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.listeners: dict[Address, Listener] = {}
        self.latency_s: dict[str, float] = {}
        """Added to what a process sends and gets, by its name: seconds."""
        self._links: dict[tuple[str, str], Link] = {}
        self._open: dict[SimTransport, None] = {}
        self._dead_hosts: set[str] = set()
        self._made = self._held = 0
        loop.use_network(self.listen, self.connect)

    # What processes do

    def listen(self, factory: Any, host: str, port: int, bound: Listener | None) -> Listener:
        """Serve a port."""
        listener = bound or self.bind(host, port)
        listener.factory = factory
        for far in listener.waiting:  # a bookie closes them before it serves
            if not far.lost:
                far.lost = True
                self.forget(far)
                self.reset(far.other)
        listener.waiting.clear()
        return listener

    def bind(self, host: str, port: int) -> Listener:
        """Hold a port for the current process. OSError when another one has it."""
        address = host, port
        holder = self.listeners.get(address)
        if holder is not None and holder.process.alive:
            raise OSError(98, "address already in use")
        listener = self.listeners[address] = Listener(self, self.loop.current, address)
        return listener

    async def connect(self, factory: Any, host: str, port: int) -> tuple[SimTransport, Any]:
        """Open a connection, or fail as a network does."""
        process = self.loop.current
        future = self.loop.create_future()
        self._made += 1
        number = self._made
        rng = Random(f"{self.loop.seed}/connection/{number}/{process.name}/{host}")
        link = self.link(process.name, host)

        def arrive() -> None:
            if link.blocked or host in self._dead_hosts:
                self._hold(link, arrive)
                return
            listener = self.listeners.get((host, port))
            if listener is None or not listener.process.alive:
                error = ConnectionRefusedError(_CONNECT_REFUSED, f"connect to {host}:{port} refused")
                self.loop.later_as(process, self._delay(rng, process.name, host), self._fail, future, error)
                return
            near = SimTransport(self, process, process.name, (host, port))
            far = SimTransport(self, listener.process, host, (process.name, number))
            near.other, far.other = far, near
            near.rng, far.rng = rng, Random(f"{self.loop.seed}/answers/{number}/{host}")
            self._open[near] = self._open[far] = None
            self.loop.run_as(listener.process, self._accept, listener, far)
            self.loop.later_as(process, self._delay(rng, host, process.name), self._connected, future, factory, near)

        self.loop.later_as(self.loop.world, self._delay(rng, process.name, host), arrive)
        near, protocol = await future
        return near, protocol

    @staticmethod
    def _fail(future: asyncio.Future[Any], error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    def _connected(self, future: asyncio.Future[Any], factory: Any, near: SimTransport) -> None:
        if future.done():  # cancelled
            self.reset(near.other)
            self.forget(near)
            near.lost = True
            return
        near.protocol = factory()
        near.protocol.connection_made(near)
        future.set_result((near, near.protocol))
        near._hand_over()
        if near.reset_early:
            near.break_off()

    def _accept(self, listener: Listener, far: SimTransport) -> None:
        if far.lost:
            return
        if listener.factory is None:
            listener.waiting.append(far)
            return
        far.protocol = listener.factory()
        far.protocol.connection_made(far)
        far._hand_over()

    # What is on its way

    def send(self, sender: SimTransport, data: bytes | None) -> None:
        """Bring bytes to the other end, or the end of the stream."""
        other = sender.other
        at = max(self.loop.now + self._delay(sender.rng, sender.host, other.host), sender.last_delivery)
        sender.last_delivery = at
        self.loop.later_as(self.loop.world, at - self.loop.now, self._arrive, sender, data)

    def _arrive(self, sender: SimTransport, data: bytes | None) -> None:
        other = sender.other
        link = self.link(sender.host, other.host)
        if link.blocked:
            self._hold(link, lambda: self._arrive(sender, data))
            return
        if other.host in self._dead_hosts:
            return
        if not other.process.alive:  # a new process of that host knows nothing of this connection
            if not sender.lost:
                sender.break_off()
            return
        self.loop.run_as(other.process, self._take, other, data)

    @staticmethod
    def _take(transport: SimTransport, data: bytes | None) -> None:
        if transport.protocol is None:
            transport._inbox.append(data)
        else:
            transport.take(data)

    def reset(self, transport: SimTransport) -> None:
        """Tell one end that the connection is gone."""
        if transport.lost:
            return
        delay = self._delay(transport.rng, transport.other.host, transport.host)
        self.loop.later_as(self.loop.world, delay, self._reset_arrives, transport)

    def _reset_arrives(self, transport: SimTransport) -> None:
        link = self.link(transport.other.host, transport.host)
        if link.blocked:
            self._hold(link, lambda: self._reset_arrives(transport))
        elif transport.process.alive and not transport.lost:
            if transport.protocol is None:
                transport.reset_early = True
            else:
                transport.break_off()

    def forget(self, transport: SimTransport) -> None:
        """An end is gone."""
        self._open.pop(transport, None)

    def _delay(self, rng: Random, a: str, b: str) -> float:
        delay = LATENCY_S * (0.2 - log(1.0 - rng.random()))
        if self.latency_s:
            extra = self.latency_s.get(a, 0.0) + self.latency_s.get(b, 0.0)
            if extra:
                delay += extra * rng.random() * 2
        return delay

    # What happens to the network

    def link(self, sender: str, receiver: str) -> Link:
        """The way from one process to another, by their hosts' names."""
        key = sender, receiver
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link()
        return link

    def _hold(self, link: Link, arrive: Callable[[], None]) -> None:
        self._held += 1
        link.held.append((self._held, arrive))

    def block(self, a: str, b: str) -> None:
        """Hold everything between two hosts."""
        self.block_way(a, b)
        self.block_way(b, a)

    def block_way(self, sender: str, receiver: str) -> None:
        """Hold everything that one host sends to another."""
        self.link(sender, receiver).blocked = True

    def heal(self, a: str, b: str) -> None:
        """Let what was held between two hosts arrive, in its order."""
        self._release(self.link(a, b), self.link(b, a))

    def heal_way(self, sender: str, receiver: str) -> None:
        """Let what one host has sent to another arrive, in its order."""
        self._release(self.link(sender, receiver))

    def _release(self, *links: Link) -> None:
        held = sorted(waiting for link in links for waiting in link.held)
        for link in links:
            link.blocked, link.held = False, []
        for _, arrive in held:
            self.loop.run_as(self.loop.world, arrive)

    def heal_all(self) -> None:
        """Heal every link."""
        for a, b in list(self._links):
            self.heal(a, b)
        self.latency_s.clear()

    def cut(self, a: str, b: str) -> None:
        """Reset the connections between two hosts."""
        for transport in list(self._open):
            if {transport.host, transport.other.host} == {a, b} and transport.protocol is not None:
                transport.break_off()

    def process_died(self, process: Process, *, power: bool) -> None:
        """Close a killed process's connections; without power nobody closes them, and nobody answers."""
        if power:
            self._dead_hosts.add(process.name)
        for transport in list(self._open):
            if transport.process is process:
                transport.lost = True
                self.forget(transport)
                if not power:
                    self.reset(transport.other)
        for listener in list(self.listeners.values()):
            if listener.process is process:
                listener.close()

    def host_is_back(self, host: str) -> None:
        """A machine has its power again."""
        self._dead_hosts.discard(host)
        for pair, link in self._links.items():
            if host in pair and not link.blocked and link.held:
                self._release(link)
