"""What a topic's records say about its backlog, and about ledgers that nothing keeps."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mledger.cursors.backlog import backlog
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.errors import InvalidLedgerList
from mledger.exporter.topic_figures import (
    NOTHING_UNTRIMMED,
    OVERDUE_MS,
    Untrimmed,
    consumed_ledgers,
    recorded_cursor,
    recorded_ledgers,
    topic_figures,
    untrimmed,
)
from mledger.ledgers.retention import KEEP_ALL, KEEP_NOTHING, RetentionInForce, RetentionOrigin
from mledger.ledgers.shadow_topics import SHADOW_SOURCE
from mledger.ledgers.trim_plan import plan_trim
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo

ORDERS = TopicName.parse("a/b/orders")
NOW = 10 * OVERDUE_MS
CLOSED = ManagedLedgerInfo((LedgerInfo(1, 10, 100, 1000), LedgerInfo(3, 20, 300, 2000), LedgerInfo(4)))


def figures(record, info=CLOSED, now_ms=NOW):
    return recorded_cursor(record, recorded_ledgers(info)).figures(now_ms)


def at(ledger_id, entry_id, *ranges):
    return ManagedCursorInfo(
        mark_delete=Position(ledger_id, entry_id),
        ranges=tuple(PositionRange(Position(*lower), Position(*upper)) for lower, upper in ranges),
    )


def test_a_topic_has_what_its_closed_ledgers_have():
    found = topic_figures(recorded_ledgers(CLOSED))
    assert (found.ledgers, found.entries, found.size) == (3, 30, 400)


def test_a_topic_without_ledgers_has_nothing():
    info = ManagedLedgerInfo()
    assert topic_figures(recorded_ledgers(info)).entries == 0
    assert figures(at(5, 5), info).backlog == 0
    assert kept(KEEP_NOTHING, {}, info) == NOTHING_UNTRIMMED


@pytest.mark.parametrize("damaged", [LedgerInfo(2, -1, 5), LedgerInfo(2, 5, -1)])
def test_a_record_with_a_negative_count_is_refused(damaged):
    with pytest.raises(InvalidLedgerList, match="ledger 2 is recorded with"):
        recorded_ledgers(ManagedLedgerInfo((LedgerInfo(1, 1, 1), damaged, LedgerInfo(3))))


def test_a_cursor_waits_since_the_first_ledger_that_it_has_not_acknowledged_was_closed():
    assert figures(at(1, 4)) == ("znode", 25, NOW - 1000, 0)
    assert figures(at(1, 9)) == ("znode", 20, NOW - 2000, 0)
    assert figures(at(1, 4, ((1, 4), (1, 9)))) == ("znode", 20, NOW - 2000, 1)


def test_a_cursor_that_has_acknowledged_all_that_is_recorded_does_not_wait():
    assert figures(at(3, 19)) == ("znode", 0, 0, 0)
    assert figures(at(4, 7)) == ("znode", 0, 0, 0)


def test_a_cursor_with_a_cursor_ledger_has_its_older_state_in_the_record():
    record = ManagedCursorInfo(cursors_ledger_id=9, mark_delete=Position(1, 9))
    assert figures(record) == ("snapshot", 20, NOW - 2000, 0)


def test_a_record_without_a_position_has_acknowledged_nothing():
    assert figures(ManagedCursorInfo(cursors_ledger_id=9)).backlog == 30


def test_a_clock_behind_makes_no_negative_age():
    assert figures(at(1, 4), now_ms=0).age_ms == 0


positions = st.tuples(st.integers(0, 6), st.integers(-1, 12)).map(lambda each: Position(*each))


@given(
    sizes=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=5, unique_by=lambda e: e[0]),
    mark=positions,
    edges=st.lists(positions, max_size=8, unique=True),
)
def test_the_backlog_and_the_oldest_ledger_are_those_of_recovery(sizes, mark, edges):
    infos = tuple(LedgerInfo(ledger_id, entries, entries, 1000 + ledger_id) for ledger_id, entries in sorted(sizes))
    ledgers = recorded_ledgers(ManagedLedgerInfo(infos))
    assume(mark <= ledgers.last_position)  # past the end, recovery looks into the open ledger
    edges.sort()
    ranges = tuple(PositionRange(*pair) for pair in zip(edges[::2], edges[1::2], strict=False) if pair[0] >= mark)
    record = ManagedCursorInfo(mark_delete=mark, ranges=ranges)
    acks = plan_cursor_recovery("c", record, None, ledgers).acks
    found = recorded_cursor(record, ledgers).figures(NOW)
    left = [
        info for info in infos for entry in range(info.entries) if not acks.is_deleted(Position(info.ledger_id, entry))
    ]
    assert found.backlog == backlog(ledgers, acks) == len(left)
    assert found.age_ms == (NOW - left[0].timestamp if left else 0)


@given(st.lists(st.tuples(positions, positions), max_size=8), positions)
def test_hostile_ranges_never_make_a_backlog_negative_or_larger_than_the_topic(pairs, mark):
    record = ManagedCursorInfo(mark_delete=mark, ranges=tuple(PositionRange(*pair) for pair in pairs))
    found = figures(record)
    assert 0 <= found.backlog <= 30
    assert found.age_ms >= 0


def kept(retention, cursors, info=CLOSED, now_ms=NOW, topic=ORDERS):
    return untrimmed(consumed_ledgers(topic, info, recorded_ledgers(info), cursors), retention, now_ms)


def minutes(count):
    return RetentionInForce(count * 60_000, -1, RetentionOrigin.NAMESPACE)


def test_consumed_ledgers_that_retention_does_not_keep_are_untrimmed():
    assert kept(KEEP_NOTHING, {"a": Position(3, 5)}) == Untrimmed(1, 100)
    assert kept(KEEP_NOTHING, {}) == Untrimmed(2, 400)


def test_what_only_compaction_makes_unneeded_may_stay():
    events = TopicName.parse("a/b/__change_events")
    assert kept(KEEP_NOTHING, {}, topic=events) == NOTHING_UNTRIMMED


def test_what_a_cursor_needs_and_what_retention_keeps_may_stay():
    assert kept(KEEP_NOTHING, {"a": Position(3, 5), "b": Position(1, 0)}) == NOTHING_UNTRIMMED
    assert kept(KEEP_ALL, {}) == NOTHING_UNTRIMMED
    assert kept(minutes(24 * 60), {}) == NOTHING_UNTRIMMED


def test_a_ledger_counts_once_retention_has_passed_for_an_hour():
    passed = 1000 + 60_000 + OVERDUE_MS
    assert kept(minutes(1), {}, now_ms=passed) == NOTHING_UNTRIMMED
    assert kept(minutes(1), {}, now_ms=passed + 1) == Untrimmed(1, 100)


def test_the_last_ledger_and_those_of_a_shadow_never_count():
    closed = ManagedLedgerInfo(CLOSED.ledgers[:2])
    assert kept(KEEP_NOTHING, {}, closed) == Untrimmed(1, 100)
    shadow = ManagedLedgerInfo(CLOSED.ledgers, properties=((SHADOW_SOURCE, "persistent://a/b/c"),))
    assert kept(KEEP_NOTHING, {}, shadow) == NOTHING_UNTRIMMED


@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), max_size=5),
    cursors=st.dictionaries(st.sampled_from("abc"), positions),
    time_ms=st.sampled_from([-1, 0, 5, 12]),
    size_in_mb=st.sampled_from([-1, 0, 1]),
    now_ms=st.integers(0, 30),
)
def test_what_is_untrimmed_is_what_a_trim_an_hour_ago_would_have_deleted(sizes, cursors, time_ms, size_in_mb, now_ms):
    closed = [LedgerInfo(number, entries, entries << 18, ms) for number, (entries, ms) in enumerate(sizes)]
    info = ManagedLedgerInfo((*closed, LedgerInfo(len(closed))))
    retention = RetentionInForce(time_ms, size_in_mb, RetentionOrigin.NAMESPACE)
    plan = plan_trim(recorded_ledgers(info), cursors, retention, now_ms)
    overdue = [ledger for ledger in plan.deletions if ledger.timestamp <= now_ms]
    if len(info.ledgers) < 2 or info.ledgers[0].timestamp > now_ms:
        overdue = []
    expected = Untrimmed(len(overdue), sum(ledger.size for ledger in overdue))
    assert kept(retention, cursors, info, now_ms + OVERDUE_MS) == expected
