"""Scattered positions are read as few requests, and what has no entry is missing (D3)."""

import pytest

from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.ledgers.entries.entry import PayloadRun, entries_of
from mledger.ledgers.entries.position_reads import GAP, PositionReader, cut, plan_positions
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from tests.support.aio import run

LEDGERS = LedgerList([LedgerInfo(ledger_id, 100, 1, 1) for ledger_id in (3, 4, 7)])


def at(ledger_id, *entries):
    """Positions of one ledger."""
    return [Position(ledger_id, entry) for entry in entries]


def requests(positions):
    """The planned requests, as ledger, first and last entry."""
    return [(each.ledger_id, each.first, each.last) for each in plan_positions(LEDGERS, positions).requests]


def test_positions_across_small_gaps_are_one_request_and_across_large_ones_two():
    assert requests(at(3, 5, 6, 7 + GAP, 9 + 2 * GAP)) == [(3, 5, 7 + GAP), (3, 9 + 2 * GAP, 9 + 2 * GAP)]


def test_requests_do_not_cross_ledgers_and_are_in_order():
    assert requests([*at(4, 0), *at(3, 99, 98), *at(7, 1, 0)]) == [(3, 98, 99), (4, 0, 0), (7, 0, 1)]


def test_a_position_that_was_asked_for_twice_is_read_once():
    assert requests(at(3, 1, 2, 1, 2)) == [(3, 1, 2)]


def test_positions_without_an_entry_are_missing():
    gone = [*at(1, 5), *at(3, 100), *at(5, 0), *at(7, -1)]
    plan = plan_positions(LEDGERS, [*gone, *at(4, 0)])
    assert plan.missing == tuple(sorted(gone))
    assert len(plan.requests) == 1


def test_a_run_that_is_wanted_whole_is_not_copied():
    whole = PayloadRun(3, 10, [b"%d" % entry for entry in range(10, 20)])
    (kept,) = cut(whole, [(5, 30)])
    assert kept.payloads is whole.payloads
    assert [
        (each.first_entry, list(each.payloads)) for each in cut(whole, [(3, 10), (12, 13), (19, 25), (40, 41)])
    ] == [
        (10, [b"10"]),
        (12, [b"12", b"13"]),
        (19, [b"19"]),
    ]


class PartlyLostEntries:
    """Entries whose payloads are their ids, some of them lost; at most four for a request."""

    def __init__(self, lost=(), gone=()):
        self.lost, self.gone, self.reads = set(lost), set(gone), 0

    async def read_runs(self, ledger_id, first, last, _):
        self.reads += 1
        last = min(last, first + 3)
        if ledger_id in self.gone:
            raise NoSuchLedger("gone")
        if self.lost.intersection(range(first, last + 1)):
            raise NoSuchEntry("lost")
        return [PayloadRun(ledger_id, first, [b"%d" % entry for entry in range(first, last + 1)])]

    async def read_afresh(self, ledger_id, entry):
        ((_, _, (payload,)),) = await self.read_runs(ledger_id, entry, entry, None)
        return payload


def read(bookies, positions, *, ledgers=LEDGERS, skip_lost=False):
    """What is found and what is missing."""
    found = run(PositionReader(bookies, lambda: ledgers, skip_lost=skip_lost).read(positions))
    assert all(int(entry.payload) == entry.position.entry_id for entry in entries_of(found.runs))
    return [entry.position for entry in entries_of(found.runs)], list(found.missing)


def test_every_wanted_entry_is_found_in_order_and_no_other():
    wanted = [*at(3, *range(0, 90, 7)), *at(4, 5, 6, 7, 50), *at(7, 0)]
    bookies = PartlyLostEntries()
    assert read(bookies, reversed(wanted)) == (wanted, [])


def test_a_lost_entry_is_an_error_and_missing_where_lost_entries_are_skipped():
    wanted = at(3, 1, 2, 3, 8)
    with pytest.raises(NoSuchEntry):
        read(PartlyLostEntries(lost=[2]), wanted)
    assert read(PartlyLostEntries(lost=[2]), wanted, skip_lost=True) == (at(3, 1, 3, 8), at(3, 2))


def test_a_lost_entry_between_the_wanted_ones_is_no_error():
    assert read(PartlyLostEntries(lost=[5]), at(3, 4, 6)) == (at(3, 4, 6), [])


def test_entries_of_a_ledger_that_is_trimmed_during_the_read_are_missing():
    lists = [LEDGERS, LEDGERS.without([3])]
    wanted = [*at(3, 1, 2), *at(4, 1)]

    async def main():
        reader = PositionReader(
            PartlyLostEntries(gone=[3]), lambda: lists.pop(0) if len(lists) > 1 else lists[0], skip_lost=False
        )
        return await reader.read(wanted)

    found = run(main())
    assert [entry.position for entry in entries_of(found.runs)] == at(4, 1)
    assert list(found.missing) == at(3, 1, 2)
