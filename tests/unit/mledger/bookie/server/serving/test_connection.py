"""A connection's receive buffer: it grows with what arrives, not with what a length promises."""

from types import SimpleNamespace

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.serving.connection import BUFFER, Connection
from tests.support.bookies.raw_bookie import entry

LARGEST = 64 << 20


class Taken:
    """Takes adds at once, and notes how many bytes their frames have."""

    busy = False

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def add(self, _, __, run) -> None:
        self.sizes.append(run.end - run.start)


def connected(turns: Taken) -> Connection:
    transport = SimpleNamespace(
        set_write_buffer_limits=lambda high: None,
        get_extra_info=lambda name: ("127.0.0.1", 1),
        is_closing=lambda: False,
        pause_reading=lambda: None,
        resume_reading=lambda: None,
    )
    connection = Connection(turns, None, LARGEST)
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
    assert len(connection._buffer) <= BUFFER
    feed(connection, bytes(BUFFER))
    assert len(connection._buffer) <= 5 * BUFFER


def test_large_frames_are_taken_whole_one_after_the_other():
    turns = Taken()
    connection = connected(turns)
    frames = [wire.encode_add(master_key(b""), entry(1, number, bytes(9 << 20))) for number in range(3)]
    feed(connection, b"".join(frames))
    assert turns.sizes == [len(frame) for frame in frames]
