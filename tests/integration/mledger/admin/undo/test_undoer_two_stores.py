"""Undoes a change of topics and ledgers where ledgers have a metadata store of their own: no request spans both."""

import itertools

import pytest

from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, UndoFile
from mledger.admin.undo.undoer import plan_undo_of, undo
from mledger.config import ManagedLedgerConfig
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import ledger_path, managed_ledger_path
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.ledgers import client
from tests.support.owners.cut_off import CutOff

NAME = "public/default/persistent/topic"
TOPIC, LEDGER = managed_ledger_path(NAME), ledger_path(6)
METADATA = encode_ledger_metadata(LedgerMetadata(1, 1, 1, (Segment(0, ("bookie:1",)),)))
_urls = (f"memory:topics-{number}?ledgers=memory:ledgers-{number}" for number in itertools.count())


BEFORE, AFTER = (encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(5, entries, 30, 7),))) for entries in (3, 4))


async def repaired(store, *, topic):
    """The undo file of a command that deleted ledger 6, and perhaps corrected what its topic says of ledger 5."""
    await store.create(TOPIC, BEFORE, parents=True)
    await store.create(ledger_path(5), METADATA, parents=True)
    records = [ChangedRecord(LEDGER, NodeState(METADATA, 2))]
    if topic:
        version = await store.put(TOPIC, AFTER, 0)
        records.append(ChangedRecord(TOPIC, NodeState(BEFORE, 0), NodeState(AFTER, version)))
    return UndoFile("test", NAME, 0, store.url, tuple(records), (NAME,), outcome=Outcome.DONE)


@pytest.mark.parametrize("topic", [False, True])
@pytest.mark.parametrize("cut_off_at", range(3))
def test_records_of_both_stores_are_restored_even_if_that_was_interrupted(topic, cut_off_at):
    pieces = itertools.count()

    def on_step(step):
        if step == "undo" and next(pieces) == cut_off_at:
            raise CutOff

    async def main():
        url = next(_urls)
        async with await open_store(url) as store, client(url) as bookkeeper:
            file = await repaired(store, topic=topic)
            try:
                await undo(await plan_undo_of(store, file), store, bookkeeper, ManagedLedgerConfig(), on_step)
            except CutOff:
                await undo(await plan_undo_of(store, file), store, bookkeeper, ManagedLedgerConfig())
            assert (await store.get(LEDGER)).data == METADATA
            assert (await store.get(TOPIC)).data == BEFORE

    run(main())
