"""The memory for what is read ahead: shared by all subscriptions, never used up, never one's alone."""

from mledger.broker.topics.subscriptions.read_ahead_memory import LEAST, SHARE, ReadAheadMemory

MIB = 1 << 20


def test_without_a_limit_there_is_always_room():
    memory = ReadAheadMemory()
    memory.held = 1 << 60
    assert memory.room(own=MIB) is None


def test_a_subscription_holds_at_most_a_share_of_what_is_free():
    memory = ReadAheadMemory(64 * MIB)
    assert memory.room(own=0) == 64 * MIB // SHARE
    memory.held = 8 * MIB
    assert memory.room(own=0) == 7 * MIB
    assert memory.room(own=6 * MIB) == MIB


def test_little_room_is_none():
    memory = ReadAheadMemory(SHARE * LEAST)
    assert memory.room(own=0) == LEAST
    assert memory.room(own=1) == 0


def test_however_many_fill_their_share_the_limit_holds_and_the_next_one_gets_something():
    memory = ReadAheadMemory(256 * MIB)
    for _ in range(30):
        memory.held += memory.room(own=0)
    assert memory.held <= 256 * MIB
    assert memory.room(own=0) >= LEAST
