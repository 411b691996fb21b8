"""A simulated connection hands over what an asyncio transport would, and no more."""

import asyncio

from tests.sim.system.loop import SimLoop
from tests.sim.system.network import Network


class _Receiver(asyncio.BufferedProtocol):
    """Takes four bytes at a time, and closes after `most` bytes."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return memoryview(bytearray(4))

    def buffer_updated(self, nbytes):
        self.taken += nbytes
        if self.taken >= self.most:
            self.transport.close()


def _taken(most: int) -> int:
    loop = SimLoop("network")
    network = Network(loop)
    receiver = _Receiver(most)
    server, client = loop.process("server"), loop.process("client")

    async def serve():
        await loop.create_server(lambda: receiver, "server", 1)

    async def send():
        transport, _ = await loop.create_connection(asyncio.Protocol, "server", 1)
        transport.write(bytes(12))

    loop.start(server, serve)
    loop.run_until(lambda: ("server", 1) in network.listeners)
    loop.start(client, send)
    loop.run_until(lambda: False, 5.0)
    assert loop.errors == []
    return receiver.taken


def test_everything_that_was_sent_is_handed_over():
    assert _taken(most=100) == 12


def test_nothing_is_handed_over_once_the_receiver_has_closed():
    assert _taken(most=4) == 4


class _Client(asyncio.Protocol):
    """Keeps why its connection ended."""

    lost: Exception | None = None

    def connection_lost(self, exc):
        self.lost = exc


def test_a_connection_that_came_before_its_port_was_served_is_reset():
    loop = SimLoop("network")
    network, client = Network(loop), _Client()
    server, caller = loop.process("server"), loop.process("client")

    async def serve():
        listener = network.bind("server", 1)
        await asyncio.sleep(1.0)
        await loop.create_server(lambda: _Receiver(4), sock=listener)
        await asyncio.sleep(10.0)

    async def call():
        await asyncio.sleep(0.5)
        await loop.create_connection(lambda: client, "server", 1)
        await asyncio.sleep(10.0)

    loop.start(server, serve)
    loop.start(caller, call)
    loop.run_until(lambda: False, 5.0)
    assert loop.errors == []
    assert isinstance(client.lost, ConnectionResetError)


def _arrived(block) -> tuple[int, int]:
    """What a server and its client have received of twelve bytes each while `block` holds; all arrive later."""
    loop = SimLoop("network")
    network = Network(loop)
    server, client = loop.process("server"), loop.process("client")
    here, there = _Receiver(most=100), _Receiver(most=100)

    async def serve():
        await loop.create_server(lambda: there, "server", 1)

    async def connect():
        await loop.create_connection(lambda: here, "server", 1)

    loop.start(server, serve)
    loop.run_until(lambda: ("server", 1) in network.listeners)
    loop.start(client, connect)
    loop.run_until(lambda: hasattr(here, "transport") and hasattr(there, "transport"))
    block(network)
    for receiver in (here, there):
        receiver.transport.write(bytes(12))
    loop.run_until(lambda: False, loop.now + 5.0)
    held = there.taken, here.taken
    network.heal_all()
    loop.run_until(lambda: False, loop.now + 5.0)
    assert (there.taken, here.taken) == (12, 12)
    return held


def test_a_way_that_is_blocked_holds_what_goes_there_and_nothing_else():
    assert _arrived(lambda network: network.block_way("client", "server")) == (0, 12)
    assert _arrived(lambda network: network.block_way("server", "client")) == (12, 0)
    assert _arrived(lambda network: network.block("server", "client")) == (0, 0)
