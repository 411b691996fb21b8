"""What becomes of a session when its client, its server or the connection goes away."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from mledger.metastore.errors import NodeNotFound, StoreClosed, StoreUnavailable
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.url import open_reader, open_store
from mledger.metastore.zookeeper.connection import ZooKeeperConnection
from mledger.metastore.zookeeper.security import Security
from tests.support.aio import HANG_S, run
from tests.support.old_server import copy
from tests.support.stores import impatient
from tests.support.zookeeper import SHORT_SESSION_S


def test_a_client_frozen_past_its_session_loses_its_ephemeral_nodes_and_learns_of_it(metadata_url):
    async def main():
        async with await open_store(metadata_url) as store, store.watch("/mine") as changes:
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.support.frozen_client", metadata_url, stdout=subprocess.PIPE
            )
            try:
                assert await client.stdout.readline() == b"ready\n"
                assert await anext(changes) is NodeChange.CREATED
                os.kill(client.pid, signal.SIGSTOP)
                assert await anext(changes) is NodeChange.DELETED
                os.kill(client.pid, signal.SIGCONT)
                said, _ = await client.communicate()
                assert said.decode().splitlines() == [
                    "expired",
                    "watch SessionExpired",
                    "get SessionExpired",
                    "create SessionExpired",
                ]
                assert client.returncode == 0
                assert await store.children("/") == []
            finally:
                if client.returncode is None:
                    client.kill()

    run(main())


def test_a_session_outlives_kill_and_restart_of_the_server(zookeeper_server):
    async def main():
        async with await open_store(zookeeper_server.url) as store, store.watch("/data") as changes:
            await store.create("/data", b"kept")
            assert await anext(changes) is NodeChange.CREATED
            await store.create("/mine", ephemeral=True)
            session = store.session_id
            zookeeper_server.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            await asyncio.to_thread(zookeeper_server.restart)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert await anext(changes) is NodeChange.UNKNOWN
            assert (await store.get("/data")).data == b"kept"
            assert (await store.get("/mine")).stat.ephemeral_owner == session == store.session_id
            await store.put("/data", b"changed", 0)
            assert await anext(changes) is NodeChange.CHANGED

    run(main())


def test_a_watch_on_a_node_deleted_while_the_connection_was_away_says_look_again(zookeeper_server):
    async def main():
        async with (
            await open_store(zookeeper_server.url) as store,
            await open_store(zookeeper_server.url, session_timeout=SHORT_SESSION_S) as other,
        ):
            await other.create("/theirs", ephemeral=True)
            async with store.watch("/", children=True) as changes:
                zookeeper_server.kill()
                await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
                closing = asyncio.ensure_future(other.close())
                await asyncio.to_thread(zookeeper_server.restart)
                while await anext(changes) is not NodeChange.UNKNOWN:
                    continue
                await closing
                while "theirs" in await store.children("/"):
                    await anext(changes)

    run(main())


def test_a_read_issued_while_the_server_is_away_succeeds_when_it_is_back(zookeeper_server):
    async def main():
        async with await open_store(zookeeper_server.url, timeout=HANG_S) as store:
            await store.create("/data", b"kept")
            zookeeper_server.kill()
            reads = [asyncio.ensure_future(read) for read in (store.get("/data"), store.children("/"))]
            many = asyncio.ensure_future(store.get_many(["/data"] * 3))
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            await asyncio.to_thread(zookeeper_server.restart)
            node, names = await asyncio.gather(*reads)
            assert node.data == b"kept"
            assert names == ["data", "zookeeper"]
            assert [node.data for node in await many] == [b"kept"] * 3

    run(main())


def test_operations_without_a_server_end_in_time_and_say_where_it_was(zookeeper_server):
    async def main():
        async with await open_store(zookeeper_server.url) as store:
            await store.create("/data")
            zookeeper_server.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            with impatient(store):
                for attempt in (store.get("/data"), store.get_many(["/data"]), store.put("/data", b"", 0)):
                    with pytest.raises(StoreUnavailable, match=zookeeper_server.connect_string):
                        await attempt
                with pytest.raises(StoreUnavailable):
                    async with store.watch("/data"):
                        pass

    run(main())


def test_a_write_that_timed_out_before_it_was_sent_is_not_carried_out_later(zookeeper_server):
    async def main():
        async with await open_store(zookeeper_server.url) as store:
            await store.create("/data", b"kept")
            zookeeper_server.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            for late in (store.put("/data", b"late", 0), store.create("/late")):
                with impatient(store), pytest.raises(StoreUnavailable):
                    await late
            await asyncio.to_thread(zookeeper_server.restart)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert (await store.get("/data")).version == 0
            assert await store.exists("/late") is None

    run(main())


def test_a_write_to_a_frozen_server_is_reported_unknown_and_can_be_read_back(zookeeper_server):
    async def main():
        async with await open_store(zookeeper_server.url) as store:
            await store.create("/data", b"0")
            zookeeper_server.freeze()
            with impatient(store), pytest.raises(StoreUnavailable):
                await store.put("/data", b"1", 0)
            zookeeper_server.thaw()
            async with store.watch("/data") as changes:
                while (await store.get("/data")).data != b"1":
                    await anext(changes)

    run(main())


def test_closing_ends_also_when_the_server_does_not_answer(zookeeper_server):
    async def main():
        store = await open_store(zookeeper_server.url)
        zookeeper_server.freeze()
        reading = asyncio.ensure_future(store.get("/"))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await reading
        zookeeper_server.thaw()

    run(main())


def test_nobody_there_is_said_with_the_address(zookeeper_server):
    zookeeper_server.stop()

    async def main():
        for attempt in (open_store, open_reader):
            with pytest.raises(StoreUnavailable, match=f"no ZooKeeper answers at {zookeeper_server.connect_string}"):
                await attempt(zookeeper_server.url, timeout=0.3)

    run(main())


def test_a_frozen_server_is_as_good_as_nobody(zookeeper_server):
    zookeeper_server.freeze()

    async def main():
        with pytest.raises(StoreUnavailable, match="no ZooKeeper answers"):
            await open_store(zookeeper_server.url, timeout=0.3)

    run(main())


@pytest.mark.parametrize("security", [Security(), Security(digests=("me:secret",))])
def test_an_opening_given_up_as_soon_as_it_is_connected_leaves_no_session(shared_zookeeper, security):
    async def main():
        connection = ZooKeeperConnection(shared_zookeeper.connect_string, shared_zookeeper.url, 10.0, security)
        opening = asyncio.ensure_future(connection.open(HANG_S))
        connection.session.listen(lambda _: opening.cancel())
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert connection.session.state is SessionState.CLOSED
        while connection._client.connected:
            await asyncio.sleep(0.01)

    run(main())


def test_a_system_without_sockets_is_said_and_leaves_no_threads(monkeypatch):
    async def main():
        before = set(threading.enumerate())
        connection = ZooKeeperConnection("127.0.0.1:1", "zk://127.0.0.1:1", 10.0)
        monkeypatch.setattr(connection._handler, "create_socket_pair", no_more)
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1.*Too many open files"):
            await connection.open(HANG_S)
        while any("_thread_worker" in thread.name for thread in set(threading.enumerate()) - before):
            await asyncio.sleep(0.01)

    def no_more():
        raise OSError(errno.EMFILE, "Too many open files")

    run(main())


def test_a_server_that_takes_a_connection_and_never_answers_is_asked_again(shared_zookeeper):
    connections = 0

    async def silent_at_first(reader, writer):
        nonlocal connections
        connections += 1
        if connections == 1:
            await reader.read()
        else:
            server_reader, server_writer = await asyncio.open_connection(shared_zookeeper.host, shared_zookeeper.port)
            await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))
        writer.close()

    async def main():
        async with await asyncio.start_server(silent_at_first, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            async with await open_store(f"zk://{host}:{port}", session_timeout=8, timeout=HANG_S) as store:
                assert await store.exists("/") is not None
        assert connections >= 2

    run(main())


def test_one_server_of_the_ensemble_string_is_enough(zookeeper_server):
    async def main():
        url = f"zk://127.0.0.1:1,{zookeeper_server.connect_string}/cluster"
        async with await open_store(url, create_chroot=True) as store:
            assert store.url == url
            await store.create("/node")
        async with await open_reader(zookeeper_server.url) as reader:
            assert await reader.children("/cluster") == ["node"]

    run(main())


def test_a_missing_chroot_is_an_error_unless_it_is_to_be_created(metadata_url):
    async def main():
        url = f"{metadata_url}/deep/cluster"
        for attempt in (open_store, open_reader):
            with pytest.raises(NodeNotFound, match=r"has no node .*/deep/cluster"):
                await attempt(url)
        for _ in range(2):
            async with await open_store(url, create_chroot=True) as store:
                assert await store.children("/") == []
                await store.create("/node", ephemeral=True)
        async with await open_store(metadata_url) as above:
            assert await above.children("/deep") == ["cluster"]

    run(main())


def test_ephemeral_nodes_go_at_once_with_a_closed_session(metadata_url):
    async def main():
        async with await open_store(metadata_url, session_timeout=120) as store:
            await store.create("/mine", ephemeral=True)
        async with await open_reader(metadata_url) as reader, reader.watch("/mine") as changes:
            while await reader.exists("/mine") is not None:
                assert await anext(changes) is NodeChange.DELETED

    run(main(), timeout=100)  # by then the session would not have ended by itself
