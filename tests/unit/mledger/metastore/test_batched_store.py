"""Requests of one turn of the loop are sent together, and each has the effect it has alone."""

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.batched_store import MOST_BYTES, MOST_OPERATIONS, BatchedStore, plan_multis
from mledger.metastore.errors import BadVersion, MetadataError, NodeExists, NodeNotFound, StoreUnavailable
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.store import Check, Create, Delete, Put
from mledger.metastore.url import open_store
from tests.support.aio import run

_names = itertools.count(1)


class Recorded:
    """Every request that reached a store, by name."""

    def __init__(self, store, monkeypatch):
        self.requests = []
        for name in ("get_many", "children_many", "multi", "put", "create", "delete"):
            monkeypatch.setattr(store, name, self._recording(name, getattr(store, name)))

    def _recording(self, name, call):
        async def recorded(*args, **kwargs):
            self.requests.append(name)
            return await call(*args, **kwargs)

        return recorded


def with_gathered(test):
    """Turn a coroutine function into a test with a batched store in memory and the requests that reach it."""

    def call(monkeypatch):
        async def main():
            async with await open_store(f"memory:gathered-{next(_names)}") as inner:
                assert isinstance(inner, MemoryStore)
                await test(BatchedStore(inner), Recorded(inner, monkeypatch))

        run(main())

    call.__name__ = test.__name__
    return call


@with_gathered
async def test_writes_of_one_turn_are_sent_as_one_multi(store, recorded):
    await asyncio.gather(*(store.create(f"/{name}", name.encode()) for name in "abc"))
    assert recorded.requests == ["multi"]
    assert [node.data for node in await store.get_many(["/a", "/b", "/c"])] == [b"a", b"b", b"c"]


@with_gathered
async def test_reads_of_one_turn_are_sent_as_one_request(store, recorded):
    await store.create("/a", b"data")
    recorded.requests.clear()
    one, many, stat, missing = await asyncio.gather(
        store.get("/a"), store.get_many(["/b", "/a"]), store.exists("/a"), store.exists("/b")
    )
    assert (one.data, many[0], many[1].data, stat.version, missing) == (b"data", None, b"data", 0, None)
    assert recorded.requests == ["get_many"]
    recorded.requests.clear()
    assert await asyncio.gather(store.children("/"), store.children_many(["/a", "/b"])) == [["a"], [[], None]]
    assert recorded.requests == ["children_many"]


@with_gathered
async def test_a_refused_request_does_not_fail_the_others(store, recorded):
    await store.create("/there")
    outcomes = await asyncio.gather(
        store.create("/there"),
        store.create("/new"),
        store.put("/there", b"", 7),
        store.multi([Create("/all"), Check("/nothing", 0)]),
        store.delete("/gone"),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [NodeExists, str, BadVersion, NodeNotFound, NodeNotFound]
    assert [error.path for error in outcomes if isinstance(error, MetadataError)] == [
        "/there",
        "/there",
        "/nothing",
        "/gone",
    ]
    assert await store.children("/") == ["new", "there"]


@with_gathered
async def test_sequential_nodes_created_together_have_different_numbers(store, recorded):
    made = await asyncio.gather(*(store.create("/n-", ephemeral=True, sequential=True) for _ in range(5)))
    assert made == [f"/n-{number:010}" for number in range(5)]
    assert recorded.requests == ["multi"]


@with_gathered
async def test_missing_parents_are_created_for_the_caller(store, recorded):
    outcomes = await asyncio.gather(
        store.create("/a/b/c", parents=True), store.create("/x/y"), store.create("/z"), return_exceptions=True
    )
    assert (outcomes[0], type(outcomes[1]), outcomes[2]) == ("/a/b/c", NodeNotFound, "/z")


@with_gathered
async def test_a_caller_cancelled_before_sending_writes_nothing(store, recorded):
    given_up = asyncio.ensure_future(store.create("/given-up"))
    await asyncio.sleep(0)
    given_up.cancel()
    await store.create("/other")
    assert await store.children("/") == ["other"]


def test_an_answer_that_never_came_is_unknown_to_every_caller(monkeypatch):
    async def main():
        async with await open_store(f"memory:gathered-{next(_names)}") as inner:

            async def lost(_):
                raise StoreUnavailable("lost")

            monkeypatch.setattr(inner, "multi", lost)
            store = BatchedStore(inner)
            outcomes = await asyncio.gather(store.create("/a"), store.create("/b"), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 2

    run(main())


paths = st.sampled_from(["/a", "/b", "/c", "/a/x", "/b/y"])
data = st.binary(max_size=3)
versions = st.integers(-1, 2)
operations = st.one_of(
    st.builds(Create, paths, data, sequential=st.booleans()),
    st.builds(Put, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)


async def outcome_of(write):
    try:
        return await write
    except MetadataError as error:
        return type(error), error.path


async def tree_of(store):
    return [(path, await store.get(path)) for path in ("/a", "/b", "/c", "/a/x", "/b/y") if await store.exists(path)]


@given(st.lists(st.lists(operations, min_size=1, max_size=3), max_size=6))
def test_batched_writes_end_as_if_sent_one_by_one_in_that_order(groups):
    async def main():
        async with (
            await open_store(f"memory:gathered-{next(_names)}") as inner,
            await open_store(f"memory:gathered-{next(_names)}") as plain,
        ):
            store = BatchedStore(inner)
            together = await asyncio.gather(*(outcome_of(store.multi(group)) for group in groups))
            assert together == [await outcome_of(plain.multi(group)) for group in groups]
            assert [(path, node.data, node.version) for path, node in await tree_of(store)] == [
                (path, node.data, node.version) for path, node in await tree_of(plain)
            ]

    run(main())


@given(st.lists(st.integers(1, 90), max_size=40), st.integers(0, 40_000))
def test_multis_are_bounded_and_split_no_group(sizes, length):
    groups = [[Create("/x", bytes(length))] * size for size in sizes]
    parts = list(plan_multis(groups))
    assert [index for part in parts for index in part] == list(range(len(groups)))
    for part in parts:
        assert len(part) == 1 or sum(len(groups[index]) for index in part) <= MOST_OPERATIONS
        assert len(part) == 1 or sum(len(groups[index]) * length for index in part) <= MOST_BYTES


def test_no_request_sends_nothing(monkeypatch):
    async def main():
        async with await open_store(f"memory:gathered-{next(_names)}") as inner:
            recorded = Recorded(inner, monkeypatch)
            store = BatchedStore(inner)
            assert await store.multi([]) == await store.get_many([]) == await store.children_many([]) == []
            assert recorded.requests == []

    run(main())
