"""The ZooKeeper store's requests: few, none that older servers do not know, and none that ACLs forbid."""

import asyncio
import re

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

from mledger.metastore.errors import MetadataAccessDenied
from mledger.metastore.store import Create
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import HANG_S, run
from tests.support.zookeeper.old_server import MULTI_READ, server_without_multiread

GET_DATA = 4


def packets_received(server):
    return int(re.search(r"zk_packets_received\s+(\d+)", server.command("mntr"))[1])


def test_ten_thousand_nodes_are_read_in_few_requests(zookeeper_server):
    count = 10_000

    async def main():
        async with await open_store(zookeeper_server.url, session_timeout=10) as store:
            paths = [f"/node-{number}" for number in range(count)]
            for start in range(0, count, 1000):
                await store.multi([Create(path, path.encode()) for path in paths[start : start + 1000]])
            before = packets_received(zookeeper_server)
            nodes = await store.get_many(paths)
            requests = packets_received(zookeeper_server) - before
            assert [node.data.decode() for node in nodes] == paths
            before = packets_received(zookeeper_server)
            assert await store.children_many(paths) == [[]] * count
            requests += packets_received(zookeeper_server) - before
            assert requests < 100

    run(main())


def test_large_nodes_are_read_without_exhausting_the_server(zookeeper_server):
    count, size = 60, 500_000

    async def main():
        async with await open_store(zookeeper_server.url) as store:
            paths = [f"/node-{number}" for number in range(count)]
            for number, path in enumerate(paths):
                await store.create(path, bytes([number]) * size)
            nodes = await store.get_many(paths * 4)
            assert [node.data[0] for node in nodes] == [*range(count)] * 4
            assert all(len(node.data) == size for node in nodes)

    run(main())


def test_a_server_without_multiread_is_read_node_by_node(shared_zookeeper, metadata_url):
    chroot = metadata_url.removeprefix(shared_zookeeper.url)

    async def main():
        async with server_without_multiread(shared_zookeeper.host, shared_zookeeper.port) as (address, operations):
            async with await open_store(f"zk://{address}{chroot}") as store:
                paths = [f"/node-{number}" for number in range(300)]
                await store.multi([Create(path, path.encode()) for path in paths])
                nodes = await store.get_many([*paths, "/none"])
                assert [node and node.data.decode() for node in nodes] == [*paths, None]
                assert await store.children_many(["/", "/none", "/node-1"]) == [sorted(p[1:] for p in paths), None, []]
                assert await store.create("/a/b/c", parents=True) == "/a/b/c"
            assert operations.count(MULTI_READ) == 1
            assert operations.count(GET_DATA) >= len(paths)

    run(main())


@pytest.fixture
def guarded(shared_zookeeper, metadata_url):
    """A chroot with a node that everybody may read, and one that only its owner may."""
    chroot = metadata_url.removeprefix(shared_zookeeper.url)
    client = KazooClient(shared_zookeeper.connect_string + chroot)
    client.start(timeout=HANG_S)
    client.create("/readable", b"data", acl=[make_acl("world", "anyone", read=True)])
    client.create("/secret", b"data", acl=[make_digest_acl("owner", "password", all=True)])
    client.set_acls("/", [make_acl("world", "anyone", read=True)])
    yield metadata_url
    client.stop()
    client.close()


def test_reading_works_under_a_read_only_acl(guarded):
    async def main():
        async with await open_reader(guarded) as reader, reader.watch("/readable"):
            assert (await reader.get("/readable")).data == b"data"
            assert [node.data for node in await reader.get_many(["/readable"])] == [b"data"]
            assert await reader.children("/") == ["readable", "secret"]

    run(main())


def test_what_the_acl_forbids_is_refused_with_its_path(guarded):
    async def main():
        async with await open_store(guarded) as store:
            for attempt, path in (
                (store.put("/readable", b"", 0), "/readable"),
                (store.delete("/readable"), "/readable"),
                (store.create("/new"), "/new"),
                (store.get("/secret"), "/secret"),
                (store.get_many(["/readable", "/secret"]), "/secret"),
                (store.multi([Create("/new")]), "/new"),
            ):
                with pytest.raises(MetadataAccessDenied) as caught:
                    await attempt
                assert caught.value.path == path
            assert (await store.get("/readable")).version == 0

    run(main())


def test_a_cancelled_operation_leaves_the_connection_intact(metadata_url):
    async def main():
        async with await open_store(metadata_url) as store:
            tasks = [asyncio.ensure_future(store.create(f"/n{number}")) for number in range(400)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in done[::2])
            assert done[1::2] == [f"/n{number}" for number in range(1, 400, 2)]
            assert await store.exists("/n399") is not None

    run(main())
