"""Reads ahead of a dispatcher: what is held, given, put back and dropped, and when more is asked for."""

import asyncio
import weakref

import pytest

from mledger.bookie.errors import BookieUnavailable
from mledger.broker.topics.subscriptions.read_ahead import AHEAD_BYTES, ReadAhead
from mledger.broker.topics.subscriptions.read_ahead_memory import ReadAheadMemory
from mledger.cursors.acks.ack_state import AckState
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from tests.support.aio import run

LEDGERS = LedgerList([LedgerInfo(1, 100), LedgerInfo(2, 100)])


class ScriptedCursor:
    """Reads the runs that it was given, and tells how it was asked."""

    def __init__(self, runs=(), cached=()):
        self.runs, self.cached, self.asked, self.rewinds = list(runs), list(cached), [], 0
        self.acks, self.read_position = AckState(Position(1, -1)), Position(9, 9)
        self.answer = None

    def acknowledge(self, *positions):
        """Take each entry for acknowledged by itself."""
        self.acks.acknowledge(positions, LEDGERS)

    def acknowledge_to(self, position):
        """Take everything up to a position for acknowledged."""
        self.acks.move_mark_delete(position)

    async def read_runs(self, entries, max_bytes):
        self.asked.append((entries, max_bytes))
        return self.runs if self.answer is None else await self.answer

    def read_cached(self, entries, max_bytes):
        return self.cached

    def rewind(self):
        self.rewinds += 1


LARGE = bytes(AHEAD_BYTES // 8)
EIGHT = [LARGE] * 8  # as much as is read ahead


class Behind:
    """Reads of a consumer that is far behind: eight entries are held, and the answer to the next read is pending."""

    def __init__(self):
        self.cursor = ScriptedCursor([PayloadRun(1, 0, EIGHT)])
        self.ahead = ReadAhead(self.cursor)

    async def begin(self):
        await self.ahead.read(1, AHEAD_BYTES)
        self.cursor.answer = asyncio.get_running_loop().create_future()
        return self

    def take(self, entries):
        return [(run.first_entry, len(run.payloads)) for run in self.ahead.read_now(entries, AHEAD_BYTES)]

    async def asked(self):
        """How often bookies were asked, once the tasks that were made have begun."""
        await asyncio.sleep(0)
        return len(self.cursor.asked)


def test_the_next_entries_are_asked_for_while_the_ones_before_are_taken():
    async def main():
        behind = await Behind().begin()
        assert await behind.asked() == 1
        assert behind.take(3) == [(1, 3)]
        assert await behind.asked() == 2
        assert behind.take(10) == [(4, 4)]
        assert await behind.asked() == 2
        reading = asyncio.ensure_future(behind.ahead.read(2, AHEAD_BYTES))
        await asyncio.sleep(0)
        behind.cursor.answer.set_result([PayloadRun(1, 8, EIGHT)])
        assert await reading == [PayloadRun(1, 8, EIGHT[:2])]
        assert await behind.asked() == 2
        assert behind.ahead.position == Position(1, 10)

    run(main())


def test_nothing_is_read_from_the_cache_while_earlier_entries_are_asked_for():
    async def main():
        behind = await Behind().begin()
        behind.cursor.cached = [PayloadRun(1, 16, [b"later"])]
        assert behind.take(7) == [(1, 7)]
        assert await behind.asked() == 2
        assert behind.take(1) == []
        behind.cursor.answer.set_result([])
        assert await behind.ahead.read(1, AHEAD_BYTES) == []
        assert behind.take(1) == [(16, 1)]

    run(main())


def test_the_next_read_begins_at_what_was_asked_for_until_that_is_held():
    async def main():
        behind = await Behind().begin()
        cursor, loop, seen = behind.cursor, asyncio.get_running_loop(), []
        cursor.read_position = Position(1, 8)
        assert behind.take(7) == [(1, 7)]
        assert await behind.asked() == 2
        cursor.answer.add_done_callback(lambda _: setattr(cursor, "read_position", Position(1, 16)))
        cursor.answer.set_result([PayloadRun(1, 8, EIGHT)])
        for _ in range(3):  # each between two steps of the read
            loop.call_soon(lambda: seen.append(behind.ahead.position))
            await asyncio.sleep(0)
        assert seen == [Position(1, 8)] * 3

    run(main())


def test_a_rewind_drops_what_was_asked_for():
    async def main():
        behind = await Behind().begin()
        behind.take(6)
        assert await behind.asked() == 2
        behind.ahead.rewind()
        assert await behind.asked() == 2
        assert behind.cursor.answer.cancelled()
        behind.cursor.answer = None
        assert await behind.ahead.read(1, AHEAD_BYTES) == [PayloadRun(1, 0, EIGHT[:1])]

    run(main())


def test_a_failure_is_told_to_who_waits_and_forgotten_if_nobody_does():
    async def main():
        behind = await Behind().begin()
        behind.take(6)
        assert await behind.asked() == 2
        behind.cursor.answer.set_exception(BookieUnavailable("away"))
        await asyncio.sleep(0)
        assert behind.take(1) == [(7, 1)]
        assert await behind.asked() == 2
        with pytest.raises(BookieUnavailable):
            await behind.ahead.read(1, AHEAD_BYTES)
        assert await behind.asked() == 3

    run(main())


def test_near_the_end_nothing_more_is_asked_for():
    async def main():
        behind = Behind()
        behind.cursor.runs = [PayloadRun(1, 0, EIGHT[:6])]
        await behind.begin()
        assert behind.take(5) == [(1, 5)]
        assert await behind.asked() == 1

    run(main())


def filled(*runs):
    """Reads 2 of the entries of `runs`; the rest is held."""
    cursor = ScriptedCursor(runs)
    ahead = ReadAhead(cursor)
    first = run(ahead.read(2, 100))
    return cursor, ahead, first


def test_what_comes_beyond_a_read_is_held_for_the_next_ones():
    cursor, ahead, first = filled(PayloadRun(1, 5, [b"a", b"b", b"c"]), PayloadRun(2, 0, [b"d"]))
    assert first == [PayloadRun(1, 5, [b"a", b"b"])]
    assert ahead.position == Position(1, 7)
    assert ahead.read_now(10, 100) == [PayloadRun(1, 7, [b"c"]), PayloadRun(2, 0, [b"d"])]
    assert len(cursor.asked) == 1
    assert ahead.position == cursor.read_position


def test_a_read_ends_at_its_bytes_after_at_least_one_entry():
    _, ahead, _ = filled(PayloadRun(1, 0, [b"a", b"b", b"cc", b"dd"]))
    assert ahead.read_now(10, 1) == [PayloadRun(1, 2, [b"cc"])]
    assert ahead.read_now(10, 1) == [PayloadRun(1, 3, [b"dd"])]


def test_entries_that_went_to_nobody_are_read_again():
    _, ahead, _ = filled(PayloadRun(1, 5, [b"a", b"b", b"c"]))
    ahead.go_back(Position(1, 6))
    assert ahead.read_now(10, 100) == [PayloadRun(1, 6, [b"b"]), PayloadRun(1, 7, [b"c"])]


def test_cached_entries_that_went_to_nobody_are_held():
    cursor = ScriptedCursor(cached=[PayloadRun(1, 0, [b"a"]), PayloadRun(2, 0, [b"b", b"c"])])
    ahead = ReadAhead(cursor)
    ahead.read_now(3, 100)
    ahead.go_back(Position(2, 1))
    assert ahead.read_now(10, 100) == [PayloadRun(2, 1, [b"c"])]


def test_what_was_acknowledged_meanwhile_is_dropped():
    cursor, ahead, _ = filled(PayloadRun(1, 0, [b"a", b"b", b"c", b"d"]))
    cursor.acknowledge_to(Position(1, 2))
    assert ahead.read_now(10, 100) == [PayloadRun(1, 3, [b"d"])]


def test_what_was_acknowledged_one_by_one_meanwhile_is_dropped():
    cursor, ahead, _ = filled(PayloadRun(1, 0, [b"a", b"b", b"c", b"d", b"e"]), PayloadRun(2, 0, [b"f", b"g"]))
    cursor.acknowledge(Position(1, 2), Position(2, 0))
    assert ahead.read_now(10, 100) == [PayloadRun(1, 3, [b"d", b"e"]), PayloadRun(2, 1, [b"g"])]


def test_the_limits_of_a_read_count_only_what_is_not_acknowledged():
    cursor, ahead, _ = filled(PayloadRun(1, 0, [b"a", b"b", b"c", b"d", b"e"]))
    cursor.acknowledge(Position(1, 3))
    assert ahead.read_now(2, 100) == [PayloadRun(1, 2, [b"c"]), PayloadRun(1, 4, [b"e"])]


def test_once_all_that_is_held_is_acknowledged_the_next_read_begins_behind_it():
    cursor, ahead, _ = filled(PayloadRun(1, 0, [b"a", b"b", b"c", b"d"]))
    cursor.acknowledge(Position(1, 2), Position(1, 3))
    assert ahead.read_now(10, 100) == []
    assert ahead.position == cursor.read_position


def test_the_bytes_of_what_was_acknowledged_one_by_one_are_given_back():
    memory = ReadAheadMemory(64 * AHEAD_BYTES)
    cursor = ScriptedCursor([PayloadRun(1, 0, [b"a", b"bb", b"ccc", b"dddd"])])
    ahead = ReadAhead(cursor, memory)
    run(ahead.read(1, AHEAD_BYTES))
    cursor.acknowledge(Position(1, 2))
    ahead.read_now(1, AHEAD_BYTES)
    assert memory.held == len(b"dddd")


def test_a_rewind_drops_what_is_held():
    cursor, ahead, _ = filled(PayloadRun(1, 0, [b"a", b"b", b"c"]))
    ahead.rewind()
    assert (cursor.rewinds, ahead.position) == (1, cursor.read_position)


def test_without_room_no_more_is_read_than_is_asked_for():
    async def main():
        memory = ReadAheadMemory(AHEAD_BYTES)
        memory.held = AHEAD_BYTES
        cursor = ScriptedCursor([PayloadRun(1, 0, EIGHT[:2])])
        ahead = ReadAhead(cursor, memory)
        await ahead.read(2, AHEAD_BYTES)
        assert cursor.asked == [(2, AHEAD_BYTES)]
        assert memory.held == AHEAD_BYTES

    run(main())


def test_reading_ahead_stops_at_the_room_there_is():
    async def main():
        memory = ReadAheadMemory(2 * AHEAD_BYTES)
        cursor = ScriptedCursor([PayloadRun(1, 0, EIGHT[:2])])
        ahead = ReadAhead(cursor, memory)
        await ahead.read(1, AHEAD_BYTES)
        ((_, most_bytes),) = cursor.asked
        assert most_bytes == AHEAD_BYTES // 4
        assert memory.held == len(LARGE)

    run(main())


def test_nothing_is_asked_for_ahead_of_what_is_held_without_room():
    async def main():
        memory = ReadAheadMemory(64 * AHEAD_BYTES)
        cursor = ScriptedCursor([PayloadRun(1, 0, EIGHT)])
        ahead = ReadAhead(cursor, memory)
        await ahead.read(1, AHEAD_BYTES)
        memory.held += 63 * AHEAD_BYTES
        ahead.read_now(3, AHEAD_BYTES)
        await asyncio.sleep(0)
        assert len(cursor.asked) == 1

    run(main())


def test_every_byte_that_was_held_is_given_back():
    async def main():
        memory = ReadAheadMemory(64 * AHEAD_BYTES)
        cursor = ScriptedCursor([PayloadRun(1, 0, EIGHT)])
        ahead = ReadAhead(cursor, memory)
        await ahead.read(1, AHEAD_BYTES)
        cursor.answer = asyncio.get_running_loop().create_future()
        ahead.read_now(2, AHEAD_BYTES)
        ahead.go_back(Position(1, 2))
        assert memory.held == 6 * len(LARGE) + AHEAD_BYTES  # and what is on its way
        cursor.acknowledge_to(Position(1, 4))
        ahead.read_now(1, 1)
        assert memory.held == 2 * len(LARGE) + AHEAD_BYTES
        ahead.close()
        assert memory.held == 0

    run(main())


def test_what_was_dispatched_is_not_kept():
    class Payloads(list):
        """A list that can be watched."""

    payloads = Payloads([b"a"])
    kept = weakref.ref(payloads)
    cursor = ScriptedCursor(cached=[PayloadRun(1, 0, payloads)])
    ahead = ReadAhead(cursor)
    ahead.read_now(1, 100)
    cursor.cached, payloads = [], None
    assert kept() is not None
    ahead.dispatched()
    assert kept() is None
