"""How many topics a broker opens at once."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.topic_loads import IN_A_ROW, BrokerTopics
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run

NAMES = [TopicName.parse(f"orders-{number}") for number in range(3)]


def test_further_topics_are_opened_in_their_turn():
    async def main():
        begun, elsewhere = [], asyncio.Event()

        async def take(topic):
            begun.append(topic)
            await elsewhere.wait()
            raise BrokerRefusal(pb.ServiceNotReady, "another broker serves it")

        topics = BrokerTopics(None, BrokerSettings(topic_loads_at_once=2), take)
        loads = [asyncio.ensure_future(topics.topic(name, create=True)) for name in NAMES]
        for _ in range(5):
            await asyncio.sleep(0)
        assert begun == NAMES[:2]
        elsewhere.set()
        for load in loads:
            with pytest.raises(BrokerRefusal):
                await load
        assert begun == NAMES

    run(main())


def opened(topics, ended, *names):
    """Have topics of these names open, which are added to `ended` when they end."""
    for name in map(TopicName.parse, names):
        topics._open[name.managed_ledger_name] = SimpleNamespace(name=name, end=lambda _, name=name: ended.append(name))


def test_topics_of_other_namespaces_are_not_asked_whether_they_match():
    """A broker that ends gives up thousands of bundles: each would look at all of its topics."""

    async def main():
        topics, ended, asked = BrokerTopics(SimpleNamespace(opened={}), BrokerSettings(), None), [], []
        mine = "persistent://shop/eu/orders"
        opened(topics, ended, mine, "persistent://shop/eu-2/orders", "persistent://shop/us/orders")

        def matches(name):
            asked.append(name)
            return True

        await topics.give_up(matches, namespace="shop/eu")
        assert asked == ended == [TopicName.parse(mine)]

    run(main())


def test_of_very_many_topics_that_end_some_end_before_other_work_of_the_loop():
    async def main():
        topics, ended = BrokerTopics(SimpleNamespace(opened={}), BrokerSettings(), None), []
        opened(topics, ended, *(f"orders-{number}" for number in range(2 * IN_A_ROW)))
        giving_up = asyncio.ensure_future(topics.give_up(lambda _: True))
        await asyncio.sleep(0)
        assert len(ended) == IN_A_ROW
        await giving_up
        assert len(ended) == 2 * IN_A_ROW

    run(main())
