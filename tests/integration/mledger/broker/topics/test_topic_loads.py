"""Loading topics, and giving them up, on real storage."""

import asyncio

import pytest

from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.producers.deduplication import TopicDeduplication
from mledger.errors import CursorRecoveryFailed
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


@pytest.mark.parametrize("ends", ["never", "failed"])
def test_a_topic_whose_loading_did_not_end_is_let_go_of_with_its_bundle(broker_url, topic, monkeypatch, ends):
    async def main():
        reached = asyncio.Event()

        async def prepare(*_):
            reached.set()
            if ends == "failed":
                raise CursorRecoveryFailed("bookies are away")
            await asyncio.Event().wait()

        monkeypatch.setattr(TopicDeduplication, "open", prepare)
        async with served(broker_url, "brokerDeduplicationEnabled=true") as broker:
            client = await broker.connect()
            fields = {"topic": topic, "producer_id": 0, "request_id": 1}
            client.send(pb.BaseCommand.PRODUCER, "producer", **fields)
            await reached.wait()
            (bundle,) = broker.broker.owners.owned
            await broker.broker.handover.unload(bundle)
            assert (await client.expect("error")).error == pb.ServiceNotReady
            assert dict(broker.cluster.opened) == {}

    run(main())


def test_a_topic_that_is_fenced_while_it_is_loaded_is_loaded_anew_for_the_next_client(broker_url, topic, monkeypatch):
    async def main():
        prepare, fenced = BrokerTopic.prepare, []

        async def fence(loaded):
            await prepare(loaded)
            if not fenced:
                fenced.append(loaded)
                loaded.managed_ledger._record.fence("another owner wrote first")

        monkeypatch.setattr(BrokerTopic, "prepare", fence)
        async with served(broker_url) as broker:
            client = await broker.connect()
            fields = {"topic": topic, "producer_id": 0}
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", **fields)
            assert refused.error == pb.ServiceNotReady
            await client.request(pb.BaseCommand.PRODUCER, "producer", "producer_success", **fields)

    run(main())


def test_the_log_says_why_a_topic_cannot_be_opened(broker_url, topic, monkeypatch, caplog):
    async def fail(_):
        raise CursorRecoveryFailed("bookies are away")

    async def main():
        monkeypatch.setattr(BrokerTopic, "prepare", fail)
        async with served(broker_url) as broker:
            client = await broker.connect()
            assert (await client.refused_producer(topic)).error == pb.ServiceNotReady

    run(main())
    assert f'event=topic_not_opened topic={topic} error="bookies are away"' in caplog.text


def test_the_log_says_that_a_topic_is_opened_slowly(broker_url, topic, monkeypatch, caplog):
    async def never_end(_):
        await asyncio.Event().wait()

    async def main():
        monkeypatch.setattr(BrokerTopic, "prepare", never_end)
        async with served(broker_url, "topicLoadTimeoutSeconds=1") as broker:
            client = await broker.connect()
            assert (await client.refused_producer(topic)).error == pb.ServiceNotReady

    run(main())
    assert f"event=topic_opened_slowly topic={topic} seconds=1" in caplog.text
