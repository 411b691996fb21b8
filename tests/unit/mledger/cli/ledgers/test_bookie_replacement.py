"""Replacing a bookie in a ledger's metadata."""

from mledger.cli.ledgers.bookie_replacement import why_left, with_bookie
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment

CLOSED = LedgerMetadata(2, 2, 2, (Segment(0, ("a", "b")), Segment(7, ("c", "a"))), state=LedgerState.CLOSED)


def test_a_bookie_is_replaced_in_every_ensemble_at_its_place():
    assert with_bookie(CLOSED, "a", "d").segments == (Segment(0, ("d", "b")), Segment(7, ("c", "d")))


def test_a_ledger_is_left_if_both_bookies_share_an_ensemble_or_it_is_not_closed():
    assert why_left(CLOSED, "a", "d") is None
    assert why_left(CLOSED, "a", "c") == "c is in the same ensemble already"
    assert why_left(LedgerMetadata(1, 1, 1, (Segment(0, ("a",)),)), "a", "d") == "it is OPEN"
