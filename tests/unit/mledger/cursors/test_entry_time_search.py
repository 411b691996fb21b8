"""The newest entry that matches is found by bisection (C7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.cursors.entry_time import find_newest_matching
from mledger.errors import InvalidPosition
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import LedgerInfo
from tests.support.aio import run

LEDGERS = LedgerList([LedgerInfo(3, 50, 1, 1), LedgerInfo(5, 1, 1, 1), LedgerInfo(9, 49, 1, 1)])
EVERY = [LEDGERS.entry_at(index) for index in range(100)]


def search(matches, lower, upper=None, ledgers=LEDGERS, gone=lambda _: False):
    """What is found, and how many entries were read."""
    reads = []

    async def read_entry(position):
        reads.append(position)
        if gone(position):
            raise InvalidPosition("it was trimmed")
        return Entry(position, b"")

    found = run(find_newest_matching(lambda: ledgers, read_entry, lambda each: matches(each.position), lower, upper))
    return found, len(reads)


@given(st.integers(0, 100), st.integers(-1, 99))
def test_it_is_the_last_of_those_that_match_above_the_lower_bound(matching, lower):
    below = Position(3, NO_ENTRY) if lower < 0 else EVERY[lower]
    found, reads = search(lambda position: position in EVERY[:matching], below)
    assert found == (EVERY[matching - 1] if matching > lower + 1 else None)
    assert reads <= 10


def test_nothing_above_the_bound_is_read():
    assert search(lambda _: True, EVERY[10], EVERY[20]) == (EVERY[20], 2)
    assert search(lambda _: True, EVERY[99]) == (None, 0)


def test_an_entry_that_is_trimmed_meanwhile_counts_as_older():
    left = LedgerList(LEDGERS.infos[2:])

    def search_in(lists):
        async def read_entry(position):
            if position.ledger_id < 9:
                raise InvalidPosition("it was trimmed")
            return Entry(position, b"")

        matches = lambda each: each.position.entry_id < 7  # noqa: E731
        return run(find_newest_matching(lambda: lists.pop(0) if lists else left, read_entry, matches, Position(3, -1)))

    assert search_in([LEDGERS]) == Position(9, 6)


def test_a_position_that_was_never_an_entry_is_an_error():
    with pytest.raises(InvalidPosition):
        search(lambda _: True, EVERY[10], gone=lambda _: True)
