"""Reads from the disk do not delay adds, and no client has more than a few MiB of answers waiting."""

import asyncio
import errno
import os
import threading

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving import cold_reads, connection
from mledger.bookie.server.storage.journal import file_path
from mledger.bookie.server.storage.reads import JournalReader
from mledger.bookie.server.storage.records.file_contents import read_contents
from tests.support.aio import HANG_S, run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.bookies.version3 import request, response

KEY = master_key(b"")
SIZE = 100_000


def add(ledger, number, size=SIZE):
    return wire.encode_add(KEY, entry(ledger, number, bytes([number % 256]) * size))


def version_3_read(number, transaction=1):
    return request(pb.READ_ENTRY, transaction, ledgerId=1, entryId=number)


class HangingDisk:
    """A slow disk: reads of it hang until `go_on`, or fail. The page cache is empty."""

    def __init__(self, monkeypatch):
        self.asked, self.go_on, self.reads, self.error = threading.Event(), threading.Event(), [], None
        read = os.pread

        def late(descriptor, length, offset):
            self.reads.append(offset)
            self.asked.set()
            self.go_on.wait(HANG_S)
            if self.error is not None:
                raise self.error
            return read(descriptor, length, offset)

        monkeypatch.setattr(os, "pread", late)
        monkeypatch.setattr(
            JournalReader, "load", lambda files, row: files.has(row) or (row.file, row.offset) in files._failed
        )


def with_entries(tmp_path, count, test):
    """Run a test on a bookie that holds entries of ledger 1, each in a run of its own and none in memory."""

    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            for number in range(count):
                assert (await client.ask(add(1, number))).error == 0
            await test(local, client)

    run(main())


def test_an_add_is_answered_while_a_read_waits_for_the_disk(tmp_path, monkeypatch):
    async def test(local, client):
        disk = HangingDisk(monkeypatch)
        client.send(wire.encode_read(1, 0))
        async with RawBookieClient(local) as other:
            await asyncio.to_thread(disk.asked.wait, HANG_S)
            assert (await other.ask(add(2, 0))).error == 0
        assert (await client.ask(add(1, 1))).op == wire.Op.ADD
        disk.go_on.set()
        found = await client.response()
        assert (found.op, found.error, len(found.body)) == (wire.Op.READ, 0, len(entry(1, 0, bytes(SIZE))))

    with_entries(tmp_path, 1, test)


@pytest.mark.parametrize("fencing", [False, True])
def test_many_reads_of_one_run_read_it_once(tmp_path, monkeypatch, fencing):
    async def test(local, client):
        disk = HangingDisk(monkeypatch)
        for _ in range(20):
            client.send(wire.encode_read(1, 0, wire.Flag.FENCE, KEY) if fencing else wire.encode_read(1, 0))
        await asyncio.to_thread(disk.asked.wait, HANG_S)
        disk.go_on.set()
        assert {(await client.response()).error for _ in range(20)} == {0}
        assert len(disk.reads) == 1
        assert (await client.ask(add(1, 1))).error == (Code.FENCED if fencing else 0)

    with_entries(tmp_path, 1, test)


def test_a_batch_read_is_answered_once_all_its_runs_are_read(tmp_path, monkeypatch):
    async def test(local, client):
        disk = HangingDisk(monkeypatch)
        client.send(wire.encode_batch_read(1, 0, 7, 10, 5 << 20))
        await asyncio.to_thread(disk.asked.wait, HANG_S)
        disk.go_on.set()
        found = await client.response()
        assert [each[-1] for each in wire.batch_entries(found.body)] == list(range(10))
        assert len(disk.reads) == 10

    with_entries(tmp_path, 10, test)


def test_a_run_that_moves_while_it_is_read_is_found_at_its_new_place(tmp_path, monkeypatch):
    async def test(local, client):
        bookie = local.bookie
        rows = read_contents(bookie.index, bookie.journal_path, 1, bookie.salt).rows
        frames = [(repeated, row, bookie.files.frames(row)) for repeated, row in rows]
        disk = HangingDisk(monkeypatch)
        client.send(wire.encode_read(1, 0))
        await asyncio.to_thread(disk.asked.wait, HANG_S)
        await bookie.turns.move(frames)
        bookie.turns.recycle([1])
        disk.go_on.set()
        assert (await client.response()).error == 0
        assert len(disk.reads) == 2
        assert not any(file == 1 for file, _ in bookie.files._runs)

    with_entries(tmp_path, 12, test)


def test_a_run_whose_file_is_deleted_before_it_is_read_is_found_at_its_new_place(tmp_path, monkeypatch):
    async def test(local, client):
        bookie, asked, go_on = local.bookie, threading.Event(), threading.Event()
        rows = read_contents(bookie.index, bookie.journal_path, 1, bookie.salt).rows
        frames = [(repeated, row, bookie.files.frames(row)) for repeated, row in rows]
        read = cold_reads.read_frames
        monkeypatch.setattr(JournalReader, "load", lambda files, row: row.file != 1 or (1, row.offset) in files._failed)
        monkeypatch.setattr(cold_reads, "read_frames", lambda *what: (asked.set(), go_on.wait(HANG_S), read(*what))[2])
        client.send(wire.encode_read(1, 0))
        await asyncio.to_thread(asked.wait, HANG_S)
        await bookie.turns.move(frames)
        bookie.turns.recycle([1])
        while os.path.exists(file_path(bookie.journal_path, 1)):
            await asyncio.sleep(0)
        go_on.set()
        assert (await client.response()).error == 0

    with_entries(tmp_path, 12, test)


def test_a_read_that_the_disk_fails_is_an_io_error_after_one_attempt(tmp_path, monkeypatch):
    async def test(local, client):
        disk = HangingDisk(monkeypatch)
        disk.error = OSError(errno.EIO, "Input/output error")
        disk.go_on.set()
        assert (await client.ask(wire.encode_read(1, 0))).error == Code.IO_ERROR
        assert len(disk.reads) == 1
        disk.error = None
        assert (await client.ask(wire.encode_read(1, 0))).error == 0

    with_entries(tmp_path, 1, test)


def test_a_read_for_which_there_is_no_thread_fails_and_the_next_of_the_same_run_is_answered(tmp_path, monkeypatch):
    def no_thread(_):
        raise RuntimeError("can't start new thread")

    async def test(local, client):
        HangingDisk(monkeypatch).go_on.set()
        with monkeypatch.context() as without_threads:
            without_threads.setattr(threading.Thread, "start", no_thread)
            assert (await client.ask(wire.encode_read(1, 0))).error == Code.IO_ERROR
        assert (await client.ask(wire.encode_read(1, 0))).error == 0
        assert not local.bookie.turns.cold_reads._bytes

    with_entries(tmp_path, 1, test)


def test_a_client_that_reads_endlessly_from_a_slow_disk_is_slowed_down(tmp_path, monkeypatch):
    limit, count = 300_000, 12
    monkeypatch.setattr(connection, "_MOST_OWED", limit)

    async def test(local, client):
        disk = HangingDisk(monkeypatch)
        client.send(b"".join(wire.encode_read(1, number) for number in range(count)))
        await asyncio.to_thread(disk.asked.wait, HANG_S)
        assert len(local.bookie.turns.cold_reads._wanted) == limit // SIZE
        disk.go_on.set()
        assert {(await client.response()).error for _ in range(count)} == {0}
        assert not local.bookie.turns.cold_reads._wanted

    with_entries(tmp_path, count, test)


def test_requests_behind_a_large_read_are_served_when_one_of_its_runs_had_to_be_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_MOST_OWED", 3 * SIZE)

    async def test(local, client):
        files, fetched = local.bookie.files, []
        keep = files.keep

        def keep_all_but_the_fourth(row, run):
            fetched.append(row)
            if len(fetched) != 4:
                keep(row, run)

        monkeypatch.setattr(files, "keep", keep_all_but_the_fourth)
        HangingDisk(monkeypatch).go_on.set()
        client.send(wire.encode_batch_read(1, 0, 7, 10, 5 << 20) + wire.encode_read(1, 11))
        async with asyncio.timeout(HANG_S):
            answers = {answer.entry: answer for answer in [await client.response(), await client.response()]}
        assert len(list(wire.batch_entries(answers[0].body))) == 10
        assert 11 in answers

    with_entries(tmp_path, 12, test)


def test_a_client_that_fences_endlessly_is_slowed_down_until_the_fence_is_durable(tmp_path, monkeypatch):
    count = 200

    async def test(local, client):
        assert (await client.ask(wire.encode_read(1, 0))).error == 0
        turns, journal, go_on = local.bookie.turns, local.bookie._journal, threading.Event()
        append = journal.append
        monkeypatch.setattr(journal, "append", lambda *record: (go_on.wait(HANG_S), append(*record))[1])
        client.send(b"".join([wire.encode_read(1, 0, wire.Flag.FENCE, KEY)] * count))
        try:
            while not turns.clients_waiting and _unsent(turns) <= 2 * connection._MOST_OWED:
                await asyncio.sleep(0)
            assert _unsent(turns) <= connection._MOST_OWED + 2 * SIZE
        finally:
            go_on.set()
        assert {(await client.response()).error for _ in range(count)} == {0}

    with_entries(tmp_path, 1, test)


def test_version_3_reads_of_one_write_wait_for_the_disk_separately(tmp_path, monkeypatch):
    count = 12

    async def test(local, _):
        async with RawBookieClient(local) as client:
            await ask(local, client)

    async def ask(local, client):
        files, cold = local.bookie.files, {3, 4, 11}
        client.send(b"".join(version_3_read(number) for number in range(count)))
        first = {response(await client.frame()).readResponse.entryId for _ in range(count)}
        assert first == set(range(count))
        for number in cold:
            row = local.bookie.index.run_at(1, number)
            files._cached -= len(files._runs.pop((row.file, row.offset)).value)
        local.bookie.turns.ledgers.get(1).last_read = None
        disk = HangingDisk(monkeypatch)
        client.send(b"".join(version_3_read(number) for number in range(count)))
        warm = [response(await client.frame()).readResponse.entryId for _ in range(count - len(cold))]
        assert warm == sorted(set(range(count)) - cold)
        disk.go_on.set()
        late = [response(await client.frame()).readResponse for _ in cold]
        assert {found.entryId: found.body for found in late} == {
            number: entry(1, number, bytes([number]) * SIZE) for number in cold
        }
        assert len(disk.reads) == len(cold)

    with_entries(tmp_path, count, test)


def test_a_client_that_accepts_no_answers_receives_no_more_of_its_version_3_reads(tmp_path):
    async def test(local, client):
        transport, count = Untaken(), 200
        one = local.bookie.connection()
        transport.protocol = one
        one.connection_made(transport)
        data = b"".join(version_3_read(0, transaction=number) for number in range(count))
        one.get_buffer(-1)[: len(data)] = data
        one.buffer_updated(len(data))
        assert Untaken.LIMIT < sum(map(len, transport.written)) <= Untaken.LIMIT + (256 << 10) + 2 * SIZE
        for _ in range(count):
            transport.take()
        answers, found = b"".join(transport.taken), []
        while answers:
            size = 4 + int.from_bytes(answers[:4], "big")
            found.append(response(answers[:size]).header.txnId)
            answers = answers[size:]
        assert found == list(range(count))

    with_entries(tmp_path, 1, test)


class Untaken:
    """A transport whose client accepts what was written only when the test says so."""

    LIMIT = 1 << 20

    def __init__(self):
        self.written, self.taken, self.protocol = [], [], None

    def write(self, data):
        self.written.append(bytes(data))
        if sum(map(len, self.written)) > self.LIMIT:
            self.protocol.pause_writing()

    def take(self):
        self.taken += self.written
        self.written = []
        self.protocol.resume_writing()

    def set_write_buffer_limits(self, high):
        assert high == self.LIMIT

    def get_write_buffer_size(self):
        return sum(map(len, self.written))

    def abort(self):
        self.protocol.connection_lost(None)

    close = abort

    def get_extra_info(self, _):
        return None

    def is_closing(self):
        return False

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


def _unsent(turns):
    """Bytes of answers that wait for a sync."""
    each = [turn.answers.values() for turn in (turns._open, turns._flying) if turn is not None]
    return sum(len(part) for answers in each for parts in answers for part in parts)


def test_reads_of_many_ledgers_keep_only_a_limited_number_in_memory(tmp_path):
    async def test(local, client):
        ledgers = local.bookie.turns.ledgers
        ledgers._most = 64
        for ledger in range(100, 400):
            assert (await client.ask(wire.encode_read(ledger, 0))).error == Code.NO_LEDGER
            assert len(ledgers._states) <= 64
        assert (await client.ask(wire.encode_read(1, 0))).error == 0

    with_entries(tmp_path, 1, test)


def test_a_ledger_in_memory_does_not_keep_the_bytes_of_its_last_turn(tmp_path):
    async def test(local, client):
        commit = local.bookie.turns.ledgers.get(1).commit
        assert commit.synced
        assert (commit.chunks, commit.changes, commit.answers, commit.states) == ([], [], {}, [])

    with_entries(tmp_path, 1, test)
