"""Reads ahead of a dispatcher: what is held, given, put back and dropped."""

from mledger.broker.topics.read_ahead import ReadAhead
from mledger.ledgers.entry import PayloadRun
from mledger.metastore.records.position import Position
from tests.support.aio import run


class ScriptedCursor:
    """Reads the runs that it was given, and tells how it was asked."""

    def __init__(self, runs=(), cached=()):
        self.runs, self.cached, self.asked, self.rewinds = list(runs), list(cached), [], 0
        self.mark_delete, self.read_position = Position(1, -1), Position(9, 9)

    async def read_runs(self, entries, max_bytes):
        self.asked.append((entries, max_bytes))
        return self.runs

    def read_cached(self, entries, max_bytes):
        return self.cached

    def rewind(self):
        self.rewinds += 1


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
    cursor.mark_delete = Position(1, 2)
    assert ahead.read_now(10, 100) == [PayloadRun(1, 3, [b"d"])]


def test_a_rewind_drops_what_is_held():
    cursor, ahead, _ = filled(PayloadRun(1, 0, [b"a", b"b", b"c"]))
    ahead.rewind()
    assert (cursor.rewinds, ahead.position) == (1, cursor.read_position)
