"""Updates and reads of ledger metadata that are sent together: none fails because of the others."""

import asyncio

from msgspec.structs import replace

from mledger.bookie.client.ledgers.metadata.metadata_batches import MetadataUpdates
from mledger.bookie.client.ledgers.metadata.metadata_reads import MetadataReads
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import MetadataAccessDenied
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.store import Create
from mledger.metastore.url import open_store
from tests.support.aio import run

OPEN = LedgerMetadata(2, 2, 1, (Segment(0, ("a:1", "b:1")),))
LONG = replace(
    OPEN, segments=tuple(Segment(first, (f"a-{first % 5}:3181", f"b-{first % 7}:3181")) for first in range(900))
)
"""A ledger whose bookies failed again and again: some forty of them fill a request."""
LEDGERS = range(1, 61)


def test_ledgers_of_many_ensembles_are_changed_in_one_turn(metadata_url):
    async def main():
        async with await open_store(metadata_url) as store:
            await initialize(store)
            records = LedgerStore(store)
            for number in LEDGERS:
                await records.create(number, LONG)
            updates = MetadataUpdates(store, records)
            closed = replace(LONG, state=LedgerState.CLOSED, last_entry=1000, length=9)
            assert await asyncio.gather(*(updates.put(number, closed, 0) for number in LEDGERS)) == [1] * len(LEDGERS)

    run(main())


def test_an_unreadable_ledger_does_not_stop_reads_of_others(metadata_url):
    async def main():
        async with await open_store(metadata_url) as store:
            await initialize(store)
            records = LedgerStore(store)
            await records.create(1, OPEN)
            await store.multi([Create(ledger_path(2), b"", acl=("digest:nobody:x:cdrwa",))])
            reads = MetadataReads(records)
            found, refused = await asyncio.gather(reads.read(1), reads.read(2), return_exceptions=True)
            assert isinstance(refused, MetadataAccessDenied)
            assert found[0].segments == OPEN.segments

    run(main())
