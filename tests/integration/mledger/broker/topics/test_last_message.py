"""The last message of a topic, as clients ask for it: only what a consumer receives counts."""

import asyncio
from dataclasses import replace

import pulsar
import pytest
from msgspec import structs

import mledger
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import NO_MESSAGE, entry_with, served
from tests.support.pulsar_entries import pulsar_entry
from tests.support.topics import KEEP

ONE_COPY = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
NONE = Position(-1, -1), -1
MARKER = entry_with(
    pb.MessageMetadata(producer_name="raw", sequence_id=9, publish_time=1, marker_type=10).SerializeToString()
)


async def last_message(client):
    answer = await client.request(
        pb.BaseCommand.GET_LAST_MESSAGE_ID, "getLastMessageId", "getLastMessageIdResponse", consumer_id=0
    )
    last = answer.last_message_id
    ledger_id, entry_id = (-1 if each >> 63 else each for each in (last.ledgerId, last.entryId))
    return Position(ledger_id, entry_id), last.batch_index


def read_all(port, topic):
    """What a reader of an official client reads as long as it is told that there is more."""
    client = pulsar.Client(f"pulsar://127.0.0.1:{port}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader, found = client.create_reader(topic, pulsar.MessageId.earliest), []
        while reader.has_message_available():
            found.append(reader.read_next(10_000).data())
        return found
    finally:
        client.close()


@pytest.mark.parametrize("entry", [MARKER, NO_MESSAGE], ids=["marker", "no message"])
def test_an_entry_that_no_consumer_receives_is_not_the_last_message(broker_url, topic, entry):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            client.publish(b"batch", 0, num_messages=3)
            await client.expect("send_receipt")
            stored = await client.store(entry, 3)
            await client.subscribe(topic=topic)
            assert await last_message(client) == (Position(stored.ledger_id, stored.entry_id - 1), 2)

    run(main())


def test_of_such_entries_alone_there_is_no_last_message(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.store(NO_MESSAGE)
            await client.store(MARKER)
            await client.subscribe(topic=topic)
            assert await last_message(client) == NONE

    run(main())


def test_a_topic_without_messages_has_none_in_no_ledger(broker_url, topic):
    """Pulsar answers so too: as to where its first message would be, clients compare nothing."""

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            assert await last_message(client) == NONE
            await client.producer(topic=topic)
            await client.ack_durably(*await client.publish_all(b"consumed"))
            (opened,) = broker.broker.topics.open
            await opened.managed_ledger.roll_over()
            await opened.managed_ledger.trim()
            assert await last_message(client) == NONE

    run(main())


def test_a_reader_does_not_wait_for_a_marker(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"one", b"two")
            await client.store(MARKER)
            assert await asyncio.to_thread(read_all, broker.port, topic) == [b"one", b"two"]

    run(main())


def test_a_topic_that_was_terminated_in_an_empty_ledger_has_a_last_message(broker_url, topic):
    """As Pulsar terminates a topic that it has just loaded."""

    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_COPY) as cluster:
            opened = await cluster.create_topic(topic)
            last = await opened.add(pulsar_entry(0, b"last"))
            await opened.close()
            opened = await cluster.open_topic(topic)
            empty = Position(opened.ledgers[-1].ledger_id, -1)
            await opened.abandon()
            path = managed_ledger_path(opened.name)
            node = await cluster.store.get(path)
            ended = structs.replace(decode_managed_ledger_info(node.data).value, terminated=empty)
            await cluster.store.put(path, encode_managed_ledger_info(ended), node.version)
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            assert await last_message(client) == (last, -1)

    run(main())
