"""A connection's receive buffer: it grows with what arrives, not with what a length promises."""

import asyncio
import itertools
from types import SimpleNamespace

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.serving.connection import Connection
from mledger.bookie.server.serving.receive_buffer import BUFFER, FIRST_BUFFER
from mledger.bookie.server.serving.receive_room import ReceiveRoom
from tests.support.aio import run
from tests.support.bookies.raw_bookie import entry

LARGEST = 64 << 20


class Taken:
    """Takes adds at once, and notes how many bytes their frames have."""

    busy = False

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def add(self, _, __, run) -> None:
        self.sizes.append(run.end - run.start)


def connected(turns: Taken, room: ReceiveRoom | None = None) -> Connection:
    transport = SimpleNamespace(
        set_write_buffer_limits=lambda high: None,
        get_extra_info=lambda name: ("127.0.0.1", 1),
        is_closing=lambda: False,
        pause_reading=lambda: None,
        resume_reading=lambda: None,
    )
    connection = Connection(turns, None, LARGEST, room=room)
    connection.connection_made(transport)
    return connection


def feed(connection: Connection, data: bytes) -> None:
    """Hand over bytes as a transport does, as many at once as the buffer has room for."""
    left = memoryview(data)
    while left:
        room = connection.get_buffer(-1)
        count = min(len(room), len(left))
        room[:count] = left[:count]
        connection.buffer_updated(count)
        left = left[count:]


def test_a_frame_takes_memory_as_its_bytes_arrive():
    connection = connected(Taken())
    feed(connection, wire.LENGTH.pack(LARGEST) + wire.LENGTH.pack(wire.header_word(wire.Op.ADD)) + bytes(100_000))
    assert len(connection._buffer.data) <= BUFFER
    feed(connection, bytes(BUFFER))
    assert len(connection._buffer.data) <= 5 * BUFFER


def test_a_connection_without_room_is_not_read_from_until_there_is_some():
    async def main():
        room = ReceiveRoom(8 * BUFFER)
        first, second = connected(Taken(), room), connected(Taken(), room)
        begun = wire.LENGTH.pack(6 * BUFFER) + wire.LENGTH.pack(wire.header_word(wire.Op.ADD)) + bytes(BUFFER)
        feed(first, begun + bytes(4 * BUFFER))
        room_left = len(second.get_buffer(-1))
        feed(second, begun[:room_left])
        assert second._paused
        first._service = SimpleNamespace(forget=lambda _: None)
        first.connection_lost(None)
        while second._paused:
            await asyncio.sleep(0)
        assert room.taken == len(second._buffer.data) - FIRST_BUFFER

    run(main())


def test_large_frames_are_taken_whole_one_after_the_other():
    turns = Taken()
    connection = connected(turns)
    frames = [wire.encode_add(master_key(b""), entry(1, number, bytes(9 << 20))) for number in range(3)]
    feed(connection, b"".join(frames))
    assert turns.sizes == [len(frame) for frame in frames]


class AskedTurns(Taken):
    """Takes reads at once, and notes their entries."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        self.ledgers = SimpleNamespace(get=lambda ledger: ledger)
        self.reader = SimpleNamespace(cold=lambda *_: [])

    def owed(self, _) -> int:
        return 0

    def read(self, _, request) -> None:
        self.entries.append(request.entry)


def test_others_have_their_turn_between_the_many_requests_of_one_connection():
    async def main():
        turns = AskedTurns()
        connection = connected(turns)
        feed(connection, b"".join(wire.encode_read(1, number) for number in range(1000)))
        taken = [len(turns.entries)]
        while taken[-1] < 1000:
            await asyncio.sleep(0)
            taken.append(len(turns.entries))
        assert turns.entries == list(range(1000))
        return [later - before for before, later in itertools.pairwise(taken)]

    assert 0 < max(run(main())) <= 256
