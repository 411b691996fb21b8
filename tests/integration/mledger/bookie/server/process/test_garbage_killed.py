"""kill -9 during the compaction of deleted ledgers' space under load: no moved entry is lost."""

import asyncio
import random

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("bookie:1",)),))
KEPT, ENTRIES, SIZE = (1, 2), 60, 4_000
DELETED_EACH = 5


class LoadedBookie:
    """A bookie under load whose ledgers come and go; `entries` is what must exist."""

    def __init__(self, bookie, store, seed):
        self.bookie, self.ledgers, self.rng = bookie, LedgerStore(store), random.Random(seed)
        self.entries = {}

    async def live(self, life):
        """Add to ledgers, delete most of them, kill the bookie during compaction, start it; the deleted ledgers."""
        doomed = [10 * (life + 1) + number for number in range(DELETED_EACH)]
        new = [100 * (life + 1) + number for number in KEPT]
        for ledger in (*doomed, *new):
            await self.ledgers.create(ledger, METADATA)
        async with RawBookieClient(self.bookie) as client:
            for number in range(ENTRIES):
                for ledger in (*doomed, *new):
                    data = entry(ledger, number, self.rng.randbytes(SIZE))
                    assert (await client.ask(wire.encode_add(KEY, data))).error == 0
                    if ledger in new:
                        self.entries[ledger, number] = data
        for ledger in doomed:
            await self.ledgers.delete(ledger)
        await self.gone(doomed)
        await asyncio.sleep(self.rng.random() / 20)
        self.bookie.restart()
        return doomed

    async def gone(self, ledgers):
        """Wait until the bookie knows none of the ledgers."""
        async with RawBookieClient(self.bookie) as client:
            for ledger in ledgers:
                while (await client.ask(wire.encode_read(ledger, 0))).error != Code.NO_LEDGER:
                    await asyncio.sleep(0.005)

    async def check(self):
        """Assert that every entry of the kept ledgers is there as it was acknowledged."""
        async with RawBookieClient(self.bookie) as client:
            for key, data in self.entries.items():
                assert (await client.ask(wire.encode_read(*key))).body == data


@pytest.mark.parametrize("seed", range(2))
def test_kept_ledgers_are_whole_and_deleted_ones_disappear(bookies, cluster_url, seed):
    (bookie,) = bookies.start(1, "--journal-mb", "1", "--gc-interval", "0.02", "--gc-grace", "0")

    async def main():
        async with await open_store(cluster_url) as store:
            cluster = LoadedBookie(bookie, store, seed)
            for life in range(3):
                doomed = await cluster.live(life)
                await cluster.check()
                await cluster.gone(doomed)

    run(main())
