"""What a bookie with new directories notes of the ledgers that name it."""

import pytest
from msgspec.structs import replace

from mledger.bookie.server.process.lost_ledgers import LostLedgers, plan_lost
from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment

ME, OTHER = "me:1", "other:1"
MINE = LedgerMetadata(1, 1, 1, (Segment(0, (ME,)), Segment(10, (OTHER,))))


@pytest.mark.parametrize(
    ("state", "fenced", "limbo"),
    [(LedgerState.OPEN, False, True), (LedgerState.IN_RECOVERY, True, True), (LedgerState.CLOSED, True, False)],
)
def test_fences_and_absence_are_in_doubt_by_the_state_of_the_ledger(state, fenced, limbo):
    assert plan_lost(replace(MINE, state=state), ME) == LedgerData.without_key(fenced=fenced, limbo=limbo)


def test_nothing_is_noted_of_a_ledger_that_does_not_name_the_bookie():
    assert plan_lost(replace(MINE, segments=(Segment(0, (OTHER,)),)), ME) is None


def test_what_is_to_be_noted_is_given_back_as_it_was_added():
    added = [
        (1 << 62, LedgerData.without_key(fenced=True, limbo=False)),
        (7, LedgerData.without_key(fenced=False, limbo=True)),
    ]
    lost = LostLedgers()
    for ledger, record in added:
        lost.add(ledger, record)
    assert (len(lost), list(lost)) == (2, added)
