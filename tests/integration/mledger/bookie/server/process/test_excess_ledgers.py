"""A bookie deletes closed ledgers whose ensembles it has left, and keeps those that may return or still change."""

import asyncio
import time

import pytest
from msgspec import structs

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.server.process.garbage import GarbageCollector
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.cluster.underreplication import encode_lock
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import underreplication_lock_path
from mledger.metastore.store import MetadataStore
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
ME, OTHER, THIRD = "me:1", "other:1", "third:1"
OPEN = LedgerMetadata(1, 1, 1, (Segment(0, (OTHER,)),))
LEFT = structs.replace(OPEN, state=LedgerState.CLOSED, last_entry=0, length=1)
MINE = structs.replace(LEFT, segments=(Segment(0, (ME,)), Segment(1, (OTHER,))))


class HoldingBookie:
    """A bookie that holds ledgers, their metadata in memory, and a collector that first finds and then deletes."""

    def __init__(self, local, store: MetadataStore, instance, client):
        self.local, self.store, self.client = local, store, client
        self.ledgers = LedgerStore(store)
        self.collector = GarbageCollector(local.bookie, instance, grace_s=0, bookie_id=ME, overreplicated_every_s=1e-9)
        self.collector.overreplicated._clock = time.monotonic  # the loop's may stand still between two looks

    async def hold(self, ledger, metadata):
        """Create a ledger of one entry, whose record was written again since it was created."""
        await self.ledgers.create(ledger, OPEN)
        await self.ledgers.put(ledger, metadata, 0)
        await self.add(ledger, 0)

    async def add(self, ledger, number):
        assert (await self.client.ask(wire.encode_add(KEY, entry(ledger, number, b"x")))).error == 0

    async def found(self, reader):
        """Find the ledgers that the bookie has left, without deleting them yet."""
        self.collector.overreplicated._grace_s = 1e9
        assert await self.collector.collect_overreplicated(reader) == []
        self.collector.overreplicated._grace_s = 0

    async def errors(self, *ledgers):
        """The answers to reads of their first entries."""
        return [(await self.client.ask(wire.encode_read(ledger, 0))).error for ledger in ledgers]


def holding(tmp_path, test, url="memory:"):
    """Run a test on a `HoldingBookie`."""

    async def main():
        async with await open_store(url) as store:
            instance = await initialize(store)
            async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
                await test(HoldingBookie(local, store, instance, client))

    run(main())


def test_a_closed_ledger_that_the_bookie_has_left_is_deleted_and_others_stay(tmp_path):
    async def test(holder):
        for ledger, metadata in enumerate((LEFT, MINE, OPEN, structs.replace(OPEN, state=LedgerState.IN_RECOVERY))):
            await holder.hold(ledger, metadata)
        assert await holder.collector.collect_overreplicated(holder.store) == [0]
        assert await holder.errors(0, 1, 2, 3) == [Code.NO_LEDGER, 0, 0, 0]
        assert await holder.store.exists(underreplication_lock_path(0)) is None
        assert (await holder.ledgers.read(0))[0].segments == LEFT.segments
        # A restored backup may have it open: to a recovery this proves nothing.
        fencing = wire.encode_read(0, 0, wire.Flag.FENCE, KEY)
        assert (await holder.client.ask(fencing)).error == Code.UNKNOWN_LEDGER_STATE

    holding(tmp_path, test)


def test_a_ledger_that_does_not_say_when_it_was_made_stays_until_its_restored_record_is_changed(tmp_path):
    """A backup names bookies that may have been replaced after it; these copies may be all that is left."""

    async def test(holder):
        await holder.ledgers.create(1, LEFT)
        await holder.add(1, 0)
        assert await holder.collector.collect_overreplicated(holder.store) == []
        assert await holder.errors(1) == [0]
        replicated = structs.replace(LEFT, segments=(Segment(0, (THIRD,)),))
        await holder.ledgers.put(1, replicated, 0)
        assert await holder.collector.collect_overreplicated(holder.store) == [1]

    holding(tmp_path, test)


def test_a_ledger_whose_record_was_restored_stays_although_some_of_its_bookies_were_exchanged_since(tmp_path):
    """The bookie has the only copy of the second segment, of which the backup names a bookie that is gone."""
    restored = structs.replace(LEFT, segments=(Segment(0, (OTHER,)), Segment(1, ("gone:1",))), ctime=1_000_000_000_000)

    async def test(holder):
        await holder.ledgers.create(1, restored)
        await holder.add(1, 1)
        exchanged = structs.replace(restored, segments=(Segment(0, (THIRD,)), *restored.segments[1:]))
        await holder.ledgers.put(1, exchanged, 0)
        assert await holder.collector.collect_overreplicated(holder.store) == []

    holding(tmp_path, test)


def test_the_lock_is_released_if_topics_have_another_metadata_store(tmp_path, rocksdb_url, metadata_url):
    async def test(holder):
        await holder.hold(1, LEFT)
        assert await holder.collector.collect_overreplicated(holder.store) == [1]
        assert await holder.store.exists(underreplication_lock_path(1)) is None

    holding(tmp_path, test, f"{rocksdb_url}?ledgers={metadata_url}/ledgers")


def test_a_ledger_stays_for_the_grace_period(tmp_path):
    async def test(holder):
        await holder.hold(1, LEFT)
        await holder.found(holder.store)
        assert await holder.errors(1) == [0]
        assert await holder.collector.collect_overreplicated(holder.store) == [1]

    holding(tmp_path, test)


def test_a_ledger_that_is_being_replicated_stays(tmp_path):
    async def test(holder):
        await holder.hold(1, LEFT)
        lock = underreplication_lock_path(1)
        await holder.store.create(lock, encode_lock(THIRD), parents=True)
        assert await holder.collector.collect_overreplicated(holder.store) == []
        assert await holder.errors(1) == [0]
        assert (await holder.store.get(lock)).data == encode_lock(THIRD)

    holding(tmp_path, test)


def test_a_ledger_that_receives_adds_after_it_was_found_stays(tmp_path):
    async def test(holder):
        await holder.hold(1, LEFT)
        await holder.found(holder.store)
        await holder.add(1, 1)
        holder.collector.overreplicated._every_s = 0
        assert await holder.collector.collect_overreplicated(holder.store) == []
        assert await holder.errors(1) == [0]

    holding(tmp_path, test)


class LaggingStore:
    """A store on a lagging server: before a sync it shows older metadata of a ledger."""

    def __init__(self, store, ledger, node):
        self.store, self.node = store, node

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def get_many(self, paths):
        return await self.store.get_many(paths) if self.node is None else [self.node for _ in paths]

    async def sync(self):
        self.node = None


@pytest.mark.parametrize("lags", [False, True])
def test_a_ledger_that_returned_to_the_bookie_stays(tmp_path, lags):
    async def test(holder):
        await holder.hold(1, LEFT)
        old = await holder.store.get("/ledgers/00/0000/L0001")
        await holder.found(holder.store)
        await holder.ledgers.put(1, MINE, 1)
        store = LaggingStore(holder.store, 1, old) if lags else holder.store
        assert await holder.collector.collect_overreplicated(store) == []
        assert await holder.errors(1) == [0]

    holding(tmp_path, test)


class UnansweredStore:
    """A store whose first lock is created without an answer, on a server that does not know it before a sync."""

    def __init__(self, store):
        self.store, self.answers, self.synced = store, False, False

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def create(self, path, data=b"", **options):
        made = await self.store.create(path, data, **options)
        if not self.answers:
            raise StoreUnavailable("the answer was lost", path)
        return made

    async def exists(self, path):
        return await self.store.exists(path) if self.synced else None

    async def sync(self):
        self.synced = True


def test_a_lock_that_was_created_without_an_answer_is_released_although_the_server_lags(tmp_path):
    async def test(holder):
        await holder.hold(1, LEFT)
        await holder.found(holder.store)
        store = UnansweredStore(holder.store)
        with pytest.raises(StoreUnavailable):
            await holder.collector.collect_overreplicated(store)
        store.answers = True
        assert await holder.collector.collect_overreplicated(store) == [1]
        assert await holder.store.exists(underreplication_lock_path(1)) is None

    holding(tmp_path, test)


def test_a_running_bookie_deletes_ledgers_that_it_has_left(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--gc-interval", "0.1", "--gc-grace", "0", "--set", "gcOverreplicatedLedgerWaitTime=1")

    async def main():
        async with await open_store(cluster_url) as store, RawBookieClient(bookie) as client:
            mine = structs.replace(LEFT, segments=(Segment(0, (bookie.bookie_id,)),))
            for ledger, metadata in ((1, OPEN), (2, mine)):
                await LedgerStore(store).create(ledger, metadata)
                assert (await client.ask(wire.encode_add(KEY, entry(ledger, 0, b"x")))).error == 0
            await LedgerStore(store).put(1, LEFT, 0)
            while (await client.ask(wire.encode_read(1, 0))).error == 0:
                await asyncio.sleep(0.02)
            return [(await client.ask(wire.encode_read(ledger, 0))).error for ledger in (1, 2)]

    assert run(main()) == [Code.NO_LEDGER, 0]


@pytest.mark.parametrize("damaged_when", ["found", "deleted"])
def test_a_ledger_whose_rows_are_damaged_keeps_no_other_from_being_deleted(tmp_path, monkeypatch, damaged_when):
    async def test(holder):
        index = holder.local.bookie.index
        needed_bytes = index.needed_bytes

        def damaged(ledger):
            if ledger == 0:
                raise Exception("Corruption: block checksum mismatch")
            return needed_bytes(ledger)

        for ledger in (0, 1):
            await holder.hold(ledger, LEFT)
        if damaged_when == "deleted":
            await holder.found(holder.store)
        monkeypatch.setattr(index, "needed_bytes", damaged)
        assert await holder.collector.collect_overreplicated(holder.store) == [1]
        assert await holder.errors(0, 1) == [0, Code.NO_LEDGER]

    holding(tmp_path, test)
