"""What becomes of a session with a RocksDB metadata server when its client, its server or the connection goes away."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE

import pytest

from mledger.metastore.errors import StoreClosed, StoreUnavailable
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import HANG_S, run
from tests.support.rocksdb import MetadataProcess
from tests.support.stores import impatient
from tests.support.zookeeper import SHORT_SESSION_S

LONG_S = 3600.0  # a session that no test waits for


@contextlib.asynccontextmanager
async def client_process(url, session_timeout):
    """A process that holds the ephemeral node /mine."""
    command = [sys.executable, "-m", "tests.support.frozen_client", url, str(session_timeout)]
    client = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        assert await client.stdout.readline() == b"ready\n"
        yield client
    finally:
        if client.returncode is None:
            client.kill()
        await client.wait()


async def until_gone(store, path, changes):
    while await store.exists(path) is not None:
        await anext(changes)


def test_a_client_frozen_past_its_session_loses_its_ephemeral_nodes_and_learns_of_it(rocksdb_url):
    async def main():
        async with (
            await open_store(rocksdb_url) as store,
            store.watch("/mine") as changes,
            client_process(rocksdb_url, SHORT_SESSION_S) as client,
        ):
            os.kill(client.pid, signal.SIGSTOP)
            await until_gone(store, "/mine", changes)
            os.kill(client.pid, signal.SIGCONT)
            said, _ = await client.communicate()
            expired = ["expired", "watch SessionExpired", "get SessionExpired", "create SessionExpired"]
            assert said.decode().splitlines() == expired
            assert client.returncode == 0
            assert await store.children("/") == []

    run(main())


def test_the_ephemeral_nodes_of_a_killed_process_go_at_once_whatever_its_session_time_out(rocksdb_url):
    async def main():
        async with (
            await open_store(rocksdb_url) as store,
            store.watch("/mine") as changes,
            client_process(rocksdb_url, LONG_S) as client,
        ):
            client.kill()
            await until_gone(store, "/mine", changes)

    run(main())


def test_the_ephemeral_nodes_of_a_process_killed_while_the_server_is_down_go_when_it_is_back(metadata_process):
    async def main():
        async with client_process(metadata_process.url, LONG_S) as client:
            metadata_process.kill()
            client.kill()
            await client.wait()
        await asyncio.to_thread(metadata_process.start)
        async with await open_reader(metadata_process.url) as reader, reader.watch("/mine") as changes:
            await until_gone(reader, "/mine", changes)

    run(main())


def test_a_session_that_does_not_come_back_after_a_restart_ends_with_its_time_out(metadata_process):
    async def main():
        async with client_process(metadata_process.url, SHORT_SESSION_S) as client:
            os.kill(client.pid, signal.SIGSTOP)
            metadata_process.kill()
            await asyncio.to_thread(metadata_process.start)
            async with await open_reader(metadata_process.url) as reader, reader.watch("/mine") as changes:
                await until_gone(reader, "/mine", changes)

    run(main())


def test_a_session_outlives_kill_and_restart_of_the_server(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store, store.watch("/data") as changes:
            await store.create("/data", b"kept")
            assert await anext(changes) is NodeChange.CREATED
            await store.create("/mine", ephemeral=True)
            session = store.session_id
            metadata_process.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            await asyncio.to_thread(metadata_process.start)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert await anext(changes) is NodeChange.UNKNOWN
            assert (await store.get("/data")).data == b"kept"
            assert (await store.get("/mine")).stat.ephemeral_owner == session == store.session_id
            await store.put("/data", b"changed", 0)
            assert await anext(changes) is NodeChange.CHANGED
            async with await open_store(metadata_process.url) as other:
                assert other.session_id != session

    run(main())


def test_sessions_that_ended_stay_ended_after_a_restart(metadata_process):
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


def test_a_server_frozen_for_longer_than_a_session_lasts_does_not_end_it(metadata_process):
    async def main():
        async with await open_store(metadata_process.url, session_timeout=SHORT_SESSION_S) as store:
            await store.create("/mine", ephemeral=True)
            metadata_process.signal(signal.SIGSTOP)
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            await asyncio.sleep(SHORT_SESSION_S)  # past the time-out: what is shown is that nothing happens in it
            metadata_process.signal(signal.SIGCONT)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert (await store.get("/mine")).stat.ephemeral_owner == store.session_id

    run(main())


def test_a_read_issued_while_the_server_is_away_succeeds_when_it_is_back(metadata_process):
    async def main():
        async with await open_store(metadata_process.url, timeout=HANG_S) as store:
            await store.create("/data", b"kept")
            metadata_process.kill()
            reads = [asyncio.ensure_future(read) for read in (store.get("/data"), store.children("/"))]
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            many = asyncio.ensure_future(store.get_many(["/data"] * 3))
            await asyncio.to_thread(metadata_process.start)
            node, names = await asyncio.gather(*reads)
            assert (node.data, names) == (b"kept", ["data"])
            assert [node.data for node in await many] == [b"kept"] * 3

    run(main())


def test_a_watch_set_while_the_server_is_away_is_set_when_it_is_back(metadata_process):
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


def test_operations_without_a_server_end_in_time_and_say_where_it_was(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            await store.create("/data")
            metadata_process.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            with impatient(store):
                for attempt in (store.get("/data"), store.get_many(["/data"]), store.put("/data", b"", 0)):
                    with pytest.raises(StoreUnavailable, match=str(metadata_process.directory)):
                        await attempt
                with pytest.raises(StoreUnavailable):
                    async with store.watch("/data"):
                        pass

    run(main())


def test_a_write_that_timed_out_before_it_was_sent_is_not_carried_out_later(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            await store.create("/data", b"kept")
            metadata_process.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            for late in (store.put("/data", b"late", 0), store.create("/late")):
                with impatient(store), pytest.raises(StoreUnavailable):
                    await late
            await asyncio.to_thread(metadata_process.start)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert (await store.get("/data")).version == 0
            assert await store.exists("/late") is None

    run(main())


def test_a_write_to_a_frozen_server_is_reported_unknown_and_can_be_read_back(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            await store.create("/data", b"0")
            metadata_process.signal(signal.SIGSTOP)
            with impatient(store), pytest.raises(StoreUnavailable):
                await store.put("/data", b"1", 0)
            metadata_process.signal(signal.SIGCONT)
            async with store.watch("/data") as changes:
                while (await store.get("/data")).data != b"1":
                    await anext(changes)

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


def test_closing_ends_also_when_the_server_does_not_answer(metadata_process):
    async def main():
        store = await open_store(metadata_process.url)
        metadata_process.signal(signal.SIGSTOP)
        reading = asyncio.ensure_future(store.get("/"))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await reading
        metadata_process.signal(signal.SIGCONT)

    run(main())


def test_nobody_there_is_said_with_the_directory(tmp_path):
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


def test_a_frozen_server_is_as_good_as_nobody(metadata_process):
    metadata_process.signal(signal.SIGSTOP)

    async def main():
        with pytest.raises(StoreUnavailable, match="no metadata server answers"):
            await open_store(metadata_process.url, timeout=0.3)

    run(main())


def test_an_opening_that_is_given_up_leaves_nothing_behind_that_goes_on_connecting(tmp_path):
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
