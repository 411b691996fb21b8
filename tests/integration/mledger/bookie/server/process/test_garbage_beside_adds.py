"""Ledgers are measured and deleted, and files looked at, while adds are in progress."""

import asyncio
import os
import threading
import time
from types import SimpleNamespace

import pytest

from mledger.bookie import wire
from mledger.bookie.errors import Code
from mledger.bookie.server.process import garbage
from mledger.metastore.errors import NodeNotFound
from tests.support.aio import HANG_S
from tests.support.bookies.collected_bookie import KEY, LEDGERS, ROUNDS, in_cluster
from tests.support.bookies.raw_bookie import RawBookieClient, entry


def test_a_ledger_with_an_add_in_progress_is_deleted_later_and_its_space_counted(tmp_path, monkeypatch):
    async def test(cluster):
        bookie, measured, answered = cluster.local.bookie, threading.Event(), threading.Event()
        measure, append = bookie.index.needed_bytes, bookie.turns._journal.append

        def measure_before_the_answer(ledger):
            found = measure(ledger)
            measured.set()
            assert answered.wait(HANG_S)
            return found

        def append_after_the_measure(*record):
            assert measured.wait(HANG_S)
            return append(*record)

        async with RawBookieClient(cluster.local) as client:
            await cluster.ledgers.delete(2)
            monkeypatch.setattr(bookie.index, "needed_bytes", measure_before_the_answer)
            monkeypatch.setattr(bookie.turns._journal, "append", append_after_the_measure)
            client.send(wire.encode_add(KEY, entry(2, ROUNDS, b"late")))
            while not bookie.turns.unsynced_adds:
                await asyncio.sleep(0)
            collecting = asyncio.create_task(cluster.collector.collect(cluster.store))
            while not (collecting.done() or measured.is_set()):
                await asyncio.sleep(0)
            measured.set()
            assert (await client.response()).error == 0
            answered.set()
            await collecting
        await cluster.collector.collect(cluster.store)
        assert await cluster.errors() == [0, Code.NO_LEDGER, 0]
        assert sum(bookie.index.live.values()) == sum(sum(measure(ledger).values()) for ledger in LEDGERS)

    in_cluster(tmp_path, test)


def test_adds_continue_while_the_sizes_of_many_journal_files_are_looked_up(tmp_path, monkeypatch):
    async def test(cluster):
        answered = threading.Event()

        class WaitingSystem:
            def __getattr__(self, name):
                return getattr(os, name)

            def stat(self, path):
                assert answered.wait(HANG_S)
                return os.stat(path)

        monkeypatch.setattr(garbage, "os", WaitingSystem())
        reclaiming = asyncio.create_task(cluster.collector.reclaim())
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(1, ROUNDS, b"x")))).error == 0
        answered.set()
        await reclaiming

    in_cluster(tmp_path, test)


def test_reads_go_over_no_more_than_so_many_deletions_in_memory(tmp_path, monkeypatch):
    async def test(cluster):
        index, counted = cluster.local.bookie.index, []
        await cluster.local.bookie.turns.drain()  # with the flush after the last journal file
        monkeypatch.setattr(garbage, "_MOST_UNFLUSHED", 2)
        flush = index.flush
        monkeypatch.setattr(index, "flush", lambda: (counted.append(len(index.ledger_ids())), flush()))
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        await cluster.collector.collect(cluster.store)
        return list(counted), index.unflushed_deletions

    assert in_cluster(tmp_path, test) == ([1], 1)


def before_the_first(cluster, act):
    """Have `act` done between the look-up of the ledgers that are gone and the deletion of the first of them."""
    delete = cluster.collector.delete

    async def act_and_delete(ledger, *more):
        cluster.collector.delete = delete
        await act()
        return await delete(ledger, *more)

    cluster.collector.delete = act_and_delete


def test_what_is_added_to_a_ledger_that_is_created_anew_while_others_are_deleted_stays(tmp_path):
    async def test(cluster):
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        async with RawBookieClient(cluster.local) as client:

            async def begin_anew():
                await cluster.create(3)
                assert (await client.ask(wire.encode_add(KEY, entry(3, ROUNDS, b"new")))).error == 0

            before_the_first(cluster, begin_anew)
            deleted = await cluster.collector.collect(cluster.store)
            return deleted, (await client.ask(wire.encode_read(3, ROUNDS))).error

    assert in_cluster(tmp_path, test) == ([1, 2], 0)


def test_a_ledger_whose_metadata_is_restored_while_many_others_are_deleted_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(garbage, "_LOOKED_UP", 2)

    async def test(cluster):
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        before_the_first(cluster, lambda: cluster.create(3))
        deleted = await cluster.collector.collect(cluster.store)
        return deleted, await cluster.errors()

    assert in_cluster(tmp_path, test) == ([1, 2], [Code.NO_LEDGER, Code.NO_LEDGER, 0])


def test_a_process_that_is_frozen_after_a_look_up_deletes_nothing_more_by_it(tmp_path, monkeypatch):
    """Its session ends meanwhile, and a restore brings ledgers back, which would be refused while it is registered."""

    async def test(cluster):
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)

        async def freeze():
            later = time.monotonic() + 3600
            monkeypatch.setattr(garbage, "time", SimpleNamespace(monotonic=lambda: later))

        before_the_first(cluster, freeze)
        deleted = [await cluster.collector.collect(cluster.store) for _ in range(2)]
        return deleted, await cluster.errors()

    assert in_cluster(tmp_path, test) == ([[1], [2, 3]], [Code.NO_LEDGER] * 3)


def test_a_restore_that_begins_while_many_ledgers_are_deleted_ends_that(tmp_path, monkeypatch):
    monkeypatch.setattr(garbage, "_LOOKED_UP", 2)

    async def test(cluster):
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        before_the_first(cluster, lambda: cluster.store.delete("/ledgers/INSTANCEID"))
        with pytest.raises(NodeNotFound, match="INSTANCEID"):
            await cluster.collector.collect(cluster.store)
        return await cluster.errors()

    assert in_cluster(tmp_path, test) == [Code.NO_LEDGER, Code.NO_LEDGER, 0]
