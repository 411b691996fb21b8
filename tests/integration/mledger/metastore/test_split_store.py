"""Topics in one metadata store and BookKeeper's ledgers in another, below a root of their own."""

import asyncio

import pytest

from mledger import ManagedLedgerConfig, open_cluster
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.errors import (
    BadVersion,
    MetadataAccessDenied,
    MetadataError,
    NodeExists,
    NodeNotFound,
    StoreUnavailable,
)
from mledger.metastore.store import Check, Create, Delete, MetadataStore, NodeChange, Put, SessionState
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import HANG_S, run
from tests.support.bookies.processes import SMALL, BookieProcesses
from tests.support.metadata.stores import impatient

ROOT = "/bk/own-ledgers"


@pytest.fixture
def urls(rocksdb_url, metadata_url):
    """The URLs of both together, of the topics' store, and of BookKeeper's."""

    async def main():
        async with await open_store(metadata_url) as bookkeeper:
            await initialize(bookkeeper, ROOT)
            await bookkeeper.create(f"{ROOT}/dir")

    run(main())
    return f"{rocksdb_url}?ledgers={metadata_url}{ROOT}", rocksdb_url, metadata_url


def with_stores(test):
    """Turn a coroutine function into a test with the joined store, the topics' and BookKeeper's."""

    def call(urls):
        async def main():
            joined, topics, ledgers = urls
            async with (
                await open_store(joined) as store,
                await open_store(topics) as one,
                await open_store(ledgers) as other,
            ):
                assert store.url == joined
                await test(store, one, other)

        run(main())

    return call


async def nodes_of(one, other):
    return await one.children("/"), await other.children(f"{ROOT}/dir")


@with_stores
async def test_ledgers_are_in_bookkeepers_store_and_the_rest_in_the_topics(store, one, other):
    await store.create("/ledgers/dir/L1", b"ledger")
    await store.create("/managed-ledgers/t", b"topic", parents=True)
    assert (await other.get(f"{ROOT}/dir/L1")).data == b"ledger"
    assert (await one.get("/managed-ledgers/t")).data == b"topic"
    assert await one.exists("/ledgers") is None
    assert await store.children("/") == ["ledgers", "managed-ledgers"]
    assert await store.children("/ledgers/dir") == ["L1"]
    found = await store.get_many(["/managed-ledgers/t", "/ledgers/dir/L1", "/none", "/ledgers/none"])
    assert [node and node.data for node in found] == [b"topic", b"ledger", None, None]
    assert await store.children_many(["/ledgers/dir", "/none", "/managed-ledgers"]) == [["L1"], None, ["t"]]
    assert await store.put("/ledgers/dir/L1", b"1", 0) == 1
    assert (await store.exists("/ledgers/dir/L1")).version == 1
    await store.delete("/ledgers/dir/L1", 1)
    assert await store.create("/ledgers/dir/ID-", sequential=True) == "/ledgers/dir/ID-0000000001"


@with_stores
async def test_ephemeral_nodes_in_either_store_belong_to_the_session(store, one, other):
    for path in ("/mine", "/ledgers/dir/mine"):
        await store.create(path, ephemeral=True)
        assert (await store.exists(path)).ephemeral_owner == store.owner_at(path)


@with_stores
async def test_errors_name_the_requested_paths(store, one, other):
    for attempt in (store.get, store.children, store.delete):
        with pytest.raises(NodeNotFound) as caught:
            await attempt("/ledgers/none")
        assert caught.value.path == "/ledgers/none"
    with pytest.raises(NodeExists) as caught:
        await store.create("/ledgers/dir")
    assert caught.value.path == "/ledgers/dir"


@with_stores
async def test_watches_work_in_either_store(store, one, other):
    async with store.watch("/ledgers/dir", children=True) as ledgers, store.watch("/topic") as topic:
        await other.create(f"{ROOT}/dir/L1")
        assert await anext(ledgers) is NodeChange.CHILDREN
        await one.create("/topic")
        assert await anext(topic) is NodeChange.CREATED


@with_stores
async def test_a_multi_in_one_store_is_atomic(store, one, other):
    assert await store.multi([Create("/ledgers/dir/a"), Put("/ledgers/dir/a", b"1", 0)]) == ["/ledgers/dir/a", 1]
    with pytest.raises(BadVersion):
        await store.multi([Create("/x"), Check("/", 99)])
    assert await nodes_of(one, other) == ([], ["a"])
    assert await store.multi([]) == []


@with_stores
async def test_a_ledger_and_its_record_are_created_together(store, one, other):
    assert await store.multi([Create("/ledgers/dir/L1"), Create("/p1", b"mine")]) == ["/ledgers/dir/L1", "/p1"]
    assert await nodes_of(one, other) == (["p1"], ["L1"])


@with_stores
async def test_a_refused_ledger_withdraws_its_record(store, one, other):
    for operation, error in ((Create("/ledgers/dir"), NodeExists), (Create("/ledgers/none/L1"), NodeNotFound)):
        with pytest.raises(error) as caught:
            await store.multi([operation, Create("/p1", b"mine")])
        assert caught.value.path == operation.path
        assert await one.children("/") == []


@with_stores
async def test_a_refused_record_leaves_no_ledger(store, one, other):
    await one.create("/p1", b"another's")
    with pytest.raises(NodeExists):
        await store.multi([Create("/ledgers/dir/L1"), Create("/p1", b"mine")])
    assert await nodes_of(one, other) == (["p1"], [])


@with_stores
async def test_a_record_from_an_earlier_attempt_is_taken_for_ours_and_stays(store, one, other):
    await one.create("/p1", b"mine")
    with pytest.raises(NodeExists):
        await store.multi([Create("/ledgers/dir"), Create("/p1", b"mine")])
    assert await one.children("/") == ["p1"]
    await store.multi([Create("/ledgers/dir/L1"), Create("/p1", b"mine")])
    assert await nodes_of(one, other) == (["p1"], ["L1"])


@pytest.mark.parametrize("operation", [Put("/", b"", 0), Delete("/a"), Check("/", 0), Create("/n", sequential=True)])
def test_what_two_stores_cannot_make_atomic_is_refused_before_anything_is_written(urls, operation):
    async def main():
        joined, topics, ledgers = urls
        async with (
            await open_store(joined) as store,
            await open_store(topics) as one,
            await open_store(ledgers) as other,
        ):
            with pytest.raises(MetadataError, match="two metadata stores"):
                await store.multi([Create("/ledgers/dir/L1"), operation])
            assert await nodes_of(one, other) == ([], [])

    run(main())


def test_a_ledger_whose_store_goes_away_leaves_its_record(metadata_process, rocksdb_url):
    async def main():
        async with await open_store(metadata_process.url) as other:
            await initialize(other)
        url = f"{rocksdb_url}?ledgers={metadata_process.url}"
        async with await open_store(url) as store, await open_store(rocksdb_url) as one:
            metadata_process.kill()
            with pytest.raises(TimeoutError):
                await store.wait_for_session(SessionState.CLOSED, 0.01)
            await store.wait_for_session(SessionState.SUSPENDED, HANG_S)
            assert store.session_state is SessionState.SUSPENDED
            with impatient(store._ledgers), pytest.raises(StoreUnavailable):
                await store.multi([Create("/ledgers/L1"), Create("/p1", b"mine")])
            assert await one.children("/") == ["p1"]
            await asyncio.to_thread(metadata_process.start)
            await store.wait_for_session(SessionState.CONNECTED, HANG_S)
            await store.multi([Create("/ledgers/L1"), Create("/p1", b"mine")])
            assert await store.exists("/ledgers/L1") is not None
        assert store.session_state is SessionState.CLOSED

    run(main())


def test_a_reader_of_both_cannot_write(urls):
    async def main():
        async with await open_reader(urls[0]) as reader:
            assert await reader.children("/ledgers/dir") == []
            assert await reader.children("/") == ["ledgers"]
            assert not isinstance(reader, MetadataStore)
            assert not {"create", "put", "delete", "multi"} & set(dir(reader))

    run(main())


def test_if_one_store_is_down_no_session_with_the_other_is_left(rocksdb_url, tmp_path):
    async def main():
        for url in (f"{rocksdb_url}?ledgers=rocksdb:{tmp_path}/none", f"rocksdb:{tmp_path}/none?ledgers={rocksdb_url}"):
            for attempt in (open_store, open_reader):
                with pytest.raises(StoreUnavailable, match=f"{tmp_path}/none"):
                    await attempt(url, timeout=0.2)

    run(main())


def test_another_s_node_is_not_taken_for_ours_during_the_creation_of_a_ledger(urls):
    async def main():
        async with open_cluster(urls[0]) as cluster:
            store = cluster.metadata
            await store.create("/here", b"same")
            return await asyncio.gather(
                store.create("/here", b"same"), store.create("/ledgers/dir/L1", b"ledger"), return_exceptions=True
            )

    again, ledger = run(main())
    assert isinstance(again, NodeExists)
    assert ledger == "/ledgers/dir/L1"


def test_a_topic_lives_in_both_from_its_first_ledger_to_its_last(urls, tmp_path):
    joined, topics, ledgers = urls
    bookies = BookieProcesses(ledgers, tmp_path / "bookies", (*SMALL, "--ledgers-root", ROOT))
    config = ManagedLedgerConfig(
        ensemble_size=1,
        write_quorum_size=1,
        ack_quorum_size=1,
        max_entries_per_ledger=2,
        minimum_rollover_time_ms=0,
    )

    async def listed(store, path):
        return [name for name in await store.children(path) if name != "readonly"]

    async def main():
        name = "persistent://t/ns/topic"
        async with open_cluster(joined, config=config) as cluster:
            topic = await cluster.create_topic(name)
            cursor = await topic.open_cursor("c", initial="earliest")
            for number in range(7):
                await topic.add(b"%d" % number)
            await cursor.acknowledge([entry.position for entry in await cursor.read(3)])
            await topic.trim()
        async with await open_store(topics) as one:  # an owner that died before it created the ledger
            await one.create("/mledger/pending/999", b"t/ns/persistent/topic")
        async with open_cluster(joined, config=config) as cluster:
            topic = await cluster.open_topic(name)
            cursor = await topic.open_cursor("c")
            assert [entry.payload for entry in await cursor.read(10)] == [b"3", b"4", b"5", b"6"]
            await topic.close()
            async with await open_store(topics) as one, await open_store(ledgers) as other:
                assert await listed(one, "/mledger/pending") == []
                assert await one.exists("/ledgers") is None
                assert len(await listed(other, f"{ROOT}/00/0000")) >= 2
            await cluster.delete_topic(name)
        async with await open_store(topics) as one, await open_store(ledgers) as other:
            assert await other.exists(f"{ROOT}/00") is None
            assert await listed(one, "/mledger/deletions") == await listed(one, "/mledger/pending") == []

    bookies.start(1)
    try:
        run(main())
    finally:
        bookies.close()


def test_changes_of_topics_are_told_and_those_of_ledgers_are_not(metadata_url, rocksdb_url):
    async def main():
        async with await open_store(f"{metadata_url}?ledgers={rocksdb_url}") as store:
            told = []
            assert await store.watch_tree("/managed-ledgers", told.append, lambda: None)
            assert not await store.watch_tree("/ledgers", told.append, lambda: None)
            assert not await store.watch_tree("/", told.append, lambda: None)
            await store.create("/managed-ledgers/t", parents=True)
            await store.create("/ledgers/L1", parents=True)
            await store.sync()
            assert told == ["/managed-ledgers", "/managed-ledgers/t"]

    run(main())


@with_stores
async def test_closed_ledgers_are_named_as_they_were_asked_for(store, one, other):
    await other.multi([Create(f"{ROOT}/dir/L1", acl=("digest:owner:hash:cdrwa",))])
    with pytest.raises(MetadataAccessDenied) as caught:
        await store.get_many(["/ledgers/dir/L1"])
    assert (caught.value.path, caught.value.closed) == ("/ledgers/dir/L1", {"/ledgers/dir/L1"})
