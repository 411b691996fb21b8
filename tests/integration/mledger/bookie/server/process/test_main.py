"""A bookie's process keeps running when something around it fails for a while."""

import asyncio
import errno
import os
import threading

from mledger.bookie.server.process import main as process
from mledger.bookie.server.process.options import parse_options
from mledger.bookie.server.storage import journal
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import bookie_path
from mledger.metastore.store import SessionState
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run
from tests.support.bookies.registrations import listed_as


def test_a_bookie_tries_again_to_open_its_next_session_after_an_error_of_the_system(tmp_path, cluster_url, monkeypatch):
    failures = [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")]

    async def open_hindered(*arguments, **options):
        if registered.is_set() and failures:
            raise failures.pop(0)
        return await open_store(*arguments, **options)

    async def main():
        monkeypatch.setattr(process, "open_store", open_hindered)
        bookie = process.BookieProcess(
            parse_options(["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--bookie-id", "bookie"])
        )
        serving = asyncio.ensure_future(bookie.run())
        path = bookie_path("bookie")
        async with await open_store(cluster_url) as store, store.watch(path) as changes:
            await anext(changes)
            before = (await store.exists(path)).ephemeral_owner
            registered.set()
            bookie._metadata._connection.session.change(SessionState.EXPIRED)
            while not serving.done() and ((stat := await store.exists(path)) is None or stat.ephemeral_owner == before):
                await asyncio.wait([serving, asyncio.ensure_future(anext(changes))], return_when="FIRST_COMPLETED")
            bookie.stop()
            await serving
        assert failures == []

    registered = asyncio.Event()
    run(main())


def test_a_bookie_whose_session_ends_while_it_opens_its_storage_registers_in_another_one(
    tmp_path, cluster_url, monkeypatch
):
    options = ["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--bookie-id", "bookie"]
    starting = process.BookieProcess(parse_options(options))

    class SlowBookie(process.ServingBookie):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            starting._metadata._connection.session.change(SessionState.EXPIRED)

    async def main():
        serving = asyncio.ensure_future(starting.run())
        path = bookie_path("bookie")
        async with await open_store(cluster_url) as store, store.watch(path) as changes:
            while not serving.done() and await store.exists(path) is None:
                await asyncio.wait([serving, asyncio.ensure_future(anext(changes))], return_when="FIRST_COMPLETED")
            starting.stop()
            await serving

    monkeypatch.setattr(process, "ServingBookie", SlowBookie)
    run(main())


def test_a_new_bookie_can_be_stopped_while_it_looks_for_ledgers_that_it_may_have_lost(
    tmp_path, cluster_url, monkeypatch
):
    looking = asyncio.Event()

    async def look_for_ever(*_):
        looking.set()
        await asyncio.Event().wait()

    async def main():
        monkeypatch.setattr(process, "find_lost", look_for_ever)
        bookie = process.BookieProcess(parse_options(["--metadata", cluster_url, "--dir", str(tmp_path / "bookie")]))
        serving = asyncio.ensure_future(bookie.run())
        await looking.wait()
        bookie.stop()
        await serving

    run(main())


def test_a_bookie_that_could_not_tell_that_it_is_read_only_tries_again(tmp_path, cluster_url, monkeypatch):
    failures, unregister = [StoreUnavailable("no answer")], process.unregister
    told = asyncio.Event()

    async def unregister_hindered(*arguments, **options):
        if failures:
            raise failures.pop()
        await unregister(*arguments, **options)
        told.set()

    async def main():
        monkeypatch.setattr(process, "unregister", unregister_hindered)
        settings = ("--set", "diskUsageThreshold=0.0001", "--set", "diskCheckInterval=100")
        options = parse_options(["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), *settings])
        bookie = process.BookieProcess(options)
        serving = asyncio.ensure_future(bookie.run())
        await told.wait()
        bookie.stop()
        await serving
        assert failures == []

    run(main())


def test_a_bookie_whose_journal_s_disk_hangs_is_read_only_until_the_disk_answers(tmp_path, cluster_url, monkeypatch):
    go_on, sync = threading.Event(), os.fdatasync

    def sync_late(file):
        go_on.wait(HANG_S)
        sync(file)

    async def main():
        monkeypatch.setattr(process, "HUNG_S", 0.1)
        options = parse_options(
            ["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--set", "diskCheckInterval=100"]
        )
        bookie = process.BookieProcess(options)
        serving = asyncio.ensure_future(bookie.run())
        async with await open_store(cluster_url) as store:
            await listed_as(store, False)
            monkeypatch.setattr(journal.os, "fdatasync", sync_late)
            bookie._bookie.turns.fence(bookie._bookie.turns.ledgers.get(1), b"k" * 20)
            await listed_as(store, True)
            go_on.set()
            await listed_as(store, False)
        bookie.stop()
        await serving

    run(main())


def test_a_bookie_whose_disk_could_not_be_looked_at_looks_again(tmp_path, cluster_url, monkeypatch):
    looks, again, fullest = [], asyncio.Event(), process.fullest

    def fullest_hindered(paths):
        looks.append(paths)
        if len(looks) == 2:
            raise OSError(errno.EIO, "Input/output error")
        if len(looks) == 3:
            again.set()
        return fullest(paths)

    async def main():
        monkeypatch.setattr(process, "fullest", fullest_hindered)
        options = parse_options(
            ["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--set", "diskCheckInterval=100"]
        )
        bookie = process.BookieProcess(options)
        serving = asyncio.ensure_future(bookie.run())
        await asyncio.wait([serving, asyncio.ensure_future(again.wait())], return_when="FIRST_COMPLETED")
        assert not serving.done()
        bookie.stop()
        await serving

    run(main())
