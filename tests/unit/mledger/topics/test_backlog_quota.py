"""Backlog quotas over plain values: size and age of a backlog, and what cursors give up."""

import pytest

from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from mledger.topics.backlog_quota import (
    OldestBacklog,
    SlowestCursor,
    backlog_size,
    is_older_by_ledgers,
    oldest_by_ledgers,
    plan_age_eviction,
    plan_size_eviction,
    slowest_cursor,
)

LEDGERS = LedgerList(
    [LedgerInfo(3, 10, 1000, 1000), LedgerInfo(5, 10, 500, 2000), LedgerInfo(9)],
    current=9,
    live_entries=5,
    live_size=500,
)
CURSORS = {"fast": Position(9, 1), "slow": Position(3, 1), "middle": Position(5, 4)}


def test_the_backlog_is_that_of_the_slowest_cursor():
    assert slowest_cursor(CURSORS) == SlowestCursor("slow", Position(3, 1))
    assert backlog_size(LEDGERS, CURSORS) == 1800
    assert backlog_size(LEDGERS, {"middle": Position(5, 4)}) == 750
    assert backlog_size(LEDGERS, {"gone": Position(1, 7)}) == 2000
    assert backlog_size(LEDGERS, {"end": Position(9, 4)}) == backlog_size(LEDGERS, {}) == 0


@pytest.mark.parametrize(("before_ms", "older"), [(1000, False), (1001, True)])
def test_a_backlog_is_as_old_as_the_ledger_of_its_oldest_entry(before_ms, older):
    assert is_older_by_ledgers(LEDGERS, CURSORS, before_ms) is older
    assert oldest_by_ledgers(LEDGERS, CURSORS) == OldestBacklog("slow", 1000)


def test_a_backlog_in_the_current_ledger_and_an_empty_one_are_not_old():
    for cursors in ({}, {"sub": Position(9, 1)}, {"sub": Position(5, 9)}, {"sub": Position(9, 4)}):
        assert not is_older_by_ledgers(LEDGERS, cursors, 10_000)
        assert oldest_by_ledgers(LEDGERS, cursors) is None


def test_a_backlog_that_begins_in_the_next_ledger_is_as_old_as_that():
    assert oldest_by_ledgers(LEDGERS, {"sub": Position(3, 9)}) == OldestBacklog("sub", 2000)


@pytest.mark.parametrize("limit", [100, 555, 1000, 1500, 1999])
def test_after_an_eviction_by_size_nine_tenths_of_the_limit_are_left(limit):
    plan = plan_size_eviction(LEDGERS, CURSORS, limit)
    left = backlog_size(LEDGERS, CURSORS | plan)
    assert 0.9 * limit - 100 <= left <= 0.9 * limit
    assert all(plan[name] > CURSORS[name] for name in plan)


def test_an_eviction_moves_only_cursors_that_are_behind_and_none_of_the_system():
    system = {"__compaction": Position(3, -1), "pulsar.dedup": Position(3, -1)}
    assert plan_size_eviction(LEDGERS, CURSORS | system, 1000) == {"slow": Position(5, 1)}
    assert plan_size_eviction(LEDGERS, CURSORS, 5000) == {}


def test_an_eviction_by_age_gives_up_ledgers_that_were_closed_before():
    assert plan_age_eviction(LEDGERS, CURSORS, 1500) == {"slow": Position(3, 9)}
    assert plan_age_eviction(LEDGERS, CURSORS, 2500) == {"slow": Position(5, 9), "middle": Position(5, 9)}
    assert plan_age_eviction(LEDGERS, CURSORS, 500) == {}
