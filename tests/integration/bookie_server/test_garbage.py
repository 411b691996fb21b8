"""Ledgers without metadata go, and their space with them; nothing goes when the metadata cannot be seen as a whole."""

import asyncio
import os

import pytest

from bookie import wire
from bookie.digest import master_key
from bookie.errors import Code
from bookie.server.bookie import BookieConfig
from bookie.server.garbage import GarbageCollector, find_rows
from bookie.server.journal import file_numbers
from metastore.errors import StoreUnavailable
from metastore.layout import initialize
from metastore.ledger_metadata import LedgerMetadata, Segment
from metastore.ledgers import LedgerStore
from metastore.paths import ledger_path
from metastore.url import open_store
from tests.support.aio import run
from tests.support.bookie_copies import copy_as_killed
from tests.support.local_bookie import serving
from tests.support.raw_bookie import RawClient, entry

KEY = master_key(b"")
METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("bookie:1",)),))
ROUNDS, LEDGERS = 24, (1, 2, 3)
FILE = 1 << 20


class Cluster:
    """A local bookie that holds ledgers, a metadata store in memory that has them too, and the collector."""

    def __init__(self, local, store, instance):
        self.local, self.store = local, store
        self.ledgers = LedgerStore(store)
        self.collector = GarbageCollector(local.bookie, instance)

    async def create(self, *numbers):
        for number in numbers:
            await self.ledgers.create(number, METADATA)

    async def fill(self):
        """Interleaved adds to all ledgers, over several journal files."""
        async with RawClient(self.local) as client:
            for number in range(ROUNDS):
                for ledger in LEDGERS:
                    data = entry(ledger, number, os.urandom(60_000))
                    assert (await client.ask(wire.encode_add(KEY, data))).error == 0

    async def errors(self):
        """What a read of each ledger's first entry answers."""
        async with RawClient(self.local) as client:
            return [(await client.ask(wire.encode_read(ledger, 0))).error for ledger in LEDGERS]

    def disk_bytes(self):
        path = self.local.bookie.journal_path
        return sum(os.stat(os.path.join(path, name)).st_size for name in os.listdir(path))


def in_cluster(tmp_path, test):
    """Run a test on a bookie that holds three ledgers which the metadata store knows."""

    async def main():
        async with await open_store("memory:") as store:
            instance = await initialize(store)
            config = BookieConfig(journal_file_bytes=FILE)
            async with serving(tmp_path / "bookie", config=config) as local:
                cluster = Cluster(local, store, instance)
                await cluster.create(*LEDGERS)
                await cluster.fill()
                return await test(cluster)

    return run(main())


def test_a_ledger_that_is_known_stays(tmp_path):
    async def test(cluster):
        assert await cluster.collector.collect(cluster.store) == []
        assert await cluster.errors() == [0, 0, 0]

    in_cluster(tmp_path, test)


def test_a_deleted_ledgers_entries_go_and_the_others_stay(tmp_path):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        assert await cluster.collector.collect(cluster.store) == [2]
        assert await cluster.errors() == [0, Code.NO_LEDGER, 0]

    in_cluster(tmp_path, test)


def test_deleting_ledgers_frees_the_disk_and_keeps_what_lay_between(tmp_path):
    async def test(cluster):
        before = cluster.disk_bytes()
        async with RawClient(cluster.local) as client:
            kept = [await client.ask(wire.encode_read(3, number)) for number in range(ROUNDS)]
            for ledger in (1, 2):
                await cluster.ledgers.delete(ledger)
            await cluster.collector.collect(cluster.store)
            await cluster.collector.reclaim()
            assert cluster.disk_bytes() <= before - 2 * FILE
            assert [await client.ask(wire.encode_read(3, number)) for number in range(ROUNDS)] == kept

    in_cluster(tmp_path, test)


def test_what_was_moved_is_there_after_a_kill(tmp_path):
    async def test(cluster):
        again = entry(3, 5, b"repeated", last_add_confirmed=4)
        async with RawClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, again))).error == 0
            for ledger in (1, 2):
                await cluster.ledgers.delete(ledger)
            await cluster.collector.collect(cluster.store)
            await cluster.collector.reclaim()
            copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
            return again, [(await client.ask(wire.encode_read(3, number))).body for number in range(ROUNDS)]

    again, before = in_cluster(tmp_path, test)

    async def after():
        async with serving(tmp_path / "as-killed") as local, RawClient(local) as client:
            return [(await client.ask(wire.encode_read(3, number))).body for number in range(ROUNDS)]

    assert before[5] == again
    assert run(after()) == before


class Partial:
    """A metadata reader that fails at its `at`th listing of children, or shows some ledgers' directories empty."""

    def __init__(self, store, fails_at=None, hides=()):
        self.store, self.fails_at, self.hides, self.listings = store, fails_at, hides, 0

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def children(self, path):
        self.count()
        return await self.store.children(path)

    async def children_many(self, paths):
        self.count()
        hidden = {path.rpartition("/")[0] for path in self.hides}
        found = await self.store.children_many(paths)
        return [[] if path in hidden else names for path, names in zip(paths, found, strict=True)]

    def count(self):
        self.listings += 1
        if self.listings == self.fails_at:
            raise StoreUnavailable("no answer")


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_listing_that_fails_deletes_nothing(tmp_path, fails_at):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        with pytest.raises(StoreUnavailable):
            await cluster.collector.collect(Partial(cluster.store, fails_at=fails_at))
        assert await cluster.errors() == [0, 0, 0]

    in_cluster(tmp_path, test)


def test_a_listing_that_misses_ledgers_deletes_only_those_that_are_gone(tmp_path):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        reader = Partial(cluster.store, hides=[ledger_path(ledger) for ledger in LEDGERS])
        assert await cluster.collector.collect(reader) == [2]
        assert await cluster.errors() == [0, Code.NO_LEDGER, 0]

    in_cluster(tmp_path, test)


def test_another_clusters_metadata_deletes_nothing(tmp_path):
    async def test(cluster):
        async with await open_store("memory:") as other:
            await initialize(other)
            assert await cluster.collector.collect(other) == []
        assert await cluster.errors() == [0, 0, 0]

    in_cluster(tmp_path, test)


def test_a_running_bookie_deletes_what_loses_its_metadata(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--gc-interval", "0.1")

    async def main():
        async with await open_store(cluster_url) as store, RawClient(bookie) as client:
            ledgers = LedgerStore(store)
            await ledgers.create(1, METADATA)
            await ledgers.create(2, METADATA)
            for ledger in (1, 2):
                assert (await client.ask(wire.encode_add(KEY, entry(ledger, 0, b"x")))).error == 0
            await ledgers.delete(1)
            while (await client.ask(wire.encode_read(1, 0))).error == 0:
                await asyncio.sleep(0.02)
            return [(await client.ask(wire.encode_read(ledger, 0))).error for ledger in (1, 2)]

    assert run(main()) == [Code.NO_LEDGER, 0]


def test_a_move_that_the_index_had_not_flushed_is_replayed(tmp_path):
    async def test(cluster):
        bookie = cluster.local.bookie
        first = min(file_numbers(bookie.journal_path))
        rows = find_rows(bookie.index, bookie.journal_path, first, bookie.salt)
        await bookie.turns.move([(repeated, row, bookie.files.frames(row)) for repeated, row in rows])
        copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
        os.unlink(tmp_path / "as-killed" / "journal" / f"{first:08d}.journal")
        return len(rows)

    assert in_cluster(tmp_path, test) > 3

    async def after():
        async with serving(tmp_path / "as-killed") as local, RawClient(local) as client:
            requests = [wire.encode_read(ledger, number) for ledger in LEDGERS for number in range(ROUNDS)]
            return {(await client.ask(request)).error for request in requests}

    assert run(after()) == {0}
