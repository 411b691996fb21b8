"""Whoever follows the topics of a namespace is told of every change."""

import asyncio

from mledger.broker.lookup.topic_watch import TopicWatch
from mledger.metastore.records.paths import MANAGED_LEDGERS, PERSISTENT
from mledger.metastore.url import open_store
from tests.support.aio import run

NAMESPACE = "public/watched"
FOLDER = f"{MANAGED_LEDGERS}/{NAMESPACE}/{PERSISTENT}"


def test_a_listener_that_fails_does_not_keep_the_others_from_being_told():
    def fail(_):
        raise RuntimeError("a listener failed")

    async def main():
        store, told = await open_store("memory:topic-watch"), asyncio.Queue()

        async def listed(_):
            (names,) = await store.children_many([FOLDER])
            return sorted(names or ())

        watch = TopicWatch(store, listed)
        assert await watch.follow(NAMESPACE, fail) == []
        await watch.follow(NAMESPACE, told.put_nowait)
        await store.create(f"{FOLDER}/orders", b"", parents=True)
        assert await told.get() == ["orders"]
        watch.stop()
        await store.close()

    run(main())


def test_others_get_a_turn_between_the_listeners_that_are_told():
    async def main():
        store, order, told = await open_store("memory:topic-watch-turns"), [], asyncio.Event()
        watch = TopicWatch(store, lambda _: store.children(FOLDER))
        await store.create(FOLDER, parents=True)

        def first(_):
            order.append("first")
            asyncio.get_running_loop().call_soon(order.append, "others")

        def last(_):
            order.append("last")
            told.set()

        await watch.follow(NAMESPACE, first)
        await watch.follow(NAMESPACE, last)
        await store.create(f"{FOLDER}/orders")
        await told.wait()
        assert order == ["first", "others", "last"]
        watch.stop()
        await store.close()

    run(main())


def test_a_listener_that_ended_before_its_turn_is_told_nothing():
    async def main():
        store, order, told = await open_store("memory:topic-watch-ended"), [], asyncio.Event()
        watch = TopicWatch(store, lambda _: store.children(FOLDER))
        await store.create(FOLDER, parents=True)

        def ended(_):
            order.append("ended")

        def last(_):
            order.append("last")
            told.set()

        await watch.follow(NAMESPACE, lambda _: watch.forget(NAMESPACE, ended))
        await watch.follow(NAMESPACE, ended)
        await watch.follow(NAMESPACE, last)
        await store.create(f"{FOLDER}/orders")
        await told.wait()
        assert order == ["last"]
        watch.stop()
        await store.close()

    run(main())
