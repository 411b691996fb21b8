"""kill -9 of a bookie under load: a restart has every acknowledged entry byte for byte, and the rest is whole."""

import asyncio
import os
import random
import sys
import time

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.storage.journal_thread import EXIT_STORAGE_FAILED
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
CONNECTIONS = 3
LEDGERS_EACH = 2


class AddLoad:
    """Adds to ledgers of its own over one connection as fast as it can, and remembers what was acknowledged."""

    def __init__(self, seed, ledgers):
        self.random, self.ledgers = random.Random(seed), ledgers
        self.next = dict.fromkeys(ledgers, 0)
        self.sent, self.acknowledged = {}, set()

    def batch(self):
        """Requests: runs of one size, of mixed sizes, single ones, and an entry repeated with other bytes."""
        ledger = self.random.choice(self.ledgers)
        sizes = self.random.choice(([100] * 50, [self.random.randrange(2000) for _ in range(20)], [30_000]))
        frames = []
        for size in sizes:
            number = self.next[ledger]
            self.next[ledger] += 1
            data = entry(ledger, number, self.random.randbytes(size))
            self.sent[ledger, number] = [data]
            frames.append(wire.encode_add(KEY, data))
        if self.random.random() < 0.2 and self.next[ledger] > 10:
            number = self.random.randrange(self.next[ledger] - 5)
            data = entry(ledger, number, b"again" + self.random.randbytes(50), last_add_confirmed=-1)
            self.sent[ledger, number].append(data)
            frames.append(wire.encode_add(KEY, data))
        return b"".join(frames)

    async def run(self, bookie):
        """Add until the bookie is gone."""
        async with RawBookieClient(bookie) as client:
            answers = asyncio.ensure_future(self.gather(client))
            try:
                while not answers.done():
                    client.send(self.batch())
                    await client.writer.drain()
                    await asyncio.sleep(0)
            except ConnectionError:
                pass
            await asyncio.gather(answers, return_exceptions=True)
            assert isinstance(answers.exception(), ConnectionError | asyncio.IncompleteReadError)

    async def gather(self, client):
        """Remember what is acknowledged."""
        while True:
            response = await client.response()
            assert response.error == 0
            self.acknowledged.add((response.ledger, response.entry))

    async def check(self, bookie):
        """Assert that an acknowledged entry is read back in one of its versions, and others are whole or absent."""
        async with RawBookieClient(bookie) as client:
            for keys in batched(self.sent, 100):
                client.send(b"".join(wire.encode_read(*key) for key in keys))
                reads = [await client.response() for _ in keys]  # those of the disk may come last
                found = {(read.ledger, read.entry): read for read in reads}
                for key in keys:
                    read = found.pop(key)
                    if read.error:
                        assert key not in self.acknowledged, f"{key} was acknowledged and answers {read.error}"
                    else:
                        assert read.body in self.sent[key]


def batched(values, size):
    """Lists of `size` values."""
    values = list(values)
    return [values[at : at + size] for at in range(0, len(values), size)]


@pytest.mark.parametrize("seed", range(5))
def test_kill_9_loses_no_acknowledged_entry(bookies, seed):
    (bookie,) = bookies.start(1, "--journal-mb", "2")
    rng = random.Random(seed)

    async def main():
        loads = []
        for life in range(3):
            first = life * CONNECTIONS * LEDGERS_EACH
            new = [
                AddLoad(seed * 100 + life * 10 + at, range(first + at * LEDGERS_EACH, first + (at + 1) * LEDGERS_EACH))
                for at in range(CONNECTIONS)
            ]
            loads += new
            tasks = [asyncio.ensure_future(load.run(bookie)) for load in new]
            wanted = rng.randrange(200, 6000)
            while sum(len(load.acknowledged) for load in new) < wanted:
                await asyncio.sleep(0.005)
            bookie.kill()
            await asyncio.gather(*tasks)
            bookie.start()
        for load in loads:
            await load.check(bookie)
        return sum(len(load.acknowledged) for load in loads)

    assert run(main()) > 600


def test_a_restart_reads_a_repeated_add_that_was_acknowledged(bookies):
    (bookie,) = bookies.start(1)

    async def add(*entries):
        async with RawBookieClient(bookie) as client:
            for data in entries:
                assert (await client.ask(wire.encode_add(KEY, data))).error == 0

    async def read(number):
        async with RawBookieClient(bookie) as client:
            return (await client.ask(wire.encode_read(1, number))).body

    again = entry(1, 5, b"second", last_add_confirmed=4)
    run(add(entry(1, 5, b"first"), entry(1, 2, b"late"), again))
    bookie.restart()
    assert run(read(5)) == again
    assert run(read(2)) == entry(1, 2, b"late")
    bookie.stop()
    bookie.start()
    assert run(read(wire.LAST_ENTRY)) == again


def test_a_bookie_restarts_again_and_again_without_growing(bookies):
    (bookie,) = bookies.start(1)

    async def add(number):
        async with RawBookieClient(bookie) as client:
            return (await client.ask(wire.encode_add(KEY, entry(1, number, b"x")))).error

    for number in range(5):
        assert run(add(number)) == 0
        bookie.restart()
    assert len(list((bookie.directory / "journal").glob("[0f]*.journal"))) <= 7


def test_a_failing_sync_ends_the_process_without_answers(bookies):
    bookie = bookies.add(command=(sys.executable, "-m", "tests.support.bookies.broken_bookie", "failing-sync"))
    bookie.start()

    async def main():
        async with RawBookieClient(bookie) as client:
            for number in range(2):
                assert (await client.ask(wire.encode_add(KEY, entry(1, number, b"x")))).error == 0
            client.send(wire.encode_add(KEY, entry(1, 2, b"x")))
            return await client.closed()

    assert run(main()) == b""
    assert bookie.wait() == EXIT_STORAGE_FAILED
    assert "event=journal_failed" in bookie.log()


def test_an_error_before_a_record_is_written_ends_the_process_without_answers(bookies):
    bookie = bookies.add(command=(sys.executable, "-m", "tests.support.bookies.broken_bookie", "failing-record"))
    bookie.start()

    async def main():
        async with RawBookieClient(bookie) as client:
            for number in range(2):
                assert (await client.ask(wire.encode_add(KEY, entry(1, number, b"x")))).error == 0
            client.send(wire.encode_add(KEY, entry(1, 2, b"x")))
            return await client.closed()

    assert run(main(), timeout=60.0) == b""
    assert bookie.wait() == EXIT_STORAGE_FAILED
    assert "event=turn_failed" in bookie.log()


def test_an_error_after_a_sync_ends_the_process_and_the_next_continues_after_the_record(bookies):
    bookie = bookies.add(command=(sys.executable, "-m", "tests.support.bookies.broken_bookie", "failing-answer"))
    bookie.start()

    async def add(*numbers):
        async with RawBookieClient(bookie) as client:
            for number in numbers:
                assert (await client.ask(wire.encode_add(KEY, entry(1, number, b"x")))).error == 0

    async def main():
        async with RawBookieClient(bookie) as other:
            await add(0, 1)
            other.send(wire.encode_add(KEY, entry(1, 2, b"x")))
            return await other.closed()

    assert run(main(), timeout=60.0) == b""
    assert bookie.wait() == EXIT_STORAGE_FAILED
    assert "event=turn_failed" in bookie.log()
    bookie.command = (sys.executable, "-m", "mledger.bookie.server")
    bookie.start()
    run(add(3))
    bookie.restart()

    async def read():
        async with RawBookieClient(bookie) as client:
            return [(await client.ask(wire.encode_read(1, number))).error for number in range(4)]

    assert run(read()) == [0] * 4


def test_a_stop_under_load_loses_nothing_acknowledged(bookies):
    (bookie,) = bookies.start(1)

    async def main():
        load = AddLoad(99, [1, 2])
        task = asyncio.ensure_future(load.run(bookie))
        while len(load.acknowledged) < 500:
            await asyncio.sleep(0.005)
        assert await asyncio.to_thread(bookie.stop) == 0
        await task
        bookie.start()
        await load.check(bookie)

    run(main())


def test_a_stop_does_not_wait_for_clients_that_keep_adding(tmp_path, monkeypatch):
    window, most, sync = 100, 5_000, os.fdatasync

    def slow(file):
        time.sleep(0.005)  # so that the next adds are always there when a sync ends
        sync(file)

    monkeypatch.setattr(os, "fdatasync", slow)

    async def main():
        answered = 0

        async def go_on_adding(local, ledger):
            nonlocal answered
            async with RawBookieClient(local) as client:
                for number in range(most):
                    client.send(wire.encode_add(KEY, entry(ledger, number, b"x")))
                    if number >= window:
                        assert (await client.response()).error == 0
                        answered += 1

        async with serving(tmp_path / "bookie") as local:
            clients = [asyncio.ensure_future(go_on_adding(local, ledger)) for ledger in range(3)]
            while answered < 3 * window:
                await asyncio.sleep(0.001)
            before = answered
            await local.bookie.turns.close()
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
            return answered - before

    assert run(main()) <= 6 * window
