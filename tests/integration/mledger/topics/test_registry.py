"""A topic is open once in a process: all who ask for it share one opening and one ManagedLedger."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.events import Opening
from mledger.metastore.records.paths import owner_path
from tests.support.aio import run
from tests.support.topics import KEEP, Events, assert_nothing_orphaned, everything, fill, payloads


def test_all_who_ask_at_once_share_one_opening(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await (await cluster.create_topic(topic)).close()
            events = Events()
            opened = await asyncio.gather(*(cluster.open_topic(topic, events=events) for _ in range(20)))
            assert len({id(each) for each in opened}) == 1
            assert [type(event) for event in events.seen].count(Opening) == 1
            await fill(opened[0], 9)
            await opened[0].roll_over()
            assert await cluster.open_topic(topic) is opened[0]
            assert cluster.opened == {opened[0].name: opened[0]}

    run(main())


def test_all_who_create_a_topic_at_once_share_it(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            asks = [cluster.open_topic(topic), *(cluster.open_topic(topic, create=True) for _ in range(5))]
            missing, *opened = await asyncio.gather(*asks, return_exceptions=True)
            assert isinstance(missing, mledger.TopicNotFound)
            assert len({id(each) for each in opened}) == 1
            await fill(opened[0], 3)

    run(main())


def test_an_open_topic_is_refused_to_who_wants_it_alone_or_otherwise_configured(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.open_topic(topic, create=True, config=KEEP)
            with pytest.raises(mledger.TopicExists, match="open here already"):
                await cluster.open_topic(topic, exclusive=True)
            with pytest.raises(mledger.TopicExists, match="another configuration"):
                await cluster.open_topic(topic, config=replace(KEEP, max_entries_per_ledger=11))
            assert await cluster.open_topic(topic, config=KEEP) is opened

    run(main())


def test_a_cancelled_caller_does_not_end_the_opening_of_the_others(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            created = await cluster.create_topic(topic)
            await fill(created, 9)
            await created.close()
            for turns in (0, 1, 5, 40):
                first, second = (asyncio.ensure_future(cluster.open_topic(topic)) for _ in range(2))
                for _ in range(turns):
                    await asyncio.sleep(0)
                first.cancel()
                opened = await second
                assert opened.state is mledger.TopicState.OPEN
                assert await everything(opened) == payloads(9)
                await opened.close()

    run(main())


def test_who_asks_while_an_abandoned_opening_ends_gets_the_topic(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            name = (created := await cluster.create_topic(topic)).name
            await created.close()
            for turns in (1, 5, 40):
                first = asyncio.ensure_future(cluster.open_topic(topic))
                for _ in range(turns):
                    await asyncio.sleep(0)
                first.cancel()
                opened = await cluster.open_topic(topic)
                await fill(opened, 1)
                assert await cluster.metadata.exists(owner_path(name)) is not None
                await opened.close()
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_topic_being_opened_when_the_cluster_closes_is_not_opened(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await (await cluster.create_topic(topic)).close()
            asked = [asyncio.ensure_future(cluster.open_topic(topic)) for _ in range(2)]
            await asyncio.sleep(0)
        for each in asked:
            with pytest.raises(mledger.ManagedLedgerClosed):
                await each
        with pytest.raises(mledger.ManagedLedgerClosed, match="cluster is closed"):
            await cluster.open_topic(topic)

    run(main())
