"""Delayed messages in buckets, with real bookies: stored, restored, loaded, merged, deleted (D3, R10)."""

import asyncio
import itertools
import time

import pytest

from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.broker.topics.delayed.bucket_format import parse_bucket_name
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_reader
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.broker_process import ONE_BOOKIE as ONE_BOOKIE_SETTINGS
from tests.support.brokers.broker_process import BrokerRun
from tests.support.brokers.served_broker import connect_to, payloads, served

BUCKETS = (
    "delayedDeliveryTrackerFactoryClassName=org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory",
    "delayedDeliveryMinIndexCountPerBucket=3",
    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment=2",
    "delayedDeliveryTickTimeMillis=1",
    "isDelayedDeliveryDeliverAtTimeStrict=true",
)
ROLLING = {"max_entries_per_ledger": 4, "minimum_rollover_time_ms": 0}
HOUR_MS = 3_600_000


def now_ms():
    return time.time_ns() // 1_000_000


async def publish(client, *due_times):
    """Publish a message for each time, 0 for at once; payloads are numbers."""
    first = client.requests
    for number, due in enumerate(due_times):
        client.publish(b"%d" % (first + number), first + number, deliver_at=due)
    for _ in due_times:
        await client.expect("send_receipt")
    client.requests += len(due_times)


async def subscribed(broker, topic, kind="Shared", number=0, permits=100):
    client = await broker.connect()
    await client.subscribe(number, topic=topic, subType=kind, permits=permits)
    return client


async def producing(broker, topic):
    client = await broker.connect()
    await client.producer(topic=topic)
    client.requests = 0
    return client


def cursor_of(broker, topic):
    opened = broker.broker.topics.find(TopicName.parse(topic))
    return opened.managed_ledger.open_cursors["sub"]


def subscription_of(broker, topic):
    return broker.broker.topics.find(TopicName.parse(topic)).subscriptions.get("sub")


def named(broker, topic):
    """The ledgers of each bucket that the cursor names, by its range."""
    properties = cursor_of(broker, topic).cursor_properties
    return {bucket: int(text) for name, text in properties.items() if (bucket := parse_bucket_name(name))}


async def until(condition):
    async with asyncio.timeout(60):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found


async def buckets_of(url, topic):
    """The ledgers of buckets of the topic that exist."""
    found = set()
    async with await open_reader(url) as reader:
        bookkeeper = BookKeeperReader(reader)
        async for page in bookkeeper.list_ledgers():
            for ledger_id in page:
                try:
                    custom = dict((await bookkeeper.metadata(ledger_id)).custom_metadata)
                except NoSuchLedger:
                    continue
                if custom.get("pulsar/delayedIndexTopic") == topic.encode():
                    found.add(ledger_id)
        await bookkeeper.close()
    return found


def test_a_restarted_broker_waits_for_what_buckets_have_and_reads_none_of_it_again(broker_url, topic):
    async def main():
        later, soon = now_ms() + HOUR_MS, now_ms() + 4_000
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer, producer = await subscribed(broker, topic), await producing(broker, topic)
            await publish(producer, later, soon, later, 0, later + 1, 0)
            first = await consumer.messages(2)
            assert payloads(first) == [b"3", b"5"]
            await consumer.ack_durably(first[0].position)
            await until(lambda: named(broker, topic))
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer = await subscribed(broker, topic)
            again = await consumer.messages(2)
            assert payloads(again) == [b"5", b"1"]
            assert now_ms() >= soon
            assert subscription_of(broker, topic).delayed == 3

    run(main())


def test_segments_are_loaded_when_they_are_due_and_the_consumed_bucket_is_deleted(broker_url, topic):
    async def main():
        due = now_ms() + 3_000
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer, producer = await subscribed(broker, topic), await producing(broker, topic)
            await publish(producer, due + 600, due + 400, due + 200, due, 0, 0)
            assert payloads(await consumer.messages(2)) == [b"4", b"5"]
            await until(lambda: named(broker, topic))
            assert payloads(await consumer.messages(4)) == [b"3", b"2", b"1", b"0"]
            assert now_ms() >= due + 600
            await until(lambda: not named(broker, topic))
        assert await buckets_of(broker_url, topic) == set()

    run(main())


def test_many_buckets_are_merged_and_the_merged_ones_deleted(broker_url, topic):
    async def main():
        later = now_ms() + HOUR_MS
        async with served(broker_url, *BUCKETS, "delayedDeliveryMaxNumBuckets=2", **ROLLING) as broker:
            consumer, producer = await subscribed(broker, topic), await producing(broker, topic)
            for number in range(8):
                await publish(producer, *(later + 100 * number + each for each in range(4)))
            await publish(producer, 0)
            assert payloads(await consumer.messages(1)) == [b"32"]

            def merged():
                found = named(broker, topic)
                return found if len(found) <= 2 and sum(end - start for start, end in found) >= 4 else None

            ranges = sorted(await until(merged))
            assert all(end < start for (_, end), (start, _) in itertools.pairwise(ranges))
            consumer.close()
        async with served(broker_url, *BUCKETS, "delayedDeliveryMaxNumBuckets=2", **ROLLING) as broker:
            consumer = await subscribed(broker, topic)
            assert payloads(await consumer.messages(1)) == [b"32"]
            await until(lambda: subscription_of(broker, topic).delayed == 32)
            ledgers = set(named(broker, topic).values())
        assert await buckets_of(broker_url, topic) == ledgers

    run(main())


@pytest.mark.parametrize("end", ["seek", "unsubscribe"])
def test_buckets_go_with_the_subscription_and_with_a_seek(broker_url, topic, end):
    async def main():
        later = now_ms() + HOUR_MS
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer, producer = await subscribed(broker, topic), await producing(broker, topic)
            await publish(producer, later, later, later, 0, 0)
            await consumer.messages(2)
            await until(lambda: named(broker, topic))
            if end == "seek":
                earliest = pb.MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)
                consumer.send(pb.BaseCommand.SEEK, "seek", consumer_id=0, request_id=77, message_id=earliest)
                while not (await consumer.receive())[0].HasField("success"):
                    pass
            else:
                await consumer.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
        assert await buckets_of(broker_url, topic) == set()

    run(main())


def test_a_bucket_that_is_lost_is_read_again_from_the_topic(broker_url, topic):
    async def main():
        soon = now_ms() + 3_000
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer, producer = await subscribed(broker, topic), await producing(broker, topic)
            await publish(producer, soon, soon, soon, 0, 0)
            await consumer.messages(2)
            (ledger_id,) = (await until(lambda: named(broker, topic))).values()
            await broker.cluster.bookkeeper.delete_ledger(ledger_id)
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer = await subscribed(broker, topic)
            found = payloads(await consumer.messages(5))
            assert (sorted(found[:2]), sorted(found[2:])) == ([b"3", b"4"], [b"0", b"1", b"2"])
            assert now_ms() >= soon
            assert ledger_id not in named(broker, topic).values()

    run(main())


def test_a_broker_that_keeps_the_index_in_memory_uses_and_deletes_the_buckets_that_exist(broker_url, topic):
    async def main():
        soon = now_ms() + 3_000
        in_memory = (
            "delayedDeliveryTrackerFactoryClassName="
            "org.apache.pulsar.broker.delayed.InMemoryDelayedDeliveryTrackerFactory"
        )
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer, producer = await subscribed(broker, topic), await producing(broker, topic)
            await publish(producer, soon, soon, soon, 0, 0)
            await consumer.messages(2)
            await until(lambda: named(broker, topic))
        async with served(broker_url, in_memory, *BUCKETS[1:], **ROLLING) as broker:
            consumer = await subscribed(broker, topic)
            assert sorted(payloads(await consumer.messages(5))[2:]) == [b"0", b"1", b"2"]
            await until(lambda: not named(broker, topic))
        assert await buckets_of(broker_url, topic) == set()

    run(main())


def test_another_type_of_subscription_takes_the_buckets_over(broker_url, topic):
    async def main():
        soon = now_ms() + 3_000
        async with served(broker_url, *BUCKETS, **ROLLING) as broker:
            consumer, producer = await subscribed(broker, topic), await producing(broker, topic)
            await publish(producer, soon, soon + 1, soon + 2, 0, 0)
            for message in await consumer.messages(2):
                await consumer.ack_durably(message.position)
            await until(lambda: named(broker, topic))
            await consumer.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            await consumer.subscribe(1, topic=topic, subType="Key_Shared", permits=10)
            assert payloads(await consumer.messages(3)) == [b"0", b"1", b"2"]
            assert now_ms() >= soon + 2

    run(main())


def test_clients_of_a_broker_killed_with_9_again_and_again_get_each_delayed_message(broker_url, topic, tmp_path):
    """The broker dies while it seals, merges and deletes buckets, wherever it is at that time."""
    rolling = ("managedLedgerMaxEntriesPerLedger=4", "managedLedgerMinLedgerRolloverTimeMinutes=0")
    settings = (*ONE_BOOKIE_SETTINGS, *BUCKETS, *rolling, "delayedDeliveryMaxNumBuckets=2")
    broker = BrokerRun(broker_url, tmp_path / "broker.log", settings)

    async def main():
        wanted, got, sent = {}, set(), 0
        for round_ in range(6):
            await asyncio.to_thread(broker.start)
            consumer, producer = await connect_to(broker.port), await connect_to(broker.port)
            await subscribe_when_free(consumer, topic)
            await producer.producer(topic=topic, producer_name=f"p{round_}")
            producer.requests = sent
            due = now_ms() + 1_500
            times = [due + 300 * each for each in range(13)]
            await publish(producer, *times)
            wanted |= {b"%d" % (sent + each): at for each, at in enumerate(times)}
            sent += len(times)
            await take(consumer, wanted, got, 0.3 * round_)
            await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        consumer = await connect_to(broker.port)
        await subscribe_when_free(consumer, topic)
        await take(consumer, wanted, got, 60)
        assert got == set(wanted)

    try:
        run(main(), timeout=300)
    finally:
        if broker.running:
            broker.stop()

    async def leftovers():
        async with served(broker_url, *BUCKETS, **ROLLING) as again:
            await subscribed(again, topic)
            opened = again.broker.topics.find(TopicName.parse(topic))
            await opened.managed_ledger.initialized()
            await until(lambda: not named(again, topic))
        assert await buckets_of(broker_url, topic) == set()

    run(leftovers())


async def subscribe_when_free(consumer, topic):
    await consumer.subscribe(topic=topic, subType="Shared", permits=1_000)


async def take(consumer, wanted, got, seconds):
    """Receive and acknowledge for so long; nothing comes before its time."""
    try:
        async with asyncio.timeout(seconds):
            while got != set(wanted):
                (message,) = await consumer.messages(1)
                assert now_ms() >= wanted[message.payload], "early"
                consumer.ack(message.position)
                got.add(message.payload)
    except TimeoutError:
        pass
