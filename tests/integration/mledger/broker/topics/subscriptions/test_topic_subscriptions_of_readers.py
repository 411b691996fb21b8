"""A reader's subscription, which is not durable, goes with the reader, however that ends."""

import asyncio
import contextlib

from mledger.broker.topics.subscriptions import topic_subscriptions
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


@contextlib.asynccontextmanager
async def reading(broker_url, topic):
    """A client with a producer, the reader of another client, and the topic as the broker serves it."""
    async with served(broker_url) as broker:
        client, reader = await broker.connect(), await broker.connect()
        await client.producer(topic=topic)
        (served_topic,) = broker.broker.topics.open
        await reader.subscribe(topic=topic, durable=False)
        yield reader, served_topic


async def until_gone(topic):
    while topic.subscriptions.get("sub") is not None or topic.managed_ledger.non_durable_cursors:
        await asyncio.sleep(0.01)


def seek(reader):
    place = pb.MessageIdData(ledgerId=0, entryId=0)
    reader.send(pb.BaseCommand.SEEK, "seek", consumer_id=0, request_id=reader.next_request(), message_id=place)


def test_a_reader_whose_client_dies_as_it_seeks_leaves_nothing(broker_url, topic, monkeypatch):
    monkeypatch.setattr(topic_subscriptions, "RETURN_S", 0.0)

    async def main():
        async with reading(broker_url, topic) as (reader, served_topic):
            begun = asyncio.Event()

            async def reset(*_, **__):
                begun.set()
                await asyncio.get_running_loop().create_future()

            served_topic.subscriptions.get("sub").cursor.reset = reset
            seek(reader)
            await begun.wait()
            reader.close()
            await until_gone(served_topic)

    run(main())


def test_a_reader_that_does_not_come_back_after_its_seek_leaves_nothing(broker_url, topic, monkeypatch):
    monkeypatch.setattr(topic_subscriptions, "RETURN_S", 0.0)

    async def main():
        async with reading(broker_url, topic) as (reader, served_topic):
            seek(reader)
            await reader.expect("close_consumer")
            await reader.expect("success")
            await until_gone(served_topic)

    run(main())


def test_a_reader_that_comes_back_after_its_seek_reads_on_from_there(broker_url, topic):
    async def main():
        async with reading(broker_url, topic) as (reader, served_topic):
            sought = served_topic.subscriptions.get("sub")
            seek(reader)
            await reader.expect("close_consumer")
            await reader.expect("success")
            await reader.subscribe(topic=topic, durable=False)
            assert served_topic.subscriptions.get("sub") is sought
            served_topic.subscriptions.left(sought)  # as when its time to come back is over
            assert served_topic.subscriptions.get("sub") is sought

    run(main())


def test_a_reader_that_is_refused_leaves_nothing(broker_url, topic, monkeypatch):
    monkeypatch.setattr(topic_subscriptions, "RETURN_S", 0.0)

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE,
                "subscribe",
                "error",
                topic=topic,
                subscription="sub",
                subType=pb.CommandSubscribe.Key_Shared,
                keySharedMeta=pb.KeySharedMeta(keySharedMode=pb.STICKY),
                consumer_id=0,
                durable=False,
            )
            assert refused.error == pb.ConsumerAssignError
            (served_topic,) = broker.broker.topics.open
            await until_gone(served_topic)

    run(main())
