"""Subscribing to a topic that has many subscriptions."""

from mledger.broker.topics.subscriptions.topic_subscriptions import TopicSubscriptions
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


def test_an_exclusive_consumer_costs_the_same_beside_any_number_of_subscriptions(broker_url, topic, monkeypatch):
    """None of the others is looked at: after a restart, thousands come at once."""

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            with monkeypatch.context() as without:
                without.delattr(TopicSubscriptions, "__iter__")
                for number in range(2):
                    await client.subscribe(number, topic=topic, subscription=f"sub-{number}")

    run(main())


def test_a_consumer_with_a_schema_costs_the_same_beside_any_number_of_subscriptions(broker_url, topic, monkeypatch):
    """A topic that has messages or producers is in use, whoever consumes it."""
    schema = pb.Schema(name="text", type=pb.Schema.String, schema_data=b"")

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, schema=schema)
            with monkeypatch.context() as without:
                without.delattr(TopicSubscriptions, "__iter__")
                for number in range(2):
                    await client.subscribe(number, topic=topic, subscription=f"sub-{number}", schema=schema)

    run(main())
