"""What commands on whole topics would do, decided over plain values."""

import pytest

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import OpeningView
from mledger.admin.topic_plans import (
    lost_ledgers,
    plan_topic_terminate,
    plan_topic_trim,
    plan_topic_truncate,
)
from mledger.config import ManagedLedgerConfig
from mledger.cursors.compaction import COMPACTION, why_never_trimmed
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo

ORDERS = TopicName.parse("shop/eu/orders")
NOW = 1_000_000
CONFIG = ManagedLedgerConfig()
CLOSED = (LedgerInfo(4, 10, 100, 500), LedgerInfo(7, 5, 50, 600))
NEW = 8


def view(cursors: dict[str, Position], *, terminated: Position | None = None) -> OpeningView:
    ledgers = CLOSED if terminated else (*CLOSED, LedgerInfo(NEW))
    listed = LedgerList(ledgers, current=None if terminated else NEW, terminated=terminated)
    inspected = []
    for name, position in cursors.items():
        record = ManagedCursorInfo(cursors_ledger_id=-1, mark_delete=position)
        plan = plan_cursor_recovery(name, record, None, listed)
        inspected.append(CursorInspection(name, f"/managed-ledgers/{name}", 0, record, plan))
    info = ManagedLedgerInfo(CLOSED, terminated=terminated)
    return OpeningView(info, listed, None if terminated else NEW, tuple(inspected), ())


def deleted(plan) -> list[int]:
    return [ledger.ledger_id for ledger in plan.deletions]


def test_trim_deletes_ledgers_that_every_cursor_has_passed() -> None:
    assert deleted(plan_topic_trim(ORDERS, view({"a": Position(7, 1), "b": Position(7, 4)}), CONFIG, NOW)) == [4]


def test_a_cursor_at_the_end_moves_to_the_ledger_that_opening_creates() -> None:
    plan = plan_topic_trim(ORDERS, view({"a": Position(7, 4)}), CONFIG, NOW)
    assert [move.new for move in plan.moves] == [Position(NEW, -1)]
    assert deleted(plan) == [4, 7]


def test_trim_is_refused_while_a_cursor_cannot_be_read() -> None:
    broken = CursorInspection("b", "/managed-ledgers/b", 0, None, None, RecordError("cannot be read"))
    found = view({"a": Position(7, 4)})
    with pytest.raises(RecordError):
        plan_topic_trim(ORDERS, OpeningView(found.info, found.ledgers, NEW, (*found.cursors, broken), ()), CONFIG, NOW)


def test_a_topic_that_is_only_compacted_is_not_trimmed_before_and_the_plan_says_why() -> None:
    events = TopicName.parse("shop/eu/__change_events")
    plan = plan_topic_trim(events, view({}), CONFIG, NOW)
    assert (deleted(plan), plan.kept_because) == ([], why_never_trimmed(events, ()))
    assert deleted(plan_topic_trim(events, view({COMPACTION: Position(7, 1)}), CONFIG, NOW)) == [4]


def test_truncate_deletes_every_closed_ledger_whatever_the_retention() -> None:
    assert deleted(plan_topic_truncate(view({"a": Position(4, 0)}), NOW)) == [4, 7]
    assert deleted(plan_topic_truncate(view({}, terminated=Position(7, 4)), NOW)) == [4]  # but the last: R10


def test_terminate_ends_after_the_last_entry_or_where_it_ended_before() -> None:
    assert plan_topic_terminate(view({})).last_entry == Position(7, 4)
    assert plan_topic_terminate(view({})).already is None
    assert plan_topic_terminate(view({}, terminated=Position(7, 4))).already == Position(7, 4)


def test_losses_are_counted_and_long_lists_are_cut() -> None:
    assert lost_ledgers("t", CLOSED) == ("15 entries, 150 bytes of t, in ledger 4, 7",)
    assert lost_ledgers("t", (LedgerInfo(9),)) == ()
    many = lost_ledgers("t", [LedgerInfo(number, 1, 1, 1) for number in range(25)])
    assert many[0].endswith("19 and 5 more")
