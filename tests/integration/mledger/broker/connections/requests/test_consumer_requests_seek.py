"""Seeks of consumers and readers to a message or an end of the topic."""

from dataclasses import replace

import pytest

import mledger
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import payloads, served

EARLIEST = pb.MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)


@pytest.mark.parametrize(("where", "expected"), [("id", [b"1", b"2"]), ("earliest", [b"0", b"1", b"2"])])
def test_a_seek_closes_the_consumer_which_then_continues_there(broker_url, topic, where, expected):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, permits=10)
            await client.messages(3)
            await client.ack_durably(sent[2], kind="Cumulative")
            to = EARLIEST if where == "earliest" else pb.MessageIdData(ledgerId=sent[1].ledger_id, entryId=1)
            client.send(pb.BaseCommand.SEEK, "seek", consumer_id=0, request_id=client.next_request(), message_id=to)
            assert (await client.expect("close_consumer")).consumer_id == 0
            await client.expect("success")
            await client.subscribe(topic=topic, permits=10)
            assert payloads(await client.messages(len(expected))) == expected

    run(main())


def test_after_a_seek_who_comes_back_first_gets_nothing_before_the_active_consumer_is_back(broker_url, topic):
    async def main():
        async with served(broker_url, "activeConsumerFailoverDelayTimeMillis=0") as broker:
            active, other = await broker.connect(), await broker.connect()
            await active.producer(topic=topic)
            await active.publish_all(b"0", b"1")
            for priority, client in enumerate((active, other)):
                named = {"subType": "Failover", "priority_level": priority, "consumer_name": f"c{priority}"}
                await client.subscribe(topic=topic, permits=10, **named)
                assert (await client.expect("active_consumer_change")).is_active == (client is active)
            await active.messages(2)
            (opened,) = broker.broker.topics.open
            opened.settings = replace(opened.settings, failover_delay_s=60)
            active.send(pb.BaseCommand.SEEK, "seek", consumer_id=0, request_id=99, message_id=EARLIEST)
            for client in (active, other):
                await client.expect("close_consumer")
            await active.expect("success")
            for priority, client in ((1, other), (0, active)):
                named = {"subType": "Failover", "priority_level": priority, "consumer_name": f"c{priority}"}
                await client.subscribe(topic=topic, permits=10, **named)
            assert not (await other.expect("active_consumer_change")).is_active
            assert (await active.expect("active_consumer_change")).is_active
            assert payloads(await active.messages(2)) == [b"0", b"1"]

    run(main())


def test_a_consumer_that_waited_for_a_seek_is_not_admitted_to_a_topic_that_ended_meanwhile(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, second = await broker.connect(), await broker.connect()
            await client.subscribe(topic=topic, subType="Shared")
            served_topic = broker.broker.topics.find(mledger.TopicName.parse(topic))
            async with served_topic.subscriptions.get("sub").lock:  # as a seek holds it
                second.send(
                    pb.BaseCommand.SUBSCRIBE,
                    "subscribe",
                    topic=topic,
                    subscription="sub",
                    subType="Shared",
                    consumer_id=1,
                    request_id=second.next_request(),
                )
                await second.request(
                    pb.BaseCommand.PARTITIONED_METADATA,
                    "partitionMetadata",
                    "partitionMetadataResponse",
                    topic=topic,
                )
                served_topic.end()
            assert (await second.expect("error")).error == pb.ServiceNotReady

    run(main())


def test_a_reader_can_seek(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, subscription="r", durable=False, permits=10)
            await client.messages(2)
            client.send(pb.BaseCommand.SEEK, "seek", consumer_id=0, request_id=99, message_id=EARLIEST)
            await client.expect("close_consumer")
            await client.expect("success")
            await client.subscribe(topic=topic, subscription="r", durable=False, permits=10)
            assert payloads(await client.messages(2)) == [b"0", b"1"]

    run(main())
