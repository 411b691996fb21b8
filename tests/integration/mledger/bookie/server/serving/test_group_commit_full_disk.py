"""What a turn accepts on a full disk fits the last journal file."""

import asyncio

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code, DiskFull
from mledger.bookie.server.process import bookie as process_bookie
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.storage.directories import disk
from mledger.bookie.server.storage.journal import RECORD, Journal, padded
from mledger.bookie.server.storage.journal_thread import JournalThread
from mledger.bookie.server.storage.rows.index_options import IndexConfig
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
CONFIG = BookieConfig(journal_file_bytes=4 << 20)
ROOM = 1_000_000
MOVED = 450_000


def records_from_now_on(monkeypatch):
    """The disk is full, and the last file has `ROOM` bytes left; the list of the records' sizes."""
    written: list[int] = []
    submit = JournalThread.submit

    def noting(self, sequence, turn):
        written.append(padded(RECORD.size + sum(map(len, turn.chunks))))
        submit(self, sequence, turn)

    monkeypatch.setattr(Journal, "last_room", ROOM)
    monkeypatch.setattr(JournalThread, "submit", noting)
    return written


async def store(client, size):
    """Store an entry, the first one of ledger 1."""
    assert (await client.ask(wire.encode_add(KEY, entry(1, 0, bytes(size))))).error == Code.OK


def fence(turns, ledgers):
    """Fence ledgers in one turn; how many of the answers say that it is done, each before the first refusal."""
    codes = [turns.fence(turns.ledgers.get(ledger), KEY) for ledger in ledgers]
    accepted = codes.count(Code.OK)
    assert codes == [Code.OK] * accepted + [Code.IO_ERROR] * (len(codes) - accepted)
    return accepted


def move(bookie):
    """Write the run of ledger 1 again."""
    return bookie.turns.move([(False, row, bookie.files.frames(row)) for row in bookie.index.runs(1)])


def test_fences_of_one_turn_fit_the_room_that_is_left(tmp_path, monkeypatch):
    """Thousands of topics whose broker died are opened at once."""

    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local, RawBookieClient(local) as client:
            await store(client, 1)
            written = records_from_now_on(monkeypatch)
            accepted = fence(local.bookie.turns, range(1, 15_000))
            await local.bookie.turns.drain()
            return accepted, written

    accepted, written = run(main())
    assert accepted > 1000
    assert len(written) == 1
    assert sum(written) <= ROOM


def test_fences_fit_beside_a_move_that_waits(tmp_path, monkeypatch):
    """Compaction's records wait while one is written; fences are accepted meanwhile."""

    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local, RawBookieClient(local) as client:
            await store(client, MOVED)
            turns, written = local.bookie.turns, records_from_now_on(monkeypatch)
            assert fence(turns, [2]) == 1
            await asyncio.sleep(0)
            assert turns.unsynced_bytes > 0
            moved = move(local.bookie)  # nothing is awaited until all is accepted
            accepted = fence(turns, range(3, 15_000))
            await moved
            await turns.drain()
            return accepted, written

    accepted, written = run(main())
    assert accepted > 1000
    assert len(written) == 3
    assert sum(written) <= ROOM


def test_a_move_is_refused_that_does_not_fit_beside_accepted_fences(tmp_path, monkeypatch):
    async def main():
        async with serving(tmp_path / "bookie", config=CONFIG) as local, RawBookieClient(local) as client:
            await store(client, MOVED)
            written = records_from_now_on(monkeypatch)
            fence(local.bookie.turns, range(2, 15_000))
            with pytest.raises(DiskFull):
                await move(local.bookie)
            await local.bookie.turns.drain()
            return written

    assert sum(run(main())) <= ROOM


def test_fences_stay_in_memory_while_the_index_has_no_room_for_a_flush(tmp_path, monkeypatch):
    """The journal has a disk of its own; the index's is full to the last byte."""

    async def main():
        config = BookieConfig(journal_file_bytes=4 << 20, index=IndexConfig(memtable_bytes=1 << 20))
        async with serving(tmp_path / "bookie", config=config) as local, RawBookieClient(local) as client:
            bookie, index = local.bookie, tmp_path / "bookie" / "store"
            await store(client, 1)
            flushed = {*index.glob("*.sst")}
            with monkeypatch.context() as full:
                for module in (disk, process_bookie):
                    full.setattr(module, "free_bytes", lambda _: 0)
                (tmp_path / "bookie" / "reserve").unlink()
                bookie.tend_reserves()
                accepted = 0
                for first in range(1, 12_000, 1000):
                    accepted += fence(bookie.turns, range(first, first + 1000))
                    await bookie.turns.drain()
                late = await client.ask(wire.encode_add(KEY, entry(20_000, 0, b"late"), wire.Flag.HIGH_PRIORITY))
            assert {*index.glob("*.sst")} == flushed
            bookie.tend_reserves()
            return accepted, late.error, fence(bookie.turns, [20_000])

    accepted, late, again = run(main())
    assert 1000 < accepted < 12_000
    assert (late, again) == (Code.READ_ONLY, 1)
