"""Delayed entries and their segments: D3, D8."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.metastore.records.position import Position


def add(index, *due_times, now=0, first=0):
    return [index.add(1, first + i, due, now) for i, due in enumerate(due_times)]


def ids(positions):
    return [position.entry_id for position in positions]


def test_entries_come_when_they_are_due():
    index = DelayedIndex(tick_ms=1)
    assert add(index, 30, 10, 20) == [True, True, True]
    assert index.next_due_ms() == 10
    assert ids(index.due(20)) == [1, 2]
    assert (len(index), index.next_due_ms()) == (1, 30)


def test_an_entry_that_is_due_is_not_kept():
    assert add(DelayedIndex(tick_ms=1), 5, now=5) == [False]


@given(st.booleans(), st.integers(1, 50), st.integers(1, 1_000))
def test_entries_are_at_most_a_tick_early_or_if_strict_late(strict, tick, due):
    index = DelayedIndex(tick_ms=tick, strict=strict)
    if not index.add(1, 0, due, 0):
        assert not strict
        assert due < tick
        return
    at = index.next_due_ms()
    assert due <= at < due + tick if strict else due - tick < at <= due


def test_with_one_delay_for_all_reading_pauses_until_the_first_is_due():
    index = DelayedIndex(tick_ms=1, fixed_delay_lookahead=3)
    add(index, 100, 101)
    assert not index.pauses_reads(50)
    add(index, 102, first=2)
    assert index.pauses_reads(50)
    assert not index.pauses_reads(100)


def test_reading_does_not_pause_if_delays_differ():
    for due_times in ((100, 50, 102), (100, 101, 102, 3)):
        index = DelayedIndex(tick_ms=1, fixed_delay_lookahead=3)
        add(index, *due_times)
        assert not index.pauses_reads(0)


def test_reading_does_not_pause_if_some_are_not_delayed():
    index = DelayedIndex(tick_ms=1, fixed_delay_lookahead=3)
    add(index, 100, 101, 102)
    index.saw_undelayed()
    assert not index.pauses_reads(50)
    index.due(102)
    add(index, 200, 201, 202)
    assert index.pauses_reads(150)


def test_what_is_acknowledged_is_not_waited_for():
    index = DelayedIndex(tick_ms=1)
    add(index, 10, 20, 30)
    index.acknowledged_to(Position(1, 1))
    assert (len(index), index.unsealed, index.next_due_ms()) == (1, 1, 30)


def test_a_segment_has_what_came_since_the_last_one():
    index = DelayedIndex(tick_ms=1)
    assert index.seal() is None
    add(index, 10, 20)
    index.have_read(Position(1, 1))
    first = index.seal()
    assert index.seal() is None
    add(index, 30, first=2)
    index.have_read(Position(1, 5))
    second = index.seal()
    assert [(segment.read_to, [each.due_ms for each in segment.delayed]) for segment in (first, second)] == [
        (Position(1, 1), [10, 20]),
        (Position(1, 5), [30]),
    ]


def test_a_restored_index_forgets_what_came_before():
    index = DelayedIndex(tick_ms=1)
    add(index, 10)
    restored = index.restore([], PositionSet([(1, 0)]))
    assert (list(restored.replay), restored.read_to, len(index)) == ([], None, 0)


@given(
    st.lists(st.lists(st.none() | st.integers(1, 50), min_size=1, max_size=10), max_size=5),
    st.sets(st.integers(0, 49), max_size=30),
    st.integers(0, 60),
)
def test_a_restart_loses_nothing_and_reads_nothing_again(reads, acknowledged, now):
    index, segments, due, at = DelayedIndex(tick_ms=1, strict=True), [], {}, 0
    for entries in reads:
        for due_ms in entries:
            if due_ms is not None:
                index.add(1, at, due_ms, 0)
                due[at] = due_ms
            at += 1
        index.have_read(Position(1, at - 1))
        if (segment := index.seal()) is not None:
            segments.append(segment)
    left = [entry for entry in range(at) if entry not in acknowledged]
    after = DelayedIndex(tick_ms=1, strict=True)
    restored = after.restore(segments, PositionSet((1, entry) for entry in left))
    end = restored.read_to.entry_id if segments else -1
    indexed = [entry for entry in left if entry in due and entry <= end]
    assert ids(restored.replay) == [entry for entry in left if entry <= end and entry not in due]
    assert len(after) == len(indexed)
    assert ids(after.due(now)) == [entry for entry in indexed if due[entry] <= now]
