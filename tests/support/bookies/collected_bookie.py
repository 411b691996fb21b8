"""A bookie with three ledgers in several journal files, and its garbage collector."""

import os

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.process.garbage import GarbageCollector
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("bookie:1",)),))
ROUNDS, LEDGERS = 24, (1, 2, 3)
FILE = 1 << 20


class CollectedBookie:
    """A local bookie that holds ledgers, an in-memory metadata store that lists them, and the collector."""

    def __init__(self, local, store, instance):
        self.local, self.store, self.instance = local, store, instance
        self.ledgers = LedgerStore(store)
        self.collector = GarbageCollector(local.bookie, instance, grace_s=0)

    async def create(self, *numbers):
        for number in numbers:
            await self.ledgers.create(number, METADATA)

    async def fill(self):
        """Interleaved adds to all ledgers, over several journal files."""
        async with RawBookieClient(self.local) as client:
            for number in range(ROUNDS):
                for ledger in LEDGERS:
                    data = entry(ledger, number, os.urandom(60_000))
                    assert (await client.ask(wire.encode_add(KEY, data))).error == 0

    async def errors(self):
        """The answer to a read of each ledger's first entry."""
        async with RawBookieClient(self.local) as client:
            return [(await client.ask(wire.encode_read(ledger, 0))).error for ledger in LEDGERS]

    def disk_bytes(self):
        path = self.local.bookie.journal_path
        return sum(os.stat(os.path.join(path, name)).st_size for name in os.listdir(path))


def in_cluster(tmp_path, test):
    """Run a test on a bookie with three ledgers that the metadata store lists."""

    async def main():
        async with await open_store("memory:") as store:
            instance = await initialize(store)
            config = BookieConfig(journal_file_bytes=FILE)
            async with serving(tmp_path / "bookie", config=config) as local:
                cluster = CollectedBookie(local, store, instance)
                await cluster.create(*LEDGERS)
                await cluster.fill()
                return await test(cluster)

    return run(main())
