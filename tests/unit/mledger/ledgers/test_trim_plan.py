"""What a trim deletes and which cursors move first (R9, R10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.config import MIB, ManagedLedgerConfig
from mledger.events import EndTrim, LastConfirmedLedgerDeletion, RemovingLedger
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.retention import RetentionInForce, RetentionOrigin
from mledger.ledgers.trim_plan import CursorMove, plan_trim
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, OffloadContext

NOW = 100_000
NO_RETENTION = ManagedLedgerConfig(retention_time_ms=0, retention_size_in_mb=0)


def topic(*closed: LedgerInfo, live: int = 2) -> LedgerList:
    """Closed ledgers and the current one, 90."""
    return LedgerList([*closed, LedgerInfo(90)], current=90, live_entries=live, live_size=live * 10)


def ledger(ledger_id: int, size: int = 50, timestamp: int = 1000, **fields) -> LedgerInfo:
    return LedgerInfo(ledger_id, 5, size, timestamp, **fields)


THREE = topic(ledger(10), ledger(20), ledger(30))


def deleted(plan) -> list[int]:
    return [info.ledger_id for info in plan.deletions]


def trim(ledgers: LedgerList, config: ManagedLedgerConfig = NO_RETENTION, now: int = NOW, **cursors: Position):
    return plan_trim(ledgers, cursors, config, now)


def test_ledgers_below_the_slowest_cursor_are_deleted():
    plan = trim(THREE, slow=Position(20, 3), fast=Position(90, 1))
    assert deleted(plan) == [10]
    assert plan.kept_because == "ledger 20 is not consumed by every durable cursor"
    assert [info.ledger_id for info in plan.remaining] == [20, 30, 90]
    assert (plan.remaining_ledgers, plan.remaining_size) == (3, 120)


def test_a_cursor_at_the_end_of_a_ledger_is_moved_and_its_ledger_deleted():
    plan = trim(THREE, sub=Position(20, 4))
    assert plan.moves == (CursorMove("sub", Position(20, 4), Position(30, -1)),)
    assert deleted(plan) == [10, 20]


def test_a_cursor_at_the_end_of_the_current_ledger_stays():
    plan = trim(THREE, sub=Position(90, 1))
    assert plan.moves == ()
    assert deleted(plan) == [10, 20, 30]


def test_every_cursor_moves_even_if_another_keeps_the_ledger():
    plan = trim(THREE, at_end=Position(20, 4), slow=Position(10, 1))
    assert [move.cursor for move in plan.moves] == ["at_end"]
    assert deleted(plan) == []


def test_without_a_durable_cursor_all_closed_ledgers_are_deleted():
    plan = trim(THREE)
    assert deleted(plan) == [10, 20, 30]
    assert plan.kept_because == "ledger 90 is open for writing"


def test_a_terminated_topic_keeps_its_last_ledger():
    """Readers may come to it, and to Pulsar it is still the current one."""
    ended = LedgerList([ledger(10), ledger(20)], terminated=Position(20, 4))
    assert deleted(trim(ended, sub=Position(20, 4))) == [10]
    assert deleted(trim(ended)) == [10]
    assert trim(ended).kept_because == "ledger 20 is the last one of a terminated topic"


def test_a_truncated_terminated_topic_keeps_its_last_ledger():
    ended = LedgerList([ledger(10), ledger(20)], terminated=Position(20, 4))
    plan = plan_trim(ended, {}, NO_RETENTION, NOW, through=Position(20, 4))
    assert [info.ledger_id for info in plan.deletions] == [10]
    assert plan.kept_because == "ledger 20 is the last one of a terminated topic"


def test_a_cursor_in_a_deleted_ledger_keeps_what_comes_after():
    assert deleted(trim(THREE, sub=Position(15, 2))) == [10]


def test_a_ledger_within_its_retention_time_is_kept_with_all_after_it():
    config = ManagedLedgerConfig(retention_time_ms=60_000, retention_size_in_mb=-1)
    ledgers = topic(ledger(10, timestamp=30_000), ledger(20, timestamp=60_000), ledger(30, timestamp=10_000))
    plan = trim(ledgers, config)
    assert deleted(plan) == [10]
    assert plan.kept_because == "ledger 20 is kept by retention"


def test_a_ledger_is_deleted_once_its_time_has_passed_without_any_traffic():
    config = ManagedLedgerConfig(retention_time_ms=60_000, retention_size_in_mb=-1)
    assert deleted(trim(THREE, config, now=61_000)) == []
    assert deleted(trim(THREE, config, now=61_001)) == [10, 20, 30]


def test_ledgers_are_deleted_while_the_rest_is_over_the_size():
    config = ManagedLedgerConfig(retention_time_ms=-1, retention_size_in_mb=2)
    ledgers = topic(ledger(10, size=MIB), ledger(20, size=MIB), ledger(30, size=MIB), live=0)
    assert deleted(trim(ledgers, config)) == [10]


def test_minus_one_keeps_all():
    config = ManagedLedgerConfig(retention_time_ms=-1, retention_size_in_mb=-1)
    assert deleted(trim(THREE, config, now=10**15)) == []


@pytest.mark.parametrize(("time_ms", "size_mb"), [(0, -1), (-1, 0), (0, 0)])
def test_zero_keeps_nothing_that_is_consumed(time_ms, size_mb):
    config = RetentionInForce(time_ms, size_mb, RetentionOrigin.TOPIC)
    assert deleted(trim(THREE, config)) == [10, 20, 30]


def test_an_offloaded_ledger_is_kept_with_all_after_it():
    ledgers = topic(ledger(10), ledger(20, offload=OffloadContext(b"x")), ledger(30))
    plan = trim(ledgers)
    assert deleted(plan) == [10]
    assert plan.kept_because == "ledger 20 has an offloaded copy"


def test_truncate_deletes_all_but_the_current_one_whatever_cursors_and_retention_say():
    config = ManagedLedgerConfig(retention_time_ms=-1, retention_size_in_mb=-1)
    assert deleted(plan_trim(THREE, {"sub": Position(10, 0)}, config, NOW, through=Position(90, 1))) == [10, 20, 30]


def test_truncate_keeps_a_ledger_with_entries_added_after_it_began():
    plan = plan_trim(THREE, {"sub": Position(20, 4)}, NO_RETENTION, NOW, through=Position(20, 3))
    assert deleted(plan) == [10]
    assert plan.kept_because == "ledger 20 has entries that came after the truncation began"


def test_the_documented_run_removes_ledger_56_of_673_bytes():
    ledgers = LedgerList([LedgerInfo(56, 10, 673, 1000), LedgerInfo(603)], current=603)
    plan = trim(ledgers, consumer_002=Position(56, 9))
    assert plan.moves == (CursorMove("consumer_002", Position(56, 9), Position(603, -1)),)
    assert plan.events_before("t") == (LastConfirmedLedgerDeletion("t", 56, Position(56, 9)),)
    assert plan.events_after("t") == (EndTrim("t", 1, 0), RemovingLedger("t", 56, 673))


def test_a_trim_that_deletes_nothing_emits_no_event():
    plan = trim(THREE, sub=Position(10, 0))
    assert plan.events_before("t") == plan.events_after("t") == ()


def test_the_ledger_of_the_last_confirmed_entry_is_named_only_if_it_is_deleted():
    assert trim(THREE).events_before("t") == ()
    assert trim(topic(ledger(10), live=0)).events_before("t") == (
        LastConfirmedLedgerDeletion("t", 10, Position(10, 4)),
    )


@given(
    ages=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2 * MIB)), min_size=1, max_size=6),
    marks=st.lists(st.tuples(st.integers(0, 6), st.integers(-1, 6)), max_size=3),
    time_ms=st.sampled_from([-1, 0, 2]),
    size_mb=st.sampled_from([-1, 0, 3]),
)
def test_deletions_are_a_prefix_and_no_cursor_needs_them(ages, marks, time_ms, size_mb):
    infos = [LedgerInfo(index, 4, size, timestamp) for index, (timestamp, size) in enumerate(ages)]
    ledgers = LedgerList([*infos, LedgerInfo(len(infos))], current=len(infos), live_entries=4)
    cursors = {f"c{index}": Position(*mark) for index, mark in enumerate(marks)}
    config = RetentionInForce(time_ms, size_mb, RetentionOrigin.TOPIC)
    plan = plan_trim(ledgers, cursors, config, 4)
    assert (*plan.deletions, *plan.remaining) == ledgers.infos
    assert plan.remaining[-1].ledger_id == ledgers.current
    moved = cursors | {move.cursor: move.new for move in plan.moves}
    for info in plan.deletions:
        assert all(position.ledger_id > info.ledger_id for position in moved.values())
    assert plan.remaining_size == ledgers.total_size - sum(info.size for info in plan.deletions)
    for move in plan.moves:
        assert ledgers.count_through(move.old) == ledgers.count_through(move.new)
