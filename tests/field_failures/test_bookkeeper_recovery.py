"""Ledgers and their recovery: what fencing, recovery and failing bookies did to acknowledged entries."""

import asyncio
import contextlib

import pytest
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import BookieError, Code, LedgerFenced
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.bookies.raw_bookie import RawBookieClient
from tests.support.ledgers import QUICK, client, payloads, read_raw, store_raw, stored_entry


class FrameProxy:
    """A proxy before a bookie that decides about each request, as a whole frame, and about its answer."""

    def __init__(self, bookie, *, loses=(), holds=()):
        self.target, self.loses, self.holds = bookie.address, set(loses), set(holds)
        self.seen = []
        self._tasks = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.bookie_id = "{}:{}".format(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self._tasks.append(asyncio.current_task())
        onward_reader, onward = await asyncio.open_connection(*self.target)
        answers = asyncio.create_task(self._answers(onward_reader, writer))
        self._tasks.append(answers)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                frame = await _frame(reader)
                request = wire.decode_read(frame)
                self.seen.append(request)
                if request.entry not in self.loses:
                    onward.write(frame)
        onward.close()

    async def _answers(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                frame = await _frame(reader)
                if wire.decode_response(frame).entry not in self.holds:
                    writer.write(frame)


async def _frame(reader):
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head, "big"))


async def lay_down(url, sizes, *segments):
    """An open ledger with these ensembles: (first entry, bookie ids)."""
    async with await open_store(url) as store:
        records = LedgerStore(store)
        ledger = await records.next_id()
        made = tuple(Segment(first, tuple(members)) for first, members in segments)
        await records.create(ledger, LedgerMetadata(*sizes, made))
    return ledger


def test_recovery_reads_fence(bookies):
    """bookkeeper-2614: a bookie that missed the fencing read of the end accepted an add after recovery had read it.

    One copy of an entry was on the second bookie, whose answer was slow; the third did not receive the fence. Recovery
    took the ledger for empty. Then the writer's add reached the third bookie, and the entry had its ack quorum.
    """
    first, second, third = bookies.start(3)

    async def main():
        async with FrameProxy(second, holds={0}) as slow, FrameProxy(third, loses={wire.LAST_ENTRY}) as deaf:
            members = (first.bookie_id, slow.bookie_id, deaf.bookie_id)
            ledger = await lay_down(bookies.metadata_url, (3, 3, 2), (0, members))
            entry = stored_entry(ledger, 0, b"payload", 7, -1)
            await store_raw(second, entry)
            async with client(bookies.metadata_url, replace(QUICK, read_timeout_s=6)) as bookkeeper:
                reader = await bookkeeper.open_ledger(ledger)
            assert (reader.metadata.state, reader.last_entry) == (LedgerState.CLOSED, -1)
            assert {request.entry for request in deaf.seen} >= {0}
            assert all(request.fencing for request in (*slow.seen, *deaf.seen))
            for bookie in (first, third):
                async with RawBookieClient(bookie) as raw:
                    assert (await raw.ask(wire.encode_add(master_key(b""), entry))).error == Code.FENCED

    run(main())


def test_recovery_of_an_empty_last_ensemble_begins_there(bookies):
    """bookkeeper-2615: the last ensemble had no known entry, so recovery wrote the first one back into it. When a
    bookie failed, it tried to add an ensemble before that of an earlier entry, and failed so each time.
    """
    started = bookies.start(6)

    async def main():
        ids = [bookie.bookie_id for bookie in started]
        ledger = await lay_down(bookies.metadata_url, (2, 2, 2), (0, ids[:2]), (10, ids[1:3]), (20, ids[3:5]))
        for number, payload in enumerate(payloads(20)):
            stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1)
            for bookie in started[:2] if number < 10 else started[1:3]:
                await store_raw(bookie, stored)
        started[4].kill()
        async with client(bookies.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert (reader.last_entry, reader.length) == (19, 400)
            assert [segment.first_entry for segment in reader.metadata.segments][:2] == [0, 10]
            assert [segment.first_entry for segment in reader.metadata.segments][2:] in ([], [20])
            assert await reader.read(0, 19) == payloads(20)
        assert (await read_raw(started[3], ledger, 0)).error != 0  # nothing earlier was written into it

    run(main())


@pytest.fixture
def stalled(zookeeper_server, tmp_path):
    """A metadata store that can be frozen, and six bookies."""
    initialize_cluster(zookeeper_server.url)
    processes = BookieProcesses(zookeeper_server.url, tmp_path / "bookies")
    processes.start(6)
    yield zookeeper_server, processes
    processes.close()


def test_with_the_store_stalled_no_entry_is_acknowledged_that_recovery_would_not_find(stalled):
    """bookkeeper-1591: with ZooKeeper stalled, bookies failed one after the other and were replaced in memory only.

    Entries were acknowledged by an ensemble that no metadata named. A recovery did not find them.
    """
    zookeeper, bookies = stalled

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            await writer.append(payloads(1))
            ensemble = writer.metadata.ensemble
            members = [next(bookie for bookie in bookies if bookie.bookie_id == each) for each in ensemble]
            zookeeper.freeze()
            members[0].kill()
            pending = [writer.append(payloads(1, 1))]
            members[1].kill()
            pending += [writer.append(payloads(1, number)) for number in range(2, 5)]
            while len(one._pool.quarantine.failed()) < 2:
                await asyncio.sleep(0.01)
            assert not any(future.done() for future in pending[1:])
            members[0].launch()
            zookeeper.thaw()
            members[0].wait_serving()
            members[1].restart()
            reader = await in_the_end(other, writer.ledger_id)
            results = await asyncio.gather(*pending, return_exceptions=True)
            acknowledged = [result for result in results if isinstance(result, int)]
            assert reader.last_entry >= max([0, *acknowledged])
            assert await reader.read(0, reader.last_entry) == payloads(reader.last_entry + 1)

    run(main())


async def in_the_end(bookkeeper, ledger):
    """Open a ledger once enough of its bookies are back."""
    while True:
        try:
            return await bookkeeper.open_ledger(ledger)
        except BookieError:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("entries", [0, 10])
def test_a_writer_that_was_fenced_and_whose_ledger_was_deleted_writes_no_more(cluster_url, bookies, entries):
    """bookkeeper-4462: after a fence and the ledger's deletion the bookies took an add for a new ledger's first."""
    started = bookies.start(3, "--gc-interval", "0.2", "--gc-grace", "0")

    async def main():
        async with client(cluster_url) as one, client(cluster_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            if entries:
                await writer.append(payloads(entries))
            assert (await other.open_ledger(writer.ledger_id)).last_entry == entries - 1
            for bookie in started:  # recovery waits for only two of the three
                async with RawBookieClient(bookie) as raw:
                    await raw.ask(wire.encode_read(writer.ledger_id, entries, wire.Flag.FENCE, master_key(b"")))
            await other.delete_ledger(writer.ledger_id)
            for bookie in started:
                while (await read_raw(bookie, writer.ledger_id, 0)).error != Code.NO_LEDGER:
                    await asyncio.sleep(0.05)
            with pytest.raises(LedgerFenced):
                await writer.append([b"late"])
        for bookie in started:
            bookie.restart()  # by kill -9
            async with RawBookieClient(bookie) as raw:
                add = wire.encode_add(master_key(b""), stored_entry(writer.ledger_id, entries, b"later", 5, -1))
                assert (await raw.ask(add)).error == Code.FENCED

    run(main())
