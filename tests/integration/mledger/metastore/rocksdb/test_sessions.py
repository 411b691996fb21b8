"""Sessions of a RocksDB metadata server: what ends one, what it outlives, and how its client hears of it."""

import asyncio
import os
import shutil
import signal

import pytest

from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.rocksdb import client_connection, wire
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import HANG_S, run
from tests.support.metadata.client_process import client_process
from tests.support.metadata.rocksdb import MetadataProcess
from tests.support.zookeeper.server import SHORT_SESSION_S

LONG_S = 3600.0  # a session that no test waits for


async def until_gone(store, path, changes):
    while await store.exists(path) is not None:
        await anext(changes)


def test_ephemeral_nodes_of_a_killed_process_vanish_at_once_whatever_its_session_time_out(rocksdb_url):
    async def main():
        async with (
            await open_store(rocksdb_url) as store,
            store.watch("/mine") as changes,
            client_process(rocksdb_url, LONG_S) as client,
        ):
            client.kill()
            await until_gone(store, "/mine", changes)

    run(main())


def test_ephemeral_nodes_of_a_process_killed_while_the_server_is_down_vanish_when_it_is_back(metadata_process):
    async def main():
        async with client_process(metadata_process.url, LONG_S) as client:
            metadata_process.kill()
            client.kill()
            await client.wait()
        await asyncio.to_thread(metadata_process.start)
        async with await open_reader(metadata_process.url) as reader, reader.watch("/mine") as changes:
            await until_gone(reader, "/mine", changes)

    run(main())


def test_a_session_that_does_not_return_after_a_restart_ends_after_its_time_out(metadata_process):
    async def main():
        async with client_process(metadata_process.url, SHORT_SESSION_S) as client:
            os.kill(client.pid, signal.SIGSTOP)
            metadata_process.kill()
            await asyncio.to_thread(metadata_process.start)
            async with await open_reader(metadata_process.url) as reader, reader.watch("/mine") as changes:
                await until_gone(reader, "/mine", changes)

    run(main())


def test_a_client_waits_for_its_session_as_long_as_that_may_last(rocksdb_url, monkeypatch):
    """A server on a slow disk answers after a sync: a client that does not wait for that connects anew for ever."""
    limits = []

    class NotedLimit(TimeLimit):
        def __init__(self, seconds):
            limits.append(seconds)
            super().__init__(seconds)

    monkeypatch.setattr(client_connection, "TimeLimit", NotedLimit)

    async def main():
        async with await open_store(rocksdb_url, session_timeout=LONG_S):
            assert limits == [LONG_S]

    run(main())


def test_a_client_whose_server_was_another_version_for_a_while_comes_back(metadata_process, monkeypatch):
    async def main():
        async with await open_store(metadata_process.url, session_timeout=LONG_S) as store:
            await store.create("/mine", ephemeral=True)
            metadata_process.kill()
            monkeypatch.setattr(wire, "PROTOCOL", wire.PROTOCOL + 1)
            await asyncio.to_thread(metadata_process.start)
            while store._connection._refused is None:
                await asyncio.sleep(0)
            monkeypatch.undo()
            await store.wait_for_session(SessionState.CONNECTED, HANG_S)
            assert await store.children("/") == ["mine"]

    run(main())


def test_ended_sessions_stay_ended_after_a_restart(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            await store.create("/mine", ephemeral=True)
            first = store.session_id
        metadata_process.kill()
        await asyncio.to_thread(metadata_process.start)
        async with await open_store(metadata_process.url) as store:
            assert await store.children("/") == []
            assert store.session_id > first

    run(main())


def test_a_server_that_lost_its_store_gives_no_client_the_session_of_one_that_may_return(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            held = store.session_id
            metadata_process.kill()
            shutil.rmtree(metadata_process.directory)
            await asyncio.to_thread(metadata_process.start)
            async with await open_store(metadata_process.url) as other:
                assert other.session_id > held
            await store.wait_for_session(SessionState.EXPIRED, HANG_S)

    run(main())


def test_a_server_frozen_for_longer_than_a_session_lasts_does_not_end_it(metadata_process):
    async def main():
        async with await open_store(metadata_process.url, session_timeout=SHORT_SESSION_S) as store:
            await store.create("/mine", ephemeral=True)
            metadata_process.signal(signal.SIGSTOP)
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            await asyncio.sleep(SHORT_SESSION_S)  # past the time-out, to show that nothing happens in it
            metadata_process.signal(signal.SIGCONT)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert (await store.get("/mine")).stat.ephemeral_owner == store.session_id

    run(main())


def test_a_watch_set_while_the_server_is_down_is_set_when_it_is_back(metadata_process):
    async def main():
        async with await open_store(metadata_process.url, timeout=HANG_S) as store:
            metadata_process.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            restarting = asyncio.create_task(asyncio.to_thread(metadata_process.start))
            async with store.watch("/node") as changes:
                await restarting
                await store.create("/node")
                assert await anext(changes) is NodeChange.CREATED

    run(main())


def test_a_write_lost_with_the_connection_is_reported_at_once(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            await store.create("/data", b"0")
            metadata_process.signal(signal.SIGSTOP)
            writing = asyncio.ensure_future(store.put("/data", b"1", 0))
            while not store._connection._asked:
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # it is in the frozen server's socket
            metadata_process.kill()
            with pytest.raises(StoreUnavailable, match="read back"):
                await writing

    run(main())


def test_the_error_without_a_server_names_the_directory(tmp_path):
    stopped = MetadataProcess(tmp_path / "stopped").start()
    assert stopped.stop() == 0
    killed = MetadataProcess(tmp_path / "killed").start()
    killed.kill()

    async def main():
        for attempt in (open_store, open_reader):
            for directory in (stopped.directory, killed.directory, tmp_path / "none", tmp_path):
                with pytest.raises(StoreUnavailable, match=f"no metadata server answers in {directory}"):
                    await attempt(f"rocksdb:{directory}", timeout=0.2)

    run(main())


def test_a_cancelled_opening_leaves_no_task_that_keeps_connecting(tmp_path):
    async def main():
        before = asyncio.all_tasks()
        opening = asyncio.create_task(open_store(f"rocksdb:{tmp_path}"))
        while len(asyncio.all_tasks() - before) < 2:  # it connects
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()
        async with asyncio.timeout(HANG_S):
            while asyncio.all_tasks() != before:
                await asyncio.sleep(0)

    run(main())
