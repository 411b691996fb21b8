"""The more clients send, the less is read of each at a time."""

import pytest

from mledger.broker.connections import read_turns
from mledger.broker.connections.read_turns import LARGEST, SHARED_S, SMALLEST, ReadTurns, plan_turn


@pytest.mark.parametrize(
    ("clients", "size"), [(0, LARGEST), (1, LARGEST), (2, LARGEST // 2), (8, SMALLEST), (9, SMALLEST), (1000, SMALLEST)]
)
def test_clients_share_what_is_read_of_one_that_sends_alone(clients, size):
    assert plan_turn(clients) == size


class SharedReads:
    """Reads of several clients at a time that a test sets."""

    def __init__(self, monkeypatch):
        self.now_s = 0.0
        monkeypatch.setattr(read_turns, "steady_s", lambda: self.now_s)
        self.turns = ReadTurns()

    def read(self, sender, data):
        self.turns.buffer[: len(data)] = data
        return self.turns.take(sender, len(data))

    def read_all(self, *senders):
        """One read of each, and then the next moment."""
        for sender in senders:
            self.read(sender, b"x")
        self.now_s += SHARED_S
        self.read(senders[0], b"x")


@pytest.fixture
def shared(monkeypatch):
    return SharedReads(monkeypatch)


def test_what_was_read_outlives_the_next_read(shared):
    first, _ = shared.read("a", b"first")
    shared.read("b", b"other")
    assert first == b"first"


def test_a_client_that_sends_alone_has_the_whole_buffer_and_no_turns(shared):
    shared.read_all("a", "a")
    assert len(shared.turns.buffer) == LARGEST
    assert shared.read("a", bytes(LARGEST))[1] is False


def test_one_of_several_has_had_its_turn_when_it_has_filled_its_part(shared):
    shared.read_all("a", "b")
    part = len(shared.turns.buffer)
    assert part == LARGEST // 2
    assert [shared.read("a", bytes(size))[1] for size in (part, part - 1)] == [True, False]


def test_a_client_has_the_whole_buffer_again_when_the_others_have_stopped(shared):
    shared.read_all("a", "b")
    shared.read_all("a")
    assert len(shared.turns.buffer) == LARGEST
