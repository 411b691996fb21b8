"""The broker's metadata before entries: numbers of messages, over restarts and trimming, and who is sent them."""

import asyncio
import time

from mledger.broker.settings import ENTRY_METADATA
from mledger.messages.pulsar_message import decode_entry
from mledger.metastore.errors import StoreUnavailable
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.appender import AddTimedOut
from tests.support.aio import HANG_S, run
from tests.support.brokers.served_broker import NO_MESSAGE, served

BOTH = f"brokerEntryMetadataInterceptors={','.join(ENTRY_METADATA)}"
EXPOSED = "exposingBrokerEntryMetadataToClientEnabled=true"
READS_IT = pb.FeatureFlags(supports_broker_entry_metadata=True)


async def brokers_metadata(client, count):
    """The broker's metadata of the next messages, as they are sent."""
    return [decode_entry(message.entry).broker for message in await client.messages(count)]


def test_messages_are_numbered_and_clients_that_ask_are_told(broker_url, topic):
    async def main():
        async with served(broker_url, BOTH, EXPOSED) as broker:
            client = await broker.connect(feature_flags=READS_IT)
            before = time.time_ns() // 1_000_000
            await client.producer(topic=topic)
            client.publish(b"batch", 0, num_messages=3)
            await client.expect("send_receipt")
            await client.publish_all(b"one", b"two")
            await client.subscribe(topic=topic, permits=10)
            found = await brokers_metadata(client, 3)
            assert [each.index for each in found] == [2, 3, 4]
            assert all(before <= each.broker_timestamp <= time.time_ns() // 1_000_000 for each in found)
            other = await broker.connect()
            await other.subscribe(topic=topic, subscription="other", permits=10)
            assert await brokers_metadata(other, 3) == [None] * 3

    run(main())


def test_without_the_setting_clients_are_not_told(broker_url, topic):
    async def main():
        async with served(broker_url, BOTH) as broker:
            client = await broker.connect(feature_flags=READS_IT)
            await client.producer(topic=topic)
            await client.publish_all(b"one")
            await client.subscribe(topic=topic, permits=10)
            assert await brokers_metadata(client, 1) == [None]

    run(main())


def test_numbers_go_on_after_a_restart(broker_url, topic):
    async def main():
        for first in (0, 2, 4):
            async with served(broker_url, BOTH, EXPOSED) as broker:
                client = await broker.connect(feature_flags=READS_IT)
                await client.subscribe(topic=topic, initialPosition="Latest", subscription=f"from-{first}", permits=10)
                await client.producer(topic=topic)
                await client.publish_all(b"one", b"two")
                found = []
                while len(found) < 2:
                    command, payload = await client.receive()
                    if command.HasField("message"):
                        found.append(decode_entry(payload).broker.index)
                assert found == [first, first + 1]

    run(main())


def test_the_number_is_kept_with_the_topic_when_a_ledger_is_full(broker_url, topic):
    async def main():
        small = {"max_entries_per_ledger": 2, "minimum_rollover_time_ms": 0}
        async with served(broker_url, BOTH, **small) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for sequence in range(6):
                client.publish(b"x", sequence)
                await client.expect("send_receipt")
            (managed_ledger,) = broker.cluster.opened.values()
            async with asyncio.timeout(HANG_S):
                while managed_ledger.properties.get("index") != "5":
                    await asyncio.sleep(0)

    run(main())


def test_a_last_entry_that_is_no_message_keeps_no_topic_from_being_served(broker_url, topic):
    """Whoever may publish can send one: the broker checks checksums, not what is in an entry."""

    async def main():
        async with served(broker_url, BOTH) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"one", b"two")
            await client.store(NO_MESSAGE, 2)
        async with served(broker_url, BOTH, EXPOSED) as broker:
            client = await broker.connect(feature_flags=READS_IT)
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, initialPosition="Latest", permits=10)
            await client.publish_all(b"three")
            assert [each.index for each in await brokers_metadata(client, 1)] == [3]

    run(main())


def test_numbers_go_on_though_all_that_had_one_is_trimmed(broker_url, topic):
    async def main():
        async with served(broker_url, BOTH, minimum_rollover_time_ms=0) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic)
            await client.ack_durably(sent[-1], kind="Cumulative")
            (managed_ledger,) = broker.cluster.opened.values()
            await managed_ledger.roll_over()  # as after a while without messages
            await managed_ledger.trim()
            assert not managed_ledger.ledger_list.exists(sent[-1])
        async with served(broker_url, BOTH, EXPOSED) as broker:
            client = await broker.connect(feature_flags=READS_IT)
            await client.producer(topic=topic)
            await client.publish_all(b"3")
            await client.subscribe(topic=topic, permits=10)
            assert [each.index for each in await brokers_metadata(client, 1)] == [3]

    run(main())


def test_a_message_that_failed_and_is_stored_after_all_shares_its_number_with_none(broker_url, topic):
    async def main():
        async with served(broker_url, BOTH, EXPOSED) as broker:
            client = await broker.connect(feature_flags=READS_IT)
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            (first,) = await client.publish_all(b"0")
            (managed_ledger,) = broker.cluster.opened.values()
            ledgers = managed_ledger._ledgers
            verify_owner = ledgers.verify_owner

            async def fail(**_):
                while (await broker.cluster.bookkeeper.peek(first.ledger_id)).last_entry < 1:  # nobody knows that it is
                    await asyncio.sleep(0.01)
                ledgers.verify_owner = verify_owner
                raise StoreUnavailable("made to fail by the test")

            ledgers.verify_owner = fail
            current = managed_ledger._appender.current
            push = current.push

            def push_and_fail(*batch):
                push(*batch)
                current.fail(AddTimedOut("made to fail by the test"))  # before a bookie can have answered

            current.push = push_and_fail
            client.publish(b"1", 1)
            await client.expect("close_producer")
            await client.producer(1, topic=topic)
            client.publish(b"1", 1, 1)
            await client.expect("send_receipt")
            client.flow(10)
            assert [each.index for each in await brokers_metadata(client, 3)] == [0, 1, 2]

    run(main())
