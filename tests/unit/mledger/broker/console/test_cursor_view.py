"""A cursor as its broker tells it is the cursor that its broker has."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.console.cursor_view import plan_cursor, plan_ledgers, plan_positions, plan_ranges
from mledger.cursors.plans import plan_skip
from mledger.metastore.records.position import Position, PositionRange

INTERNAL = {
    "state": "LedgerOpened",
    "lastConfirmedEntry": "7:4",
    "ledgers": [
        {"ledgerId": 3, "entries": 10, "size": 100, "offloaded": False},
        {"ledgerId": 7, "entries": 5, "size": 50, "offloaded": False},
    ],
    "cursors": {"sub": {"markDeletePosition": "3:4", "individuallyDeletedMessages": "[(3:5..3:7],(7:-1..7:0]]"}},
}


def test_the_backlog_and_a_skip_are_those_of_the_cursor():
    ledgers = plan_ledgers(INTERNAL)
    cursor = plan_cursor(INTERNAL, "sub", ledgers)
    assert (ledgers.current, ledgers.last_confirmed, ledgers.total_entries) == (7, Position(7, 4), 15)
    assert (cursor.backlog, cursor.acks.range_count) == (7, 2)
    move = plan_skip(ledgers, cursor, 2)
    assert (move.after.mark_delete, move.acknowledged) == (Position(3, 8), 2)
    assert plan_positions(INTERNAL) == {"sub": Position(3, 4)}


def test_a_terminated_topic_has_no_open_ledger():
    ledgers = plan_ledgers({**INTERNAL, "state": "Terminated"})
    assert (ledgers.current, ledgers.total_entries, ledgers.last_confirmed) == (None, 15, Position(7, 4))


def test_ranges_are_read_as_they_are_printed():
    assert plan_ranges("[]") == ()
    assert plan_ranges("[(3:-1..3:2]]") == (PositionRange(Position(3, -1), Position(3, 2)),)


def test_an_unknown_subscription_is_refused():
    with pytest.raises(AdminRefusal, match="no subscription"):
        plan_cursor(INTERNAL, "other", plan_ledgers(INTERNAL))
