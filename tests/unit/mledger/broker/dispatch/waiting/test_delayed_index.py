"""Delayed entries and their buckets: D3, D8."""

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from mledger.broker.dispatch.waiting import delayed_index
from mledger.broker.dispatch.waiting.delayed_bucket import (
    LOAD_AHEAD_MS,
    BucketLimits,
    SegmentSummary,
    StoredBucket,
    in_order,
    plan_kept,
    plan_segments,
)
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.metastore.records.position import Position
from tests.support.brokers.driven_dispatcher import finished, planned_seal


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


def test_the_size_of_an_index_follows_what_waits():
    index = DelayedIndex(tick_ms=1)
    assert index.size == 0
    add(index, 10, 20)
    two = index.size
    add(index, 20, first=2)
    assert 0 < two < index.size < 2 * two
    index.due(20)
    assert index.size == 0


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
    assert (len(index), index.next_due_ms()) == (1, 30)


def test_an_entry_that_is_read_twice_is_waited_for_once():
    index = DelayedIndex(tick_ms=1)
    add(index, 10)
    assert add(index, 10) == [True]
    assert len(index) == 1
    assert ids(index.due(10)) == [0]


# -- buckets


def sealing(*, indexes=1, segment=1_000, segment_indexes=-1):
    return DelayedIndex(tick_ms=1, strict=True, limits=BucketLimits(indexes, segment, segment_indexes))


def seal(index, *, then_read=2):
    """Read an entry of a later ledger, and store the bucket that is planned."""
    index.have_read(Position(then_read, 0))
    entries = planned_seal(index)
    assert entries
    segments = plan_segments(entries, index.limits)
    ledgers = [entry.ledger_id for entry in entries]
    bucket = StoredBucket(min(ledgers), max(ledgers), tuple(map(SegmentSummary.of, segments)))
    index.sealed(bucket, segments)
    return bucket, segments


def test_a_bucket_is_sealed_once_everything_of_its_ledgers_was_read():
    index = sealing(indexes=2)
    add(index, 10)
    index.have_read(Position(2, 0))
    assert planned_seal(index) == []
    add(index, 20, first=1)
    index.have_read(Position(1, 1))
    assert planned_seal(index) == []
    index.have_read(Position(2, 0))
    assert [entry.deliver_at_ms for entry in planned_seal(index)] == [10, 20]


def test_entries_of_the_ledger_that_is_being_read_come_into_a_later_bucket():
    index = sealing(indexes=2)
    add(index, 10, 20)
    index.add(2, 0, 30, 0)
    index.have_read(Position(2, 0))
    assert [entry.deliver_at_ms for entry in planned_seal(index)] == [10, 20]
    assert index.unsealed == 1


def test_what_is_due_already_is_not_sealed():
    index = sealing(indexes=2)
    add(index, 10, 20)
    index.due(10)
    index.have_read(Position(2, 0))
    assert planned_seal(index) == []
    assert index.unsealed == 1


def test_of_a_sealed_bucket_only_the_first_segment_stays_in_memory():
    index = sealing(segment=10)
    add(index, 30, 15, 11, 24)
    bucket, segments = seal(index)
    assert [[each.deliver_at_ms for each in segment] for segment in segments] == [[11, 15], [24, 30]]
    assert (len(index), len(index.stored)) == (4, 2)
    assert add(index, 30) == [True]
    assert len(index) == 4
    index.load(bucket, 1, segments[1])
    assert (len(index), len(index.stored)) == (4, 0)
    assert [ids(index.due(at)) for at in (11, 15, 24, 30)] == [[2], [1], [3], [0]]


def test_a_segment_is_loaded_a_while_before_it_is_due():
    index = sealing(segment=10)
    add(index, 11, 50_000)
    bucket, _ = seal(index)
    index.due(11)
    assert index.next_due_ms() == 50_000 - LOAD_AHEAD_MS
    assert index.stored.plan_load(50_000 - LOAD_AHEAD_MS - 1) is None
    assert index.stored.plan_load(50_000 - LOAD_AHEAD_MS) == (bucket, 1)


def test_a_segment_that_is_due_as_a_whole_need_not_be_loaded():
    index = sealing(segment=10)
    add(index, 11, 50_000)
    seal(index)
    assert ids(index.due(50_000)) == [0, 1]
    assert index.next_due_ms() is None


def test_while_storage_is_busy_nothing_of_it_is_waited_for():
    index = sealing(segment=10)
    add(index, 11, 50_000)
    seal(index)
    index.due(11)
    index.storage_busy = True
    assert index.next_due_ms() is None


def test_a_bucket_that_was_not_stored_is_sealed_again():
    index = sealing()
    add(index, 10, 20)
    index.have_read(Position(2, 0))
    first = planned_seal(index)
    assert planned_seal(index) == []
    index.seal_failed()
    assert planned_seal(index) == first


def test_a_plan_of_many_entries_is_made_in_pieces(monkeypatch):
    monkeypatch.setattr(delayed_index, "PIECE", 2)
    index = sealing(indexes=4)
    add(index, 50, 10, 40, 20, 30)
    index.add(2, 0, 60, 0)
    index.have_read(Position(2, 0))
    plan = index.plan_seal()
    next(plan)
    assert index.due(10)  # of a piece that was looked at
    assert index.due(20)  # of one that was not
    assert index.add(1, 7, 70, 30)  # of a ledger that is being sealed: it is waited for, in no bucket
    assert [each.deliver_at_ms for each in finished(plan)] == [10, 30, 40, 50]
    assert (index.unsealed, len(index)) == (1, 5)


def test_a_plan_of_what_was_forgotten_meanwhile_has_no_entries(monkeypatch):
    monkeypatch.setattr(delayed_index, "PIECE", 2)
    for pieces in (1, 2, 3):
        index = sealing()
        add(index, 30, 10, 20)
        index.have_read(Position(2, 0))
        plan = index.plan_seal()
        for _ in range(pieces):
            next(plan)
        index.clear()
        add(index, 40)
        assert finished(plan) == []
        assert (index.unsealed, len(index)) == (1, 1)


def test_entries_of_ledgers_that_are_sealed_stay_in_memory():
    index = sealing()
    add(index, 10)
    seal(index)
    add(index, 20, first=1)
    assert index.unsealed == 0
    assert ids(index.due(20)) == [0, 1]


def test_what_a_lost_bucket_knew_is_read_again():
    index = sealing(segment=10)
    add(index, 11, 50_000)
    bucket, _ = seal(index)
    index.due(11)
    index.drop([bucket])
    assert ids(index.due(12)) == [1]
    assert add(index, 50_000, now=12, first=1) == [True]


def test_an_entry_that_a_segment_lacks_is_read_again():
    index = sealing(segment=10)
    add(index, 11, 50_000, 50_001)
    bucket, segments = seal(index)
    index.load(bucket, 1, segments[1][1:])
    assert ids(index.due(11)) == [0, 1]
    assert ids(index.due(50_001)) == [2]


def test_a_bucket_ends_when_all_of_it_is_due_or_acknowledged():
    index = sealing(segment=10)
    add(index, 11, 20)
    bucket, _ = seal(index)
    assert index.stored.consumed(19) == []
    assert index.stored.consumed(20) == [bucket]
    index = sealing(segment=10)
    add(index, 11, 50_000)
    bucket, _ = seal(index)
    index.acknowledged_to(Position(2, 0))
    assert index.stored.consumed(0) == [bucket]
    assert len(index) == 0


def test_a_restored_index_forgets_what_came_before():
    index = DelayedIndex(tick_ms=1)
    add(index, 10)
    assert list(index.restore([], PositionSet(), 0)) == []
    assert len(index) == 0


backlogs = st.lists(st.lists(st.none() | st.integers(1, 50), min_size=1, max_size=10), max_size=6)


@given(backlogs, st.data(), st.integers(1, 20), st.integers(1, 4), st.booleans())
def test_a_restart_loses_nothing_and_delivers_nothing_early(ledgers, data, segment, indexes, merge):
    index = sealing(indexes=indexes, segment=segment)
    due, buckets = {}, []
    for number, ledger in enumerate(ledgers, 1):
        for entry, due_ms in enumerate(ledger):
            due[number, entry] = due_ms or 0
            if due_ms is not None:
                index.add(number, entry, due_ms, 0)
        index.have_read(Position(number + 1, 0))
        if index.unsealed >= indexes:
            buckets.append(seal(index, then_read=number + 1))
    if merge and len(buckets) > 1:
        (first, one), (second, other) = buckets[:2]
        segments = plan_segments(in_order([*one, *other]), index.limits)
        merged = StoredBucket(first.start, second.end, tuple(map(SegmentSummary.of, segments)))
        buckets[:2] = [(merged, segments)]
        buckets.append((first, one))  # as if a crash had left it
    acknowledged = data.draw(st.sets(st.sampled_from(sorted(due)))) if due else set()
    kept, obsolete = plan_kept(bucket for bucket, _ in buckets)
    assert len(obsolete) == (merge and len(buckets) > 1)
    stored = {id(bucket): segments for bucket, segments in buckets}
    end = max((bucket.end for bucket in kept), default=0)
    left = {position for position in due if position not in acknowledged and position[0] <= end}
    now = data.draw(st.integers(0, 60))
    after = sealing()
    replay = set(after.restore(kept, PositionSet(left), now))
    waits = {position for position in left if due[position] > now}
    assert replay <= left
    assert waits <= left - replay | {position for position in replay if due[position] > now}
    assert not {position for position in replay if due[position] > now} & _indexed(kept)
    given, at = set(replay), now
    while len(given) < len(left) and at <= 60:
        while (load := after.stored.plan_load(at)) is not None:
            bucket, number = load
            after.load(bucket, number, stored[id(bucket)][number])
        for position in after.due(at):
            assert due[position] <= at
            assert position not in given
            given.add(position)
        at += 1
    assert given == left
    assert len(after) == 0


def _indexed(buckets):
    return {
        (ledger_id, entry)
        for bucket in buckets
        for segment in bucket.segments
        for ledger_id, bits in segment.entries
        for entry in BitMap.deserialize(bits)
    }
