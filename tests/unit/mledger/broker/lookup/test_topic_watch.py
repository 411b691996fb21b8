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
