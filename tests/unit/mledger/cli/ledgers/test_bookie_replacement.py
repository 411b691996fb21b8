"""Replacing a bookie in a ledger's metadata."""

import asyncio

from msgspec.structs import replace

from mledger.admin.undo.undo_file import ChangedRecord, NodeState
from mledger.cli.ledgers import bookie_replacement
from mledger.cli.ledgers.bookie_replacement import why_left, with_bookie
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import ledger_path
from tests.support.aio import run

CLOSED = LedgerMetadata(2, 2, 2, (Segment(0, ("a", "b")), Segment(7, ("c", "a"))), state=LedgerState.CLOSED)


def test_a_bookie_is_replaced_in_every_ensemble_at_its_place():
    assert with_bookie(CLOSED, "a", "d").segments == (Segment(0, ("d", "b")), Segment(7, ("c", "d")))


def test_a_ledger_is_left_if_both_bookies_share_an_ensemble_or_it_is_not_closed():
    assert why_left(CLOSED, "a", "d") is None
    assert why_left(CLOSED, "a", "c") == "c is in the same ensemble already"
    assert why_left(LedgerMetadata(1, 1, 1, (Segment(0, ("a",)),)), "a", "d") == "it is OPEN"


class CountingBookies:
    """Answers for every copy; notes how many are asked for at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def has_copy(self, *_: object) -> bool:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return True


def test_few_copies_are_asked_for_at_once_as_each_answer_has_a_whole_entry():
    state = NodeState(encode_ledger_metadata(replace(CLOSED, last_entry=9, length=9)), 0)
    records = [ChangedRecord(ledger_path(ledger), state) for ledger in range(100)]
    bookies = CountingBookies()
    run(bookie_replacement._check_still_there(bookies, records, "a", "d"))
    assert bookies.most == bookie_replacement._READS_AT_ONCE
