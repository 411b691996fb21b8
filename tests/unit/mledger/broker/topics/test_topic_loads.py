"""How many topics a broker opens at once."""

import asyncio

import pytest

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.topic_loads import BrokerTopics
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
