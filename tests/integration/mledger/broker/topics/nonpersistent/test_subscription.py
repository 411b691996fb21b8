"""Subscriptions of non-persistent topics over real connections: who gets what, and what is answered (D12)."""

import asyncio

import pytest

import mledger
from mledger.admin.partitions import create_partitioned_topic
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import payloads, served

NOWHERE = (1 << 64) - 1
LAST = pb.BaseCommand.GET_LAST_MESSAGE_ID


def found(broker, topic, name="sub"):
    """The subscription, None if there is none."""
    here = broker.broker.topics.find(mledger.TopicName.parse_served(topic))
    return next((each for each in here.subscriptions if each.name == name), None)


async def publish(client, *bodies, **fields):
    """Publish, and wait for the receipts: the broker has sent on what it sends."""
    for sequence, body in enumerate(bodies):
        client.publish(body, sequence, **fields)
    for _ in bodies:
        await client.expect("send_receipt")


async def served_so_far(client):
    """Return once the broker has done what consumer 0 asked for before."""
    await client.request(pb.BaseCommand.CONSUMER_STATS, "consumerStats", "consumerStatsResponse", consumer_id=0)


def test_a_consumer_that_stalls_loses_messages_and_others_are_served(broker_url, topic):
    big, count = bytes(64 << 10), 200

    async def main():
        async with served(broker_url) as broker:
            producer, stalled, reader = await broker.connect(), await broker.connect(), await broker.connect()
            await producer.producer(topic=topic)
            await stalled.subscribe(topic=topic, subscription="stalled", permits=10 * count)
            await reader.subscribe(topic=topic, subscription="read", permits=10 * count)
            stalled.reader._transport.pause_reading()
            while not found(broker, topic, "stalled").drops.dropped:
                await publish(producer, *[big] * 20)
                assert payloads(await reader.messages(20)) == [big] * 20
            lost = found(broker, topic, "stalled")
            assert found(broker, topic, "read").drops.dropped == 0
            assert not lost.consumers[0].dispatch.writable
            stalled.reader._transport.resume_reading()
            await stalled.messages(lost.messages_out)  # what was sent arrives
            while not lost.consumers[0].dispatch.writable:
                await producer.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=9)
            await publish(producer, b"after")
            assert payloads(await stalled.messages(1)) == [b"after"]

    run(main())


def test_messages_beyond_the_permits_are_dropped_and_counted(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, consumer = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            await consumer.subscribe(topic=topic, permits=2)
            await publish(client, b"0", b"1", b"2")
            await publish(client, b"batch", num_messages=4)
            assert payloads(await consumer.messages(2)) == [b"0", b"1"]
            assert found(broker, topic).drops.dropped == 5
            consumer.flow(1)
            await consumer.request(pb.BaseCommand.SEEK, "seek", consumer_id=0, message_publish_time=0)
            await publish(client, b"3")
            assert payloads(await consumer.messages(1)) == [b"3"]

    run(main())


def test_a_shared_subscription_serves_its_consumers_in_turn(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            consumers = [await broker.connect() for _ in range(3)]
            await client.producer(topic=topic)
            for each in consumers:
                await each.subscribe(topic=topic, subType="Shared", permits=100)
                await served_so_far(each)
            await publish(client, *[b"%d" % number for number in range(9)])
            got = [payloads(await each.messages(3)) for each in consumers]
            assert got == [[b"0", b"3", b"6"], [b"1", b"4", b"7"], [b"2", b"5", b"8"]]

    run(main())


def test_the_messages_of_a_key_stay_in_order_at_one_consumer(broker_url, topic):
    keys = [f"key-{number}" for number in range(20)]

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            consumers = [await broker.connect() for _ in range(3)]
            await client.producer(topic=topic)
            for each in consumers:
                await each.subscribe(topic=topic, subType="Key_Shared", permits=1000)
                await served_so_far(each)
            for number in range(10):
                for key in keys:
                    client.publish(f"{key}:{number}".encode(), number, key=key)
            for _ in range(200):
                await client.expect("send_receipt")
            counts = [each.messages_out for each in found(broker, topic).consumers]
            assert sum(counts) == 200
            seen = {}
            for number, (each, count) in enumerate(zip(consumers, counts, strict=True)):
                for body in payloads(await each.messages(count)):
                    key, _, place = body.decode().partition(":")
                    seen.setdefault(key, []).append((number, int(place)))
            for places in seen.values():
                assert places == [(places[0][0], place) for place in range(10)]
            assert len({places[0][0] for places in seen.values()}) > 1

    run(main())


def test_sticky_ranges_that_overlap_are_refused_and_leave_no_subscription(broker_url, topic):
    def meta(*ranges):
        found = pb.KeySharedMeta(keySharedMode=pb.STICKY)
        for start, end in ranges:
            found.hashRanges.add(start=start, end=end)
        return found

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            wanted = {"topic": topic, "consumer_id": 0, "subscription": "sub", "subType": "Key_Shared"}
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE, "subscribe", "error", keySharedMeta=meta((5, 4)), **wanted
            )
            assert refused.error == pb.ConsumerAssignError
            assert found(broker, topic) is None
            await client.subscribe(1, topic=topic, subType="Key_Shared", keySharedMeta=meta((0, 100)))
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE, "subscribe", "error", keySharedMeta=meta((100, 200)), **wanted
            )
            assert refused.error == pb.ConsumerAssignError
            assert len(found(broker, topic).consumers) == 1

    run(main())


def test_the_next_consumer_of_a_failover_subscription_takes_over_at_once(broker_url, topic):
    name = f"{topic}-partition-0"

    async def main():
        async with served(broker_url) as broker:
            await create_partitioned_topic(broker.cluster.store, topic, 1)
            client, first, second = [await broker.connect() for _ in range(3)]
            await client.producer(topic=name)
            await first.subscribe(topic=name, subType="Failover", consumer_name="a", permits=10)
            assert (await first.expect("active_consumer_change")).is_active
            await second.subscribe(topic=name, subType="Failover", consumer_name="b", permits=10)
            assert not (await second.expect("active_consumer_change")).is_active
            await publish(client, b"to a")
            (message,) = await first.messages(1)
            assert (message.payload, message.command.message_id.partition) == (b"to a", 0)
            first.close()
            assert (await second.expect("active_consumer_change")).is_active
            await publish(client, b"to b")
            assert payloads(await second.messages(1)) == [b"to b"]

    run(main())


def test_acknowledgements_are_answered_and_change_nothing(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(1, topic=topic, subType="Shared", permits=10)
            await client.ack_durably(Position(0, 0), number=1)
            await client.ack_durably(Position(7, 7), Position(1 << 40, 3), number=1)
            await client.ack_durably(Position(0, 0), number=1, kind="Cumulative")
            client.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=1
            )
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=1)
            client.ack(Position(0, 0), number=1, request_id=77)
            assert (await client.expect("ackResponse")).error == pb.ServiceNotReady

    run(main())


def test_seeking_is_answered_and_the_consumer_stays(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(1, topic=topic, permits=10)
            where = {"message_id": pb.MessageIdData(ledgerId=0, entryId=0)}
            for to in (where, {"message_publish_time": 5}):
                await client.request(pb.BaseCommand.SEEK, "seek", consumer_id=1, **to)
            await publish(client, b"next")
            assert payloads(await client.messages(1)) == [b"next"]

    run(main())


def test_there_is_no_last_message(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(1, topic=topic)
            refused = await client.request(LAST, "getLastMessageId", "error", consumer_id=1)
            assert refused.error == pb.NotAllowedError
            assert "keeps no messages" in refused.message

    run(main())


def test_the_compacted_view_is_refused(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE, "subscribe", "error", topic=topic, consumer_id=0, subscription="sub",
                subType="Exclusive", read_compacted=True,
            )  # fmt: skip
            assert refused.error == pb.NotAllowedError
            assert found(broker, topic) is None

    run(main())


def test_unsubscribing_needs_the_only_consumer_or_force(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            first, second = await broker.connect(), await broker.connect()
            await first.subscribe(topic=topic, subType="Shared")
            await second.subscribe(topic=topic, subType="Shared")
            refused = await first.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", "error", consumer_id=0)
            assert refused.error == pb.MetadataError
            await first.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0, force=True)
            await second.expect("close_consumer")
            assert found(broker, topic) is None
            await second.subscribe(1, topic=topic, subType="Exclusive")
            assert len(found(broker, topic).consumers) == 1

    run(main())


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_that_is_not_durable_goes_with_its_last_consumer(broker_url, topic, durable):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for number in (1, 2):
                await client.subscribe(number, topic=topic, subType="Shared", durable=durable)
            for number in (1, 2):
                assert found(broker, topic) is not None
                await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=number)
            assert (found(broker, topic) is not None) is durable
            await publish(client, b"for nobody")
            assert not durable or found(broker, topic).drops.dropped == 1

    run(main())


def test_a_message_is_not_older_than_the_epoch_of_the_consumer(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(1, topic=topic, permits=10, consumer_epoch=5)
            client.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
                "redeliverUnacknowledgedMessages",
                consumer_id=1,
                consumer_epoch=6,
            )
            await publish(client, b"one")
            (message,) = await client.messages(1)
            assert not message.command.HasField("consumer_epoch")

    run(main())


def test_clients_that_come_and_go_in_any_way_harm_nobody(broker_url, topic):
    """Consumers of all kinds are cut, closed and subscribed while others publish; one that stays gets every message."""

    async def churn(broker, number):
        kinds = ("Exclusive", "Shared", "Failover", "Key_Shared")
        for turn in range(12):
            client = await broker.connect()
            kind = kinds[(number + turn) % 4]
            client.send(
                pb.BaseCommand.SUBSCRIBE, "subscribe", topic=topic, consumer_id=0, request_id=client.next_request(),
                subscription=f"churn-{turn % 3}", subType=kind, durable=turn % 2 == 0,
            )  # fmt: skip
            command, _ = await client.receive()
            client.flow((1 << 32) - 1 if turn % 2 else 0)
            client.ack(Position(NOWHERE, NOWHERE), Position(1 << 62, 1 << 62))
            if command.HasField("success") and turn % 3 == 0:
                client.send(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0, request_id=9, force=True)
            if turn % 4 != 3:
                client.close()
            await asyncio.sleep(0)

    async def main():
        async with served(broker_url) as broker:
            steady, client = await broker.connect(), await broker.connect()
            await steady.subscribe(topic=topic, subscription="steady", permits=10_000)
            await client.producer(topic=topic)
            work = asyncio.gather(*(churn(broker, number) for number in range(4)))
            sent = []
            while not work.done():
                sent.append(b"%d" % len(sent))
                client.publish(sent[-1], len(sent), key=str(len(sent)))
                await client.expect("send_receipt")
            await work
            assert payloads(await steady.messages(len(sent))) == sent
            assert found(broker, topic, "steady").drops.dropped == 0
            assert broker.broker.pending_bytes == 0

    run(main())
