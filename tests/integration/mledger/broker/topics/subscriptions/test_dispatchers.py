"""Dispatchers behind a real connection: D2, D3, D5."""

import time

import pytest

from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import payloads, served


def opened(broker, topic):
    """The managed ledger of an open topic."""
    return broker.cluster.opened[TopicName.parse(topic).managed_ledger_name]


def test_an_idle_key_shared_subscription_takes_the_mode_of_its_next_consumer(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, subType="Key_Shared")
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            ranges = {"keySharedMode": "STICKY", "hashRanges": [{"start": 0, "end": 65_535}]}
            await client.subscribe(1, topic=topic, subType="Key_Shared", keySharedMeta=ranges)
            overlapping = {"subscription": "sub", "subType": "Key_Shared", "consumer_id": 2, "keySharedMeta": ranges}
            error = await client.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", topic=topic, **overlapping)
            assert error.error == pb.ConsumerAssignError

    run(main())


STICKY = {"keySharedMode": "STICKY", "hashRanges": [{"start": 0, "end": 100}]}
ELSEWHERE = {"keySharedMode": "STICKY", "hashRanges": [{"start": 65_535, "end": 65_535}]}


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize("other", [STICKY, {"keySharedMode": "AUTO_SPLIT", "allowOutOfOrderDelivery": True}])
def test_a_consumer_that_expects_keys_divided_otherwise_is_refused(broker_url, topic, other, domain):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            wanted = {"topic": topic.replace("persistent", domain), "subType": "Key_Shared"}
            await client.subscribe(0, **wanted)
            joining = {"subscription": "sub", "consumer_id": 1, "keySharedMeta": other, **wanted}
            error = await client.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", **joining)
            assert error.error == pb.ConsumerBusy
            await client.subscribe(2, **wanted)

    run(main())


def test_key_ranges_count_for_nothing_in_a_failover_subscription(broker_url, topic):
    async def main():
        async with served(broker_url, "activeConsumerFailoverDelayTimeMillis=0") as broker:
            client, other, producer = await broker.connect(), await broker.connect(), await broker.connect()
            await producer.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Failover", priority_level=1)
            await other.subscribe(topic=topic, subType="Failover", keySharedMeta=ELSEWHERE, permits=10)
            await other.expect("active_consumer_change")
            await producer.publish_all(b"0")
            assert payloads(await other.messages(1)) == [b"0"]

    run(main())


def test_a_delayed_message_comes_after_those_that_are_due(broker_url, topic):
    async def main():
        async with served(broker_url, "delayedDeliveryTickTimeMillis=1") as broker:
            client, producer = await broker.connect(), await broker.connect()
            await producer.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            due = time.time_ns() // 1_000_000 + 1_500
            producer.publish(b"later", 0, deliver_at=due)
            producer.publish(b"now", 1)
            first, second = await client.messages(2)
            assert [first.payload, second.payload] == [b"now", b"later"]
            assert time.time_ns() // 1_000_000 >= due - 1

    run(main())


def test_ten_subscriptions_that_follow_a_topic_need_nothing_from_its_bookies(broker_url, topic):
    async def main():
        sent = [b"%d" % number for number in range(200)]
        async with served(broker_url) as broker:
            clients = [await broker.connect() for _ in range(10)]
            for number, client in enumerate(clients):
                await client.subscribe(topic=topic, subscription=f"sub-{number}", subType="Shared", permits=1000)
            producer = await broker.connect()
            await producer.producer(topic=topic)
            await producer.publish_all(*sent)
            for client in clients:
                assert payloads(await client.messages(200)) == sent
            (opened,) = broker.cluster.opened.values()
            counters = broker.cluster.counters.of(opened.name)
            assert (counters.cache_hits, counters.entries_read) == (2000, 0)

    run(main())


ACK = pb.BaseCommand.ACK, "ack"
REDELIVER = pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages"


@pytest.mark.parametrize("entry_id", [(1 << 64) - 1, 1 << 32, (1 << 63) - 1], ids=["-1", "2^32", "2^63 - 1"])
@pytest.mark.parametrize(
    ("command", "words"), [(ACK, ()), (ACK, (1,)), (REDELIVER, ())], ids=["whole", "part", "redelivery"]
)
def test_an_entry_that_no_ledger_has_does_no_harm_to_those_that_the_consumer_has(
    broker_url, topic, command, words, entry_id
):
    async def main():
        async with served(broker_url) as broker:
            client, producer = await broker.connect(), await broker.connect()
            await producer.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            (first,) = await producer.publish_all(b"0")
            await opened(broker, topic).roll_over()  # what is named lies before the last entry
            await producer.publish_all(b"1")
            await client.messages(2)
            wanted = {"ledgerId": first.ledger_id, "entryId": entry_id, "ack_set": words}
            ids = [pb.MessageIdData(**wanted)]
            more = {"message_ids": ids} if command is REDELIVER else {"message_id": ids, "ack_type": "Individual"}
            client.send(*command, consumer_id=0, **more)
            stats = pb.BaseCommand.CONSUMER_STATS, "consumerStats", "consumerStatsResponse"
            assert (await client.request(*stats, consumer_id=0)).unackedMessages == 2

    run(main())


def test_who_reads_without_a_durable_subscription_need_not_acknowledge(broker_url, topic):
    async def main():
        async with served(broker_url, "maxUnackedMessagesPerConsumer=2") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", durable=False, permits=10)
            await client.publish_all(b"0", b"1")
            await client.messages(2)
            await client.publish_all(b"2", b"3")
            assert [message.payload for message in await client.messages(2)] == [b"2", b"3"]

    run(main())
