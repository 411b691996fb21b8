"""Opening a ZooKeeper store, and the end of its session."""

import asyncio
import errno
import threading

import pytest

from mledger.metastore.errors import NodeNotFound, StoreUnavailable
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.url import open_reader, open_store
from mledger.metastore.zookeeper.connection import ZooKeeperConnection
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.metastore.zookeeper.security import Security
from tests.support.aio import HANG_S, run
from tests.support.zookeeper.old_server import copy
from tests.support.zookeeper.server import SHORT_SESSION_S


def test_a_watch_on_a_node_deleted_while_the_connection_was_lost_says_look_again(zookeeper_server):
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


def test_the_error_without_a_server_names_the_address(zookeeper_server):
    zookeeper_server.stop()

    async def main():
        for attempt in (open_store, open_reader):
            with pytest.raises(StoreUnavailable, match=f"no ZooKeeper answers at {zookeeper_server.connect_string}"):
                await attempt(zookeeper_server.url, timeout=0.3)

    run(main())


@pytest.mark.parametrize("security", [Security(), Security(digests=("me:secret",))])
def test_an_opening_cancelled_as_soon_as_it_is_connected_leaves_no_session(shared_zookeeper, security):
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


def test_a_system_without_sockets_is_an_error_and_leaves_no_threads(monkeypatch):
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


def silent_at(nth, server, writers):
    """A handler that passes connections on to `server`, but never answers the `nth`; `writers` gets all of them."""

    async def handle(reader, writer):
        writers.append(writer)
        if len(writers) == nth:
            await reader.read()
        else:
            server_reader, server_writer = await asyncio.open_connection(server.host, server.port)
            await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))
        writer.close()

    return handle


def test_a_server_that_accepts_a_connection_and_never_answers_is_asked_again(shared_zookeeper):
    writers = []

    async def main():
        async with await asyncio.start_server(silent_at(1, shared_zookeeper, writers), "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            async with await open_store(f"zk://{host}:{port}", session_timeout=8, timeout=HANG_S) as store:
                assert await store.exists("/") is not None
        assert len(writers) >= 2

    run(main())


def test_a_silent_server_does_not_cost_a_session_that_is_shorter_than_was_asked_for(tmp_path):
    writers = []

    async def main():
        async with await asyncio.start_server(silent_at(2, server, writers), "127.0.0.1", 0) as gate:
            host, port = gate.sockets[0].getsockname()
            async with await open_store(f"zk://{host}:{port}", session_timeout=600, timeout=HANG_S) as store:
                await store.create("/mine", ephemeral=True)
                writers[0].transport.abort()
                assert (await store.exists("/mine")).ephemeral_owner == store.session_id
        assert len(writers) >= 3

    with ZooKeeperServer.start(tmp_path / "zookeeper", sync=False, settings={"maxSessionTimeout": "20000"}) as server:
        run(main())


def test_one_server_of_the_connect_string_is_enough(zookeeper_server):
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


def test_ephemeral_nodes_vanish_at_once_with_a_closed_session(metadata_url):
    async def main():
        async with await open_store(metadata_url, session_timeout=120) as store:
            await store.create("/mine", ephemeral=True)
        async with await open_reader(metadata_url) as reader, reader.watch("/mine") as changes:
            while await reader.exists("/mine") is not None:
                assert await anext(changes) is NodeChange.DELETED

    run(main(), timeout=100)  # by then the session would not have ended by itself
