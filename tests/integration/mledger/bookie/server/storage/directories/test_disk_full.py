"""A bookie on a really full file system serves reads, fences and garbage collection, after a restart too."""

import asyncio
import contextlib
import os
import time

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.server.process import bookie as bookie_module
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.process.garbage import GarbageCollector
from mledger.bookie.server.storage.directories import journal_files
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.index_options import IndexConfig, remove_spare_files
from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.url import open_store
from tests.faults.soak.damage import fill_disk, small_disk
from tests.support.aio import run
from tests.support.bookies.bookie_copies import copy_as_killed
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.zookeeper.server import SHORT_SESSION_S

KEY = master_key(b"")
METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("bookie:1",)),))
SIZE_MB, SIZE = 110, 100_000
RECOVERY = wire.Flag.RECOVERY_ADD | wire.Flag.HIGH_PRIORITY


@pytest.fixture
def disk(tmp_path):
    """A small file system."""
    with small_disk(tmp_path / "disk", SIZE_MB) as mounted:
        if not mounted:
            pytest.skip("no file system can be mounted here")
        yield tmp_path / "disk"


@pytest.fixture
def bookie(bookies, disk):
    """A running bookie on the small file system, which it checks ten times a second. Killed, it is soon missed."""
    bookie = bookies.add("--set", "diskCheckInterval=100", "--session-timeout", str(SHORT_SESSION_S))
    bookie.directory = disk / "bookie"
    yield bookie.start()
    if bookie.running:
        bookie.kill()


def free(disk):
    """The number of free bytes."""
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def add(ledger, number, flags=0):
    """An add request."""
    return wire.encode_add(KEY, entry(ledger, number, bytes(SIZE)), flags)


def fence(ledger):
    """A fencing read of the last entry."""
    return wire.encode_read(ledger, wire.LAST_ENTRY, wire.Flag.FENCE, KEY)


def ask(bookie, *requests):
    """The error codes of requests sent one after the other."""

    async def main():
        async with RawBookieClient(bookie) as client:
            return [(await client.ask(request)).error for request in requests]

    return run(main())


async def registered(store, read_only):
    """Wait until the one bookie is registered in this state."""
    while [each.read_only for each in await list_bookies(store)] != [read_only]:
        await asyncio.sleep(0.02)


def test_a_bookie_restarts_on_a_full_disk_repeatedly_and_serves_what_it_can(bookie, disk, cluster_url):
    assert ask(bookie, *(add(1, number) for number in range(60)), add(2, 0)) == [0] * 61
    bookie.kill()
    fill_disk(disk)
    assert free(disk) == 0
    for life in range(4):
        bookie.start()
        assert "event=read_only value=true" in bookie.log()
        assert "disk full, make room" in bookie.log()
        assert ask(bookie, wire.encode_read(1, 0), wire.encode_read(1, 59), wire.encode_read(2, 0)) == [0] * 3
        assert ask(bookie, add(1, 60), add(100, 0), fence(10 + life)) == [Code.READ_ONLY] * 2 + [Code.NO_ENTRY]
        bookie.kill()
    (disk / "ballast").unlink()
    bookie.start()

    async def writable():
        async with await open_store(cluster_url) as store:
            await registered(store, False)

    run(writable())
    assert ask(bookie, *(add(10 + life, 0) for life in range(4)), add(1, 60)) == [Code.FENCED] * 4 + [Code.OK]


def test_deleting_ledgers_on_a_full_disk_frees_space_and_the_bookie_accepts_entries_again(bookie, disk, cluster_url):
    async def main():
        async with await open_store(cluster_url) as store, RawBookieClient(bookie) as client:
            ledgers = LedgerStore(store)
            for ledger in (1, 2):
                await ledgers.create(ledger, METADATA)
                for number in range(200 if ledger == 1 else 3):
                    assert (await client.ask(add(ledger, number))).error == 0
            await asyncio.to_thread(bookie.kill)
            fill_disk(disk)
            bookie.arguments = (*bookie.arguments, "--gc-interval", "0.1", "--gc-grace", "0")
            await asyncio.to_thread(bookie.start)
            await registered(store, True)
            await ledgers.delete(1)
            await registered(store, False)
        async with RawBookieClient(bookie) as client:
            assert (await client.ask(add(2, 3))).error == 0
            return [(await client.ask(wire.encode_read(ledger, 0))).error for ledger in (1, 2)]

    assert run(main()) == [Code.NO_LEDGER, Code.OK]


def test_a_disk_that_fills_up_makes_its_bookie_read_only_and_loses_nothing(bookie, disk, cluster_url):
    assert ask(bookie, fence(1000)) == [Code.NO_ENTRY]  # the journal has made its reserve
    fill_disk(disk)

    async def main():
        taken = 0
        async with await open_store(cluster_url) as store, RawBookieClient(bookie) as client:
            while (await client.ask(add(1, taken, RECOVERY))).error == 0:
                taken += 1
            assert (await client.ask(add(2, 0, RECOVERY))).error == Code.READ_ONLY
            await registered(store, True)
            assert (await client.ask(fence(1))).error == 0
            assert (await client.ask(fence(3))).error == Code.NO_ENTRY
            await asyncio.to_thread(bookie.restart)
        async with RawBookieClient(bookie) as client:
            errors = [(await client.ask(wire.encode_read(1, number))).error for number in range(taken)]
            return errors, (await client.ask(add(3, 0))).error

    errors, after_fence = run(main())
    assert len(errors) > 40
    assert set(errors) == {0}
    assert after_fence == Code.READ_ONLY
    assert "event=journal_reserve_used" in bookie.log()


def test_the_journal_takes_no_room_that_was_released_for_the_index(disk):
    config = BookieConfig(journal_file_bytes=1 << 20, index=IndexConfig(memtable_bytes=1 << 20))

    async def main():
        async with serving(disk / "bookie", config=config) as local, RawBookieClient(local) as client:
            assert (await client.ask(fence(3))).error == Code.NO_ENTRY  # the journal has made its reserve
            fill_disk(disk)
            taken = 0
            while (await client.ask(add(1, taken))).error == 0:
                taken += 1
            local.bookie.tend_reserves()
            assert (await client.ask(fence(2))).error == Code.NO_ENTRY  # the journal has done what was asked before
            return local.bookie.turns.full, free(disk)

    full, left = run(main())
    assert full
    assert left > config.index.reserve_bytes // 2  # flushes may have used some of it


def test_a_start_without_room_overwrites_the_old_records_of_a_used_file(tmp_path, monkeypatch):
    directory, killed = tmp_path / "bookie", tmp_path / "killed"

    async def use_a_file_again():
        async with serving(directory) as local, RawBookieClient(local) as client:
            for number in range(7):  # three fit one file, with room after them
                frame = wire.encode_add(KEY, entry(1 if number < 6 else 2, number, bytes(3 * SIZE)))
                assert (await client.ask(frame)).error == 0
            collector = GarbageCollector(local.bookie, "instance")
            assert await collector.delete(1)
            await collector.reclaim()
        async with serving(directory) as local:  # its file has only the old records
            return local.bookie.turns.file

    async def fence_without_room():
        async with serving(directory) as local, RawBookieClient(local) as client:
            assert local.bookie.turns.full
            assert (await client.ask(fence(2))).error == 0
            copy_as_killed(directory, killed)
            return local.bookie.turns.file

    async def after_kill():
        async with serving(killed) as local, RawBookieClient(local) as client:
            return [(await client.ask(request)).error for request in (wire.encode_read(2, 6), add(2, 7, RECOVERY))]

    begun = run(use_a_file_again())
    for name in ("reserve.journal", *(path.name for path in (directory / "journal").glob("free-*"))):
        (directory / "journal" / name).unlink()
    for module in (bookie_module, journal_files):
        monkeypatch.setattr(module, "free_bytes", lambda _: 0)
    assert run(fence_without_room()) == begun
    assert run(after_kill()) == [Code.OK, Code.READ_ONLY]


def release_reserves(bookie):
    """Remove what a bookie that was killed has reserved."""
    for name in ("reserve", "journal/reserve.journal"):
        (bookie.directory / name).unlink()


def test_a_bookie_starts_on_an_exhausted_disk_without_a_reserve_repeatedly(bookie, disk):
    assert ask(bookie, add(1, 0)) == [0]
    bookie.kill()
    release_reserves(bookie)
    fill_disk(disk)
    assert free(disk) == 0
    for life in range(3):
        bookie.start()
        assert ask(bookie, wire.encode_read(1, 0), fence(10 + life)) == [Code.OK, Code.NO_ENTRY]
        bookie.kill()
    (disk / "ballast").unlink()
    bookie.start()
    assert ask(bookie, *(add(10 + life, 0) for life in range(3))) == [Code.FENCED] * 3


def test_an_exhausted_disk_that_leaves_nothing_to_remove_is_reported(bookie, disk):
    assert ask(bookie, add(1, 0)) == [0]
    bookie.kill()
    release_reserves(bookie)
    remove_spare_files(str(bookie.directory / "store"))
    fill_disk(disk)
    bookie.launch()
    assert bookie.wait() == 1
    assert f"{bookie.directory}: disk full, the bookie cannot start" in bookie.log().splitlines()[-1]


def test_a_bookie_that_begins_on_an_exhausted_disk_names_it(bookies, disk):
    fill_disk(disk)
    bookie = bookies.add()
    bookie.directory = disk / "bookie"
    bookie.launch()
    assert bookie.wait() == 1
    assert f"{bookie.directory}: disk full, the bookie cannot start" in bookie.log().splitlines()[-1]


def test_an_index_that_cannot_be_flushed_is_an_error(disk):
    index = Index(str(disk / "store"))
    index.put_run(Row(1, 0, 9, 1, 16, 100))
    index.commit(2, 1)
    index.flush()
    for number in range(10, 30_000):
        index.put_run(Row(1, number, number, 1, number, 100))
    index.commit(3, 1)
    fill_disk(disk)
    with pytest.raises(OSError, match=r"the index cannot be written out: .*No space left on device"):
        index.flush()


def test_a_deletion_that_cannot_be_flushed_is_an_error(disk):
    index = Index(str(disk / "store"))
    index.put_run(Row(1, 0, 9, 1, 16, 100))
    index.commit(2, 1)
    index.flush()
    index.delete_ledger(1, index.needed_bytes(1))
    index.commit(2, 1)  # a deletion has no record of its own: the position stays the same
    fill_disk(disk)
    with pytest.raises(OSError, match=r"the index cannot be written out: .*No space left on device"):
        index.flush()


FLUSHES, ROWS, ROW = 5, 200, 4_000


def big_index(path):
    """An index whose files RocksDB would make into one of a fifth of their size, if it compacted them by itself."""
    index = Index(str(path), IndexConfig(memtable_bytes=1 << 20))
    for _ in range(FLUSHES):
        for ledger in range(ROWS):
            index.put_ledger(ledger, LedgerData(KEY, explicit_lac=os.urandom(ROW)))
        index.commit(index.sequence + 1, 1)
        index.flush()  # waits for compactions that have begun
    return index


def test_an_index_is_not_compacted_before_there_is_known_to_be_room(tmp_path):
    index = big_index(tmp_path / "store")
    assert index.size > FLUSHES * ROWS * ROW
    index.keep_compacted(True)
    while index.size > 2 * ROWS * ROW:
        time.sleep(0.01)


def test_an_index_is_compacted_while_its_disk_has_room_for_that(tmp_path, monkeypatch):
    async def main():
        async with serving(tmp_path / "bookie") as local:
            index, compacted = local.bookie.index, [local.bookie.index.compacted]
            for room in (index.size, index.size + 1):
                monkeypatch.setattr(bookie_module, "free_bytes", lambda _, room=room: room)
                local.bookie.tend_reserves()
                compacted.append(index.compacted)
            return compacted

    assert run(main()) == [True, False, True]


def test_compactions_can_be_forbidden_on_a_full_disk(disk):
    index = big_index(disk / "store")
    try:
        for wanted in (True, False, True, False):
            fill_disk(disk)  # again: a compaction that fails gives room back
            index.keep_compacted(wanted)
    finally:
        index.close()
    assert not index.compacted


def test_a_burst_of_adds_on_a_full_disk_leaves_room_for_fences_and_the_next_start(bookie, disk):
    async def burst(clients, first, count):
        for client in clients:
            client.send(b"".join(add(1, number, RECOVERY) for number in range(first, first + count)))
        return {(await client.response()).error for client in clients for _ in range(count)}

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(RawBookieClient(bookie)) for _ in range(12)]
            assert await burst(clients, 0, 20) == {Code.OK}  # now their receive buffers are large
            await asyncio.to_thread(fill_disk, disk)
            return await burst(clients, 20, 60)

    assert run(main()) == {Code.OK, Code.READ_ONLY}
    assert ask(bookie, fence(2)) == [Code.NO_ENTRY]
    bookie.kill()
    bookie.start()
    assert ask(bookie, wire.encode_read(1, 0), fence(3)) == [Code.OK, Code.NO_ENTRY]
