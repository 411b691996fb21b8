"""Ledgers expire by their close, positions by their order."""

import pytest

from mledger.cursors.positions import plan_ledger_expiry, plan_position_expiry
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo

LEDGERS = LedgerList(
    [LedgerInfo(3, 10, 100, 1000), LedgerInfo(5, 10, 100, 2000), LedgerInfo(9)], current=9, live_entries=4, live_size=4
)


@pytest.mark.parametrize(
    ("before_ms", "mark_delete", "reached"),
    [
        (1000, Position(3, 2), Position(3, 2)),
        (1001, Position(3, 2), Position(3, 9)),
        (2001, Position(3, 2), Position(5, 9)),
        (9999, Position(3, -1), Position(5, 9)),
        (9999, Position(9, 1), Position(9, 1)),
    ],
)
def test_ledgers_closed_before_the_limit_expire_whole_and_the_current_one_does_not(before_ms, mark_delete, reached):
    assert plan_ledger_expiry(LEDGERS, mark_delete, before_ms) == reached


@pytest.mark.parametrize(
    ("position", "reached"),
    [(Position(5, 3), Position(5, 3)), (Position(3, 1), Position(3, 4)), (Position(9, 3), Position(9, 3))],
)
def test_everything_up_to_a_position_expires(position, reached):
    assert plan_position_expiry(LEDGERS, Position(3, 4), position) == reached


def test_nothing_expires_by_a_position_past_the_end():
    assert plan_position_expiry(LEDGERS, Position(3, 4), Position(9, 4)) == Position(3, 4)


def test_a_consumed_ledger_that_was_closed_while_the_clock_was_ahead_keeps_no_later_one():
    ahead = LedgerList([LedgerInfo(3, 10, 100, 9000), *LEDGERS.infos[1:]], current=9, live_entries=4, live_size=4)
    assert plan_ledger_expiry(ahead, Position(5, 2), 2001) == Position(5, 9)
