"""The second look at ledgers that no record names."""

from mledger.config import ManagedLedgerConfig
from mledger.exporter.cluster_reader import ClusterReader
from mledger.exporter.orphan_suspects import YOUNG_MS, OrphanSuspects
from mledger.exporter.paced_reader import PacedReader
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import deletion_path, ledger_path
from mledger.metastore.runtime.times import wall_clock_ms
from tests.support.aio import run

TOPICS = 40
RECORDS = 400


def metadata_of(managed_ledger):
    custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", managed_ledger.encode()))
    old_ms = wall_clock_ms() - 2 * YOUNG_MS
    return encode_ledger_metadata(
        LedgerMetadata(1, 1, 1, segments=(Segment(0, ("b:1",)),), ctime=old_ms, custom_metadata=custom)
    )


async def create_orphans(store):
    """An orphan of each of TOPICS topics, and as many deletion records of another as RECORDS."""
    await store.create("/managed-ledgers", b"")
    for number in range(TOPICS):
        await store.create(ledger_path(number), metadata_of(f"t/n/persistent/{number}"), parents=True)
    for number in range(RECORDS):
        await store.create(deletion_path(1000 + number), b"t/n/persistent/deleted", parents=True)


def test_the_records_of_deletions_are_not_read_again_for_each_topic():
    """Java's brokers leave orphans of many topics; while a bookie is away, deletions wait."""

    async def main():
        store = MemoryStore()
        await create_orphans(store)
        reader = PacedReader(store, 1e9)
        figures = await ClusterReader(ManagedLedgerConfig(), worst=1).read(reader)
        assert figures.orphans == OrphanSuspects(TOPICS, 0, 0)
        assert reader.requested < 5 * (TOPICS + RECORDS)

    run(main())


def test_a_ledger_that_is_recorded_for_deletion_at_the_second_look_is_none():
    class Deleting(PacedReader):
        """The topic of ledger 1 is deleted while its records are looked at again."""

        async def get_many(self, paths):
            if "/managed-ledgers/t/n/persistent/1" in paths:
                await store.create(deletion_path(1), b"t/n/persistent/1")
            return await super().get_many(paths)

    store = MemoryStore()

    async def main():
        await create_orphans(store)
        figures = await ClusterReader(ManagedLedgerConfig(), worst=1).read(Deleting(store, 1e9))
        assert figures.orphans == OrphanSuspects(TOPICS - 1, 0, 0)

    run(main())
