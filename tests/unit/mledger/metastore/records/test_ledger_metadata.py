"""Which of two records of a ledger is the later one."""

import pytest
from msgspec.structs import replace

from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment

FIRST = Segment(0, ("a", "b"))
OPEN = LedgerMetadata(2, 2, 2, (FIRST,), ctime=7, custom_metadata=(("component", b"managed-ledger"),))
GROWN = replace(OPEN, segments=(FIRST, Segment(10, ("a", "c"))))
IN_RECOVERY = replace(GROWN, state=LedgerState.IN_RECOVERY)
CLOSED = replace(GROWN, state=LedgerState.CLOSED, last_entry=19)
MOVED = replace(CLOSED, segments=(Segment(0, ("d", "e")), Segment(10, ("d", "c"))))


@pytest.mark.parametrize(
    ("later", "earlier"),
    [(GROWN, OPEN), (IN_RECOVERY, GROWN), (CLOSED, OPEN), (CLOSED, IN_RECOVERY), (MOVED, CLOSED), (MOVED, OPEN)],
)
def test_a_record_follows_those_before_it(later, earlier):
    assert later.follows(earlier)


@pytest.mark.parametrize(
    ("record", "other"),
    [
        (OPEN, GROWN),
        (OPEN, CLOSED),
        (IN_RECOVERY, MOVED),
        (replace(CLOSED, last_entry=8), GROWN),
        (replace(CLOSED, last_entry=18), CLOSED),
        (replace(CLOSED, ctime=8), OPEN),
        (replace(CLOSED, custom_metadata=()), OPEN),
    ],
)
def test_a_record_follows_none_that_knows_more_nor_one_of_another_ledger(record, other):
    assert not record.follows(other)


def test_a_record_without_a_time_may_be_of_any():
    assert replace(CLOSED, ctime=-1).follows(OPEN)
