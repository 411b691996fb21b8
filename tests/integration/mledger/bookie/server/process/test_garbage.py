"""Ledgers without metadata are deleted with their space, and none while the metadata cannot be read whole (Q9)."""

import asyncio
import errno
import threading

import pytest

from mledger.bookie import wire
from mledger.bookie.errors import Code
from mledger.bookie.server.process import garbage
from mledger.bookie.server.process.garbage import GarbageCollector
from mledger.bookie.server.serving import group_commit
from mledger.bookie.server.storage import journal_thread
from mledger.bookie.server.storage.journal import file_numbers
from mledger.bookie.server.storage.records.file_contents import read_contents
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run
from tests.support.bookies.bookie_copies import copy_as_killed
from tests.support.bookies.collected_bookie import FILE, KEY, LEDGERS, METADATA, ROUNDS, in_cluster
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.metadata.stores import impatient


def test_a_known_ledger_stays(tmp_path):
    async def test(cluster):
        assert await cluster.collector.collect(cluster.store) == []
        assert await cluster.errors() == [0, 0, 0]

    in_cluster(tmp_path, test)


def test_a_deleted_ledgers_entries_are_deleted_and_the_others_stay(tmp_path):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        assert await cluster.collector.collect(cluster.store) == [2]
        assert await cluster.errors() == [0, Code.NO_LEDGER, 0]

    in_cluster(tmp_path, test)


def test_deleting_ledgers_frees_the_disk_and_keeps_the_entries_between_them(tmp_path):
    async def test(cluster):
        before = cluster.disk_bytes()
        async with RawBookieClient(cluster.local) as client:
            kept = [await client.ask(wire.encode_read(3, number)) for number in range(ROUNDS)]
            for ledger in (1, 2):
                await cluster.ledgers.delete(ledger)
            await cluster.collector.collect(cluster.store)
            await cluster.collector.reclaim()
            assert cluster.disk_bytes() <= before - 2 * FILE
            assert [await client.ask(wire.encode_read(3, number)) for number in range(ROUNDS)] == kept

    in_cluster(tmp_path, test)


def test_moved_entries_survive_a_kill(tmp_path):
    async def test(cluster):
        again = entry(3, 5, b"repeated", last_add_confirmed=4)
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, again))).error == 0
            for ledger in (1, 2):
                await cluster.ledgers.delete(ledger)
            await cluster.collector.collect(cluster.store)
            await cluster.collector.reclaim()
            copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
            return again, [(await client.ask(wire.encode_read(3, number))).body for number in range(ROUNDS)]

    again, before = in_cluster(tmp_path, test)

    async def after():
        async with serving(tmp_path / "as-killed") as local, RawBookieClient(local) as client:
            return [(await client.ask(wire.encode_read(3, number))).body for number in range(ROUNDS)]

    assert before[5] == again
    assert run(after()) == before


class Partial:
    """A metadata reader that fails at its `at`th listing of children, or shows some ledgers' directories as empty."""

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


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_failing_listing_deletes_nothing(tmp_path, fails_at):
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


def test_a_running_bookie_deletes_ledgers_that_lose_their_metadata(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--gc-interval", "0.1", "--gc-grace", "0")

    async def main():
        async with await open_store(cluster_url) as store, RawBookieClient(bookie) as client:
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
        rows = read_contents(bookie.index, bookie.journal_path, first, bookie.salt).rows
        await bookie.turns.move([(repeated, row, bookie.files.frames(row)) for repeated, row in rows])
        copy_as_killed(tmp_path / "bookie", tmp_path / "as-killed")
        (tmp_path / "as-killed" / "journal" / f"{first:08d}.journal").write_bytes(bytes(FILE))
        return len(rows)

    assert in_cluster(tmp_path, test) > 3

    async def after():
        async with serving(tmp_path / "as-killed") as local, RawBookieClient(local) as client:
            requests = [wire.encode_read(ledger, number) for ledger in LEDGERS for number in range(ROUNDS)]
            return {(await client.ask(request)).error for request in requests}

    assert run(after()) == {0}


class LaggingTree:
    """A reader on a lagging server: before a sync it shows a tree that has no ledgers yet."""

    def __init__(self, store, old):
        self.store, self.answering, self.syncs = store, old, 0

    def __getattr__(self, name):
        return getattr(self.answering, name)

    async def sync(self):
        self.answering, self.syncs = self.store, self.syncs + 1


def test_a_ledger_newer_than_the_state_of_a_lagging_server_stays(tmp_path):
    async def test(cluster):
        async with await open_store("memory:") as old:
            await initialize(old)
            await old.put("/ledgers/INSTANCEID", (await cluster.store.get("/ledgers/INSTANCEID")).data, 0)
            assert await cluster.collector.collect(LaggingTree(cluster.store, old)) == []
        assert await cluster.errors() == [0, 0, 0]

    in_cluster(tmp_path, test)


def test_the_store_is_synced_again_before_a_ledger_is_deleted(tmp_path):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        reader = LaggingTree(cluster.store, cluster.store)
        assert await cluster.collector.collect(reader) == [2]
        assert reader.syncs == 2

    in_cluster(tmp_path, test)


def test_no_follower_of_a_real_ensemble_causes_the_deletion_of_a_new_ledger(tmp_path, patient_ensemble):
    async def main():
        async with (
            await open_store(patient_ensemble.servers[0].url, session_timeout=60, timeout=HANG_S) as reader,
            serving(tmp_path / "bookie") as local,
            RawBookieClient(local) as client,
        ):
            collector = GarbageCollector(local.bookie, await initialize(reader), grace_s=0)
            with patient_ensemble.lagging() as (_, others):
                async with await open_store(others, timeout=HANG_S) as store:
                    await LedgerStore(store).create(1, METADATA)
                assert (await client.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error == 0
                with impatient(reader), pytest.raises(StoreUnavailable):
                    await collector.collect(reader)
            assert await collector.collect(reader) == []
            assert (await client.ask(wire.encode_read(1, 0))).error == 0

    run(main())


def test_a_ledger_stays_for_the_grace_period(tmp_path):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        collector = GarbageCollector(cluster.local.bookie, cluster.instance, grace_s=1e9)
        for _ in range(2):
            assert await collector.collect(cluster.store) == []
        assert await cluster.errors() == [0, 0, 0]

    in_cluster(tmp_path, test)


def test_local_ledgers_are_compared_a_page_at_a_time_and_only_with_their_own_directories(tmp_path, monkeypatch):
    monkeypatch.setattr(garbage, "_PAGE", 2)

    class Listing(Partial):
        asked = ()

        async def children_many(self, paths):
            self.asked += tuple(paths)
            return await super().children_many(paths)

    async def test(cluster):
        assert [page async for page in cluster.collector.pages()] == [[1, 2], [3]]
        await cluster.create(20_000, 50_000)
        await cluster.ledgers.delete(3)
        reader = Listing(cluster.store)
        assert await cluster.collector.collect(reader) == [3]
        assert set(reader.asked) == {"/ledgers/00/0000"}
        assert cluster.local.bookie.counters.garbage.ledgers == 2

    in_cluster(tmp_path, test)


def test_of_many_absent_ledgers_only_some_are_remembered_and_the_others_follow(tmp_path, monkeypatch):
    monkeypatch.setattr(garbage, "_PAGE", 1)
    monkeypatch.setattr(garbage, "_MOST_ABSENT", 2)

    async def test(cluster):
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        collector = GarbageCollector(cluster.local.bookie, cluster.instance, grace_s=1e9)
        assert await collector.collect(cluster.store) == []
        assert list(collector._absent_since) == [1, 2]
        collector._grace_s = 0
        assert await collector.collect(cluster.store) == [1, 2, 3]

    in_cluster(tmp_path, test)


def test_adds_continue_while_the_rows_of_a_large_ledger_are_counted(tmp_path, monkeypatch):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        index, go_on = cluster.local.bookie.index, threading.Event()
        needed = index.needed_bytes
        monkeypatch.setattr(index, "needed_bytes", lambda ledger: (go_on.wait(HANG_S), needed(ledger))[1])
        deletion = asyncio.create_task(cluster.collector.collect(cluster.store))
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(1, ROUNDS, b"x")))).error == 0
        go_on.set()
        assert await deletion == [2]

    in_cluster(tmp_path, test)


def test_a_ledger_that_receives_adds_while_its_rows_are_counted_is_deleted_the_next_time(tmp_path, monkeypatch):
    async def test(cluster):
        await cluster.ledgers.delete(2)
        index, counted, go_on = cluster.local.bookie.index, threading.Event(), threading.Event()
        needed = index.needed_bytes

        def late(ledger):
            found = needed(ledger)
            counted.set()
            go_on.wait(HANG_S)
            return found

        monkeypatch.setattr(index, "needed_bytes", late)
        deletion = asyncio.create_task(cluster.collector.collect(cluster.store))
        await asyncio.to_thread(counted.wait, HANG_S)
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(2, ROUNDS, b"x")))).error == 0
        go_on.set()
        assert await deletion == []
        assert await cluster.collector.collect(cluster.store) == [2]
        rows = sum(index.needed_bytes(ledger).get(file, 0) for ledger in LEDGERS for file in index.live)
        assert sum(index.live.values()) == rows

    in_cluster(tmp_path, test)


def test_files_that_the_journal_thread_has_yet_to_use_are_returned_once(tmp_path, monkeypatch):
    ends = []
    monkeypatch.setattr(journal_thread, "end_process", lambda event, error: ends.append((event, error)))

    async def test(cluster):
        bookie, go_on, taken = cluster.local.bookie, threading.Event(), []
        recycle = bookie._journal.recycle

        def late(file):
            go_on.wait(HANG_S)
            taken.append(file)
            recycle(file)

        monkeypatch.setattr(bookie._journal, "recycle", late)
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        await cluster.collector.collect(cluster.store)
        try:
            assert await cluster.collector.reclaim() > 1
            assert await cluster.collector.reclaim() == 0
        finally:
            go_on.set()
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(4, 0, b"x")))).error == 0
        assert sorted(taken) == sorted(set(taken))
        assert await cluster.collector.reclaim() == 0

    in_cluster(tmp_path, test)
    assert ends == []


def test_a_file_that_cannot_be_returned_does_not_end_the_bookie(tmp_path, monkeypatch, caplog):
    ends = []
    monkeypatch.setattr(journal_thread, "end_process", lambda event, error: ends.append((event, error)))

    async def test(cluster):
        def failing(file):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(cluster.local.bookie._journal, "recycle", failing)
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        for _ in range(2):
            await cluster.collector.run(cluster.store)
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(4, 0, b"x")))).error == 0
        assert "event=journal_file_not_given_back" in caplog.text

    in_cluster(tmp_path, test)
    assert ends == []


def test_any_failure_of_a_collection_is_counted_and_not_raised(tmp_path):
    class Broken(Partial):
        async def sync(self):
            raise RuntimeError("nobody thought of it")

    async def test(cluster):
        await cluster.collector.run(Broken(cluster.store))
        await cluster.collector.run(Partial(cluster.store, fails_at=1))
        assert cluster.local.bookie.counters.garbage.failures == 2
        assert await cluster.errors() == [0, 0, 0]

    in_cluster(tmp_path, test)


def test_adds_continue_while_a_file_s_runs_are_read_and_moved_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(garbage, "_MOVE_ROWS", 2)
    asked, go_on, pieces, read = threading.Event(), threading.Event(), [], garbage.read_frames

    def late(directory, file, rows):
        pieces.append(len(rows))
        asked.set()
        go_on.wait(HANG_S)
        return read(directory, file, rows)

    monkeypatch.setattr(garbage, "read_frames", late)

    async def test(cluster):
        for ledger in (1, 2):
            await cluster.ledgers.delete(ledger)
        await cluster.collector.collect(cluster.store)
        reclaiming = asyncio.create_task(cluster.collector.reclaim())
        await asyncio.to_thread(asked.wait, HANG_S)
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(4, 0, b"x")))).error == 0
        go_on.set()
        await reclaiming
        assert max(pieces) == 2
        assert len(pieces) > 2
        assert await cluster.errors() == [Code.NO_LEDGER, Code.NO_LEDGER, 0]

    in_cluster(tmp_path, test)


def test_a_deletion_that_the_index_cannot_write_ends_the_process(tmp_path, monkeypatch):
    ends = []
    monkeypatch.setattr(group_commit, "end_process", lambda event, error: ends.append((event, str(error))))

    async def test(cluster):
        index = cluster.local.bookie.index
        commit = index.commit

        def failing(*place):
            monkeypatch.setattr(index, "commit", commit)
            raise Exception("IO error: background error")

        monkeypatch.setattr(index, "commit", failing)
        await cluster.ledgers.delete(LEDGERS[0])
        await cluster.collector.collect(cluster.store)
        assert ends == [("index_not_written", "IO error: background error")]

    in_cluster(tmp_path, test)
