"""A real ZooKeeper tells of every change in a tree, before a sync that follows it is answered."""

import asyncio
import threading

from kazoo.client import KazooClient
from kazoo.protocol.states import Callback
from kazoo.security import make_acl, make_digest_acl

from mledger.metastore.store import Create, Delete, Put
from mledger.metastore.url import open_reader, open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.aio import HANG_S, run
from tests.support.metadata.held_answers import held_answers
from tests.support.zookeeper.old_server import ADD_WATCH, server_without_multiread


class ToldPaths:
    """What a tree's watch has told."""

    def __init__(self):
        self.paths, self.lost = [], asyncio.Event()

    async def watch(self, reader, path="/tree"):
        return await reader.watch_tree(path, self.paths.append, self.lost.set)

    async def after(self, reader):
        """What has been told up to now."""
        await reader.sync()
        found = self.paths[:]
        self.paths.clear()
        return found


def test_each_change_is_told_before_the_answer_to_a_sync(metadata_url):
    async def main():
        async with await open_store(metadata_url) as store, await open_reader(metadata_url) as reader:
            told = ToldPaths()
            assert await told.watch(reader)
            for number in range(100):
                await store.create(f"/tree/{number}", parents=True)
                await store.create(f"/treetop-{number}")
                expected = ["/tree", "/tree/0"] if number == 0 else [f"/tree/{number}"]
                assert await told.after(reader) == expected
            await store.multi([Put("/tree/1", b"1", 0), Create("/tree/1/c"), Delete("/tree/2")])
            assert await told.after(reader) == ["/tree/1", "/tree/1/c", "/tree/2"]
            await store.put("/tree", b"", 0)
            assert await told.after(reader) == ["/tree"]

    run(main())


def test_a_change_is_told_in_order_though_kazoo_s_thread_for_events_is_busy(metadata_url):
    async def main():
        done = threading.Event()
        async with await open_store(metadata_url) as store, await open_reader(metadata_url) as reader:
            told = ToldPaths()
            await told.watch(reader)
            reader._connection._handler.dispatch_callback(Callback("watch", done.wait, ()))
            await store.create("/tree")
            assert await told.after(reader) == ["/tree"]
            done.set()

    run(main())


def test_reads_and_other_watches_go_on_beside_it(metadata_url):
    async def main():
        async with await open_store(metadata_url) as store, await open_reader(metadata_url) as reader:
            await store.create("/tree")
            told = ToldPaths()
            await told.watch(reader)
            async with reader.watch("/tree", children=True) as children, reader.watch("/tree") as changes:
                for number in range(3):
                    await store.create(f"/tree/{number}")
                    await anext(children)
                    await store.put("/tree", b"", number)
                    await anext(changes)
            assert set(await told.after(reader)) == {"/tree", "/tree/0", "/tree/1", "/tree/2"}

    run(main())


def test_a_lost_connection_ends_it_and_it_can_be_set_again(metadata_url):
    async def main():
        with held_answers(metadata_url) as held:
            async with await open_store(metadata_url) as store, await open_reader(held.url) as reader:
                told, again = ToldPaths(), ToldPaths()
                assert await told.watch(reader)
                held.cut()
                await told.lost.wait()
                held.release()
                await store.create("/tree")
                assert await again.watch(reader)
                await store.create("/tree/a")
                assert await again.after(reader) == ["/tree/a"]
                assert told.paths == []
            assert again.lost.is_set()

    run(main())


def test_a_server_before_3_6_has_none_and_is_asked_once(shared_zookeeper):
    async def main():
        async with server_without_multiread(shared_zookeeper.host, shared_zookeeper.port) as (address, operations):
            async with await open_reader(f"zk://{address}") as reader:
                assert not await ToldPaths().watch(reader)
                assert not await ToldPaths().watch(reader)
                assert await reader.children("/") is not None
            assert operations.count(ADD_WATCH) == 1

    run(main())


def test_a_server_whose_watch_manager_has_none_is_no_error(tmp_path):
    manager = {"watchManagerName": "org.apache.zookeeper.server.watch.WatchManagerOptimized"}

    async def main(url):
        async with await open_reader(url) as reader:
            assert not await ToldPaths().watch(reader)
            assert await reader.children("/") is not None

    with ZooKeeperServer.start(tmp_path / "zookeeper", sync=False, settings=manager) as server:
        run(main(server.url))


def test_nodes_that_may_not_be_read_are_not_told(shared_zookeeper, metadata_url):
    chroot = metadata_url.removeprefix(shared_zookeeper.url)
    client = KazooClient(shared_zookeeper.connect_string + chroot, auth_data=[("digest", "owner:password")])
    client.start(timeout=HANG_S)

    async def main():
        async with await open_reader(metadata_url) as reader:
            told = ToldPaths()
            await told.watch(reader)
            client.create("/tree")
            client.create("/tree/secret", acl=[make_digest_acl("owner", "password", all=True)])
            client.set("/tree/secret", b"1")
            client.create("/tree/open", acl=[make_acl("world", "anyone", all=True)])
            client.set_acls("/tree/open", [make_digest_acl("owner", "password", all=True)])
            assert await told.after(reader) == ["/tree", "/tree/open"]

    run(main())
    client.stop()
    client.close()
