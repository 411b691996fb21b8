"""What watches of every metadata store report, alike in all of them."""

import asyncio

import pytest

from mledger.metastore.errors import (
    StoreClosed,
)
from mledger.metastore.store import (
    NodeChange,
)
from tests.support.metadata.stores import with_store, with_two_stores


@with_two_stores
async def test_a_watch_reports_creation_change_and_deletion(one, other):
    async with one.watch("/node") as changes:
        await other.create("/node")
        assert await anext(changes) is NodeChange.CREATED
        await other.put("/node", b"1", 0)
        assert await anext(changes) is NodeChange.CHANGED
        await other.create("/node/child")
        await other.delete("/node/child")
        await other.delete("/node")
        assert await anext(changes) is NodeChange.DELETED
        await other.create("/node")
        assert await anext(changes) is NodeChange.CREATED


@with_two_stores
async def test_a_watch_of_children_reports_only_them(one, other):
    await one.create("/parent")
    async with one.watch("/parent", children=True) as changes:
        await other.put("/parent", b"1", 0)
        await other.create("/parent/child")
        assert await anext(changes) is NodeChange.CHILDREN
        await other.put("/parent/child", b"1", 0)
        await other.create("/parent/child/below", ephemeral=True)
        await other.delete("/parent/child/below")
        await other.delete("/parent/child")
        assert await anext(changes) is NodeChange.CHILDREN
        await other.delete("/parent")
        assert await anext(changes) is NodeChange.DELETED
        await other.create("/parent")
        assert await anext(changes) is NodeChange.CREATED
        await other.create("/parent/child")
        assert await anext(changes) is NodeChange.CHILDREN


@with_two_stores
async def test_a_watch_reports_an_ephemeral_node_that_vanishes_with_its_session(one, other):
    await other.create("/owner", ephemeral=True)
    async with one.watch("/owner") as changes:
        await other.close()
        assert await anext(changes) is NodeChange.DELETED


@with_two_stores
async def test_a_watcher_that_reads_after_each_change_ends_with_the_last_state(one, other):
    async def follow():
        async with one.watch("/node") as changes:
            watching.set()
            async for _ in changes:
                if (await one.get("/node")).data == b"99":
                    return

    watching = asyncio.Event()
    await other.create("/node")
    follower = asyncio.ensure_future(follow())
    await watching.wait()
    for number in range(100):
        await other.put("/node", b"%d" % number, number)
    await follower


@with_store
async def test_several_watches_of_one_node_report_the_same_change(store):
    async with store.watch("/node") as one, store.watch("/node") as other:
        await store.create("/node")
        assert await anext(one) is await anext(other) is NodeChange.CREATED
    async with store.watch("/node") as again:
        await store.delete("/node")
        assert await anext(again) is NodeChange.DELETED


@with_store
async def test_a_watch_ends_with_its_store(store):
    async with store.watch("/node") as changes:
        closing = asyncio.ensure_future(store.close())
        with pytest.raises(StoreClosed):
            await anext(changes)
        await closing
