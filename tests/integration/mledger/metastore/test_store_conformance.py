"""What every metadata store does: memory, RocksDB and ZooKeeper alike."""

import asyncio
import time

import pytest

from mledger.metastore.errors import (
    BadVersion,
    InvalidName,
    NoChildrenForEphemerals,
    NodeExists,
    NodeNotEmpty,
    NodeNotFound,
    NodeTooLarge,
    StoreClosed,
)
from mledger.metastore.store import (
    ANY_VERSION,
    MAX_REQUEST_BYTES,
    Check,
    Create,
    Delete,
    MetadataStore,
    Put,
    SessionState,
)
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.metadata.stores import with_store, with_two_stores


@with_store
async def test_a_created_node_has_its_data_and_a_fresh_stat(store):
    before = time.time() * 1000
    assert await store.create("/node", b"data") == "/node"
    node = await store.get("/node")
    assert node.data == b"data"
    assert (node.version, node.stat.num_children, node.stat.ephemeral_owner) == (0, 0, 0)
    assert before - 1000 <= node.stat.created_ms == node.stat.modified_ms
    assert await store.exists("/node") == node.stat


@with_store
async def test_a_node_is_created_once(store):
    await store.create("/node", b"first")
    with pytest.raises(NodeExists) as caught:
        await store.create("/node", b"second")
    assert caught.value.path == "/node"
    assert (await store.get("/node")).data == b"first"


@with_store
async def test_a_node_needs_its_parent(store):
    with pytest.raises(NodeNotFound) as caught:
        await store.create("/parent/child")
    assert caught.value.path == "/parent/child"
    assert await store.exists("/parent") is None


@with_store
async def test_missing_ancestors_are_created_when_asked_for(store):
    await store.create("/a", b"kept")
    assert await store.create("/a/b/c/d", b"data", parents=True) == "/a/b/c/d"
    assert await store.create("/e", parents=True) == "/e"
    assert (await store.get("/a")).data == b"kept"
    assert (await store.get("/a/b/c")).data == b""
    with pytest.raises(NodeExists):
        await store.create("/a/b/c/d", parents=True)


@with_store
async def test_a_missing_node_is_distinguished(store):
    assert await store.exists("/none") is None
    for attempt in (store.get, store.children, store.delete):
        with pytest.raises(NodeNotFound) as caught:
            await attempt("/none")
        assert caught.value.path == "/none"


@with_store
async def test_put_is_a_compare_and_set(store):
    await store.create("/node", b"0")
    assert await store.put("/node", b"1", 0) == 1
    with pytest.raises(BadVersion) as caught:
        await store.put("/node", b"2", 0)
    assert caught.value.path == "/node"
    node = await store.get("/node")
    assert (node.data, node.version) == (b"1", 1)
    assert await store.put("/node", b"", ANY_VERSION) == 2
    assert (await store.get("/node")).data == b""
    with pytest.raises(NodeNotFound):
        await store.put("/none", b"", 0)


@with_store
async def test_delete_honours_version_and_children(store):
    await store.create("/node/child", parents=True)
    with pytest.raises(BadVersion):
        await store.delete("/node", 1)
    with pytest.raises(NodeNotEmpty) as caught:
        await store.delete("/node", 0)
    assert caught.value.path == "/node"
    await store.delete("/node/child")
    await store.delete("/node", 0)
    assert await store.exists("/node") is None


@with_store
async def test_a_node_created_again_starts_at_version_0(store):
    await store.create("/node")
    await store.put("/node", b"1", 0)
    await store.delete("/node")
    await store.create("/node")
    assert (await store.get("/node")).version == 0


@with_store
async def test_children_are_names_in_order(store):
    for name in ("b", "a", "c"):
        await store.create(f"/parent/{name}", parents=True)
    await store.create("/parent/a/below")
    assert await store.children("/parent") == ["a", "b", "c"]
    assert (await store.exists("/parent")).num_children == 3
    assert await store.children("/parent/b") == []


@with_store
async def test_the_root_exists_and_stays(store):
    assert await store.children("/") == []
    await store.put("/", b"data", (await store.get("/")).version)
    assert (await store.get("/")).data == b"data"
    for attempt in (store.create, store.delete):
        with pytest.raises(InvalidName):
            await attempt("/")


@with_store
async def test_sequential_nodes_are_numbered_by_all_children_their_parent_ever_had(store):
    await store.create("/ids")
    assert await store.create("/ids/ID-", sequential=True) == "/ids/ID-0000000000"
    await store.delete("/ids/ID-0000000000")
    await store.create("/ids/other")
    assert await store.create("/ids/ID-", sequential=True, ephemeral=True) == "/ids/ID-0000000002"
    await store.create("/more")
    assert await store.create("/more/ID-", sequential=True) == "/more/ID-0000000000"


@with_two_stores
async def test_concurrent_sequential_creations_each_get_a_number_of_their_own(one, other):
    await one.create("/ids")
    paths = await asyncio.gather(
        *(store.create("/ids/n", sequential=True) for store in (one, other) for _ in range(50))
    )
    assert sorted(paths) == [f"/ids/n{number:010d}" for number in range(100)]


@with_two_stores
async def test_ephemeral_nodes_vanish_with_their_session(one, other):
    await one.create("/parent")
    await one.create("/parent/mine", b"data", ephemeral=True)
    await other.create("/parent/theirs", ephemeral=True)
    assert one.session_id != other.session_id
    assert (await other.get("/parent/mine")).stat.ephemeral_owner == one.session_id
    with pytest.raises(NoChildrenForEphemerals) as caught:
        await other.create("/parent/mine/child")
    assert caught.value.path == "/parent/mine/child"
    await one.close()
    assert await other.children("/parent") == ["theirs"]


@with_store
async def test_get_many_keeps_order_and_returns_none_for_missing_nodes(store):
    await store.create("/a", b"1")
    await store.create("/b", b"2")
    found = await store.get_many(["/b", "/none", "/a", "/b"])
    assert [node and node.data for node in found] == [b"2", None, b"1", b"2"]
    assert found[0] == await store.get("/b")
    assert await store.get_many([]) == []


@with_store
async def test_children_many_keeps_order_and_returns_none_for_missing_nodes(store):
    for path in ("/a/2", "/a/1", "/b"):
        await store.create(path, parents=True)
    assert await store.children_many(["/b", "/none", "/a", "/"]) == [[], None, ["1", "2"], ["a", "b"]]
    assert await store.children_many([]) == []


@with_store
async def test_thousands_of_nodes_are_read_in_order(store):
    count = 3000
    await store.multi([Create(f"/n{number}", b"%d" % number) for number in range(count)])
    paths = [f"/n{number}" for number in range(count - 1, -1, -1)]
    assert [int(node.data) for node in await store.get_many(paths)] == list(range(count - 1, -1, -1))


@with_store
async def test_multi_returns_the_result_of_each_operation(store):
    await store.create("/there", b"0")
    results = await store.multi(
        [
            Create("/new", b"data"),
            Create("/new/n", sequential=True),
            Check("/there", 0),
            Put("/there", b"1", 0),
            Put("/there", b"2", 1),
            Delete("/new/n0000000000", 0),
        ]
    )
    assert results == ["/new", "/new/n0000000000", None, 1, 2, None]
    assert (await store.get("/there")).data == b"2"
    assert await store.children("/new") == []
    assert await store.multi([]) == []


@pytest.mark.parametrize(
    ("failing", "error", "path"),
    [
        (Create("/there"), NodeExists, "/there"),
        (Create("/none/child"), NodeNotFound, "/none/child"),
        (Put("/there", b"", 7), BadVersion, "/there"),
        (Put("/none", b"", 0), NodeNotFound, "/none"),
        (Delete("/there", 7), BadVersion, "/there"),
        (Delete("/full"), NodeNotEmpty, "/full"),
        (Check("/there", 7), BadVersion, "/there"),
        (Check("/none", 0), NodeNotFound, "/none"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Create | Put | Delete | Check) else None,
)
def test_multi_does_all_or_nothing(any_metadata_url, failing, error, path):
    async def main():
        async with await open_store(any_metadata_url) as store:
            await store.create("/there", b"kept")
            await store.create("/full/child", parents=True)
            with pytest.raises(error) as caught:
                await store.multi(
                    [Create("/n", sequential=True), Put("/there", b"lost", 0), Delete("/full/child"), Create("/full/b")]
                    + ([Create("/full/c")] if path == "/full" else [])
                    + ([Put("/there", b"again", 1), failing, Create("/later")])
                )
            assert caught.value.path == path
            assert await store.children("/") == ["full", "there"]
            assert await store.children("/full") == ["child"]
            node = await store.get("/there")
            assert (node.data, node.version) == (b"kept", 0)
            assert await store.create("/n", sequential=True) == "/n0000000002"

    run(main())


@with_two_stores
async def test_compare_and_set_loses_no_update(one, other):
    async def add(store, times):
        for _ in range(times):
            while True:
                node = await store.get("/sum")
                try:
                    await store.put("/sum", b"%d" % (int(node.data) + 1), node.version)
                    break
                except BadVersion:
                    pass

    await one.create("/sum", b"0")
    await asyncio.gather(*(add(store, 20) for store in (one, other, one, other)))
    assert (await one.get("/sum")).data == b"80"


@with_store
async def test_many_concurrent_operations_all_get_their_answers(store):
    await store.create("/n")
    await asyncio.gather(*(store.create(f"/n/{number}", b"%d" % number) for number in range(1500)))
    assert len(await store.children("/n")) == 1500
    nodes = await asyncio.gather(*(store.get(f"/n/{number}") for number in range(1500)))
    assert [int(node.data) for node in nodes] == list(range(1500))


@pytest.mark.parametrize(
    "path", ["", "node", "/node/", "//node", "/a//b", "/./a", "/a/..", "/a\x00b", "/a\nb", "/\ud800"]
)
def test_an_impossible_path_is_refused(any_metadata_url, path):
    async def main():
        async with await open_store(any_metadata_url) as store:
            for attempt in (store.get, store.exists, store.children, store.create, store.delete):
                with pytest.raises(InvalidName):
                    await attempt(path)
            with pytest.raises(InvalidName):
                await store.get_many(["/", path])
            with pytest.raises(InvalidName):
                async with store.watch(path):
                    pass
            assert await store.children("/") == []

    run(main())


@with_store
async def test_names_of_topics_and_cursors_are_names_of_nodes(store):
    for name in ("persistent%3A%2F%2Ftopic", "10.0.0.1:3181", "a.b-c_d*e+f", "ünïcode-名前", "...", ".a"):
        path = await store.create(f"/{name}", name.encode())
        assert (await store.get(path)).data == name.encode()
        assert name in await store.children("/")


@with_store
async def test_a_write_over_the_limit_is_refused_and_nothing_is_written(store):
    await store.create("/node", b"kept")
    for attempt in (
        store.put("/node", bytes(MAX_REQUEST_BYTES + 1), 0),
        store.create("/other", bytes(MAX_REQUEST_BYTES + 1)),
        store.multi([Create(f"/n{number}", bytes(MAX_REQUEST_BYTES // 10)) for number in range(11)]),
    ):
        with pytest.raises(NodeTooLarge, match=r"\d+ bytes"):
            await attempt
    assert await store.children("/") == ["node"]
    assert (await store.get("/node")).version == 0
    await store.put("/node", bytes(1_048_000), 0)
    assert len((await store.get("/node")).data) == 1_048_000


@with_store
async def test_a_closed_store_refuses_everything(store):
    assert store.session_state is SessionState.CONNECTED
    await store.close()
    await store.close()
    assert store.session_state is SessionState.CLOSED
    await store.wait_for_session(SessionState.CLOSED, timeout=1)
    for attempt in (
        store.get("/"),
        store.get_many(["/"]),
        store.exists("/"),
        store.children("/"),
        store.children_many(["/"]),
        store.create("/node"),
        store.put("/", b"", ANY_VERSION),
        store.delete("/node"),
        store.multi([Create("/node")]),
    ):
        with pytest.raises(StoreClosed):
            await attempt
    with pytest.raises(StoreClosed):
        async with store.watch("/"):
            pass


@with_store
async def test_waiting_for_a_state_that_never_comes_times_out(store):
    await store.wait_for_session(SessionState.CONNECTED, timeout=1)
    with pytest.raises(TimeoutError):
        await store.wait_for_session(SessionState.EXPIRED, timeout=0.01)


def test_a_reader_sees_everything_and_has_no_method_that_writes(any_metadata_url):
    async def main():
        async with await open_store(any_metadata_url) as store, await open_reader(any_metadata_url) as reader:
            await store.create("/node", b"data")
            assert (await reader.get("/node")).data == b"data"
            assert await reader.children("/") == ["node"]
            assert reader.url == store.url == any_metadata_url
            assert not isinstance(reader, MetadataStore)
            assert not {"create", "put", "delete", "multi"} & set(dir(reader))

    run(main())


@with_two_stores
async def test_after_a_sync_another_s_write_is_read(one, other):
    await one.create("/node", b"0")
    before = await other.exists("/")
    await other.sync()
    assert (await other.get("/node")).data == b"0"
    assert (await other.exists("/")).version == before.version


@with_store
async def test_syncing_a_closed_store_is_an_error(store):
    await store.close()
    with pytest.raises(StoreClosed):
        await store.sync()
