"""Reads for the consumers of a subscription, behind a real connection."""

from mledger.broker.topics.subscriptions import driver
from mledger.cursors.cursor import Cursor
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


def test_a_read_that_fails_unexpectedly_is_tried_again(broker_url, topic, monkeypatch):
    read_positions, failed = Cursor.read_positions, []

    async def fail_once(self, positions):
        if not failed:
            failed.append(positions)
            raise RuntimeError("made to fail by the test")
        return await read_positions(self, positions)

    async def main():
        async with served(broker_url, "dispatcherReadFailureBackoffInitialTimeInMs=1") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.messages(1)
            monkeypatch.setattr(Cursor, "read_positions", fail_once)
            client.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=0
            )
            (again,) = await client.messages(1)
            assert (again.payload, len(failed)) == (b"0", 1)

    run(main())


def test_who_takes_over_waits_no_longer_though_the_clock_is_set_back(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url, "activeConsumerFailoverDelayTimeMillis=100") as broker:
            first, second, producer = [await broker.connect() for _ in range(3)]
            await producer.producer(topic=topic)
            await producer.publish_all(b"0")
            await first.subscribe(topic=topic, subType="Failover", permits=10)
            await second.subscribe(topic=topic, subType="Failover", priority_level=1, permits=10)
            assert not (await second.expect("active_consumer_change")).is_active
            monkeypatch.setattr(driver, "wall_clock_ms", lambda: wall_clock_ms() - 3_600_000)
            first.close()
            assert (await second.expect("active_consumer_change")).is_active
            (message,) = await second.messages(1)
            assert message.payload == b"0"

    run(main())


def test_delayed_messages_come_by_the_clock_as_it_is_set(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url) as broker:
            client, producer = await broker.connect(), await broker.connect()
            await producer.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            producer.publish(b"in an hour", 0, deliver_at=wall_clock_ms() + 3_600_000)
            producer.publish(b"now", 1)
            assert [message.payload for message in await client.messages(1)] == [b"now"]
            monkeypatch.setattr(driver, "wall_clock_ms", lambda: wall_clock_ms() + 3_600_000)
            client.flow(1)
            assert [message.payload for message in await client.messages(1)] == [b"in an hour"]
            producer.publish(b"in half an hour", 2, deliver_at=wall_clock_ms() + 3_600_000 + 1_800_000)
            producer.publish(b"now", 3)
            monkeypatch.setattr(driver, "wall_clock_ms", wall_clock_ms)  # set back
            assert [message.payload for message in await client.messages(1)] == [b"now"]

    run(main())
