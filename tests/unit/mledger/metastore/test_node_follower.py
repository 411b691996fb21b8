"""Who follows a node looks now and whenever it changes, again after a failure, until the store is closed."""

import asyncio

import pytest

from mledger.metastore import node_follower
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.node_follower import follow_node
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run


@pytest.mark.parametrize("failure", [StoreUnavailable("not now"), KeyError("nobody expected it")])
def test_it_looks_at_once_and_at_each_change_and_again_after_a_failure(monkeypatch, failure):
    monkeypatch.setattr(node_follower, "RETRY_S", 0.0)

    async def main():
        seen, failures = asyncio.Queue(), [failure]
        told = []

        async def look():
            if await store.exists("/n") is not None and failures:
                raise failures.pop()
            seen.put_nowait(await store.exists("/n") is not None)

        async with await open_store("memory:") as store:
            following = asyncio.create_task(follow_node(store, "/n", look, told.append))
            async with asyncio.timeout(HANG_S):
                assert await seen.get() is False
                await store.create("/n", b"")
                assert await seen.get() is True
                await store.delete("/n")
                assert await seen.get() is False
        async with asyncio.timeout(HANG_S):
            await following
        assert told == [failure]

    run(main())


def test_it_looks_when_a_child_comes():
    async def main():
        seen = asyncio.Queue()

        async def look():
            seen.put_nowait(await store.children("/n"))

        async with await open_store("memory:") as store:
            await store.create("/n", b"")
            following = asyncio.create_task(follow_node(store, "/n", look, lambda _: None, children=True))
            async with asyncio.timeout(HANG_S):
                assert await seen.get() == []
                await store.create("/n/a", b"")
                assert await seen.get() == ["a"]
            following.cancel()

    run(main())


def test_what_changes_many_times_during_a_look_is_looked_at_once_more():
    """Where each topic of thousands was looked for, all of the namespace were listed thousands of times."""

    async def main():
        looks, all_there = [], asyncio.Event()

        async def look():
            looks.append(len(await store.children("/n")))
            if len(looks) == 1:
                for number in range(100):
                    await store.create(f"/n/{number}")
            elif looks[-1] == 100:
                all_there.set()

        async with await open_store("memory:") as store:
            await store.create("/n")
            following = asyncio.create_task(follow_node(store, "/n", look, lambda _: None, children=True))
            async with asyncio.timeout(HANG_S):
                await all_there.wait()
                await store.create("/n/last")
                while looks[-1] < 101:
                    await asyncio.sleep(0)
        await following
        assert looks == [0, 100, 101]

    run(main())
