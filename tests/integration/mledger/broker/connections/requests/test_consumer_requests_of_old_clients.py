"""Clients of old versions of the protocol: they are sent no checksums, and no batches if they cannot read these."""

import contextlib

import pytest

from mledger.broker.protocol.versions import ClientFeatures
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served

BEFORE_BATCHES = 3
assert not ClientFeatures(BEFORE_BATCHES).takes_batches


@contextlib.asynccontextmanager
async def connections(url):
    """A broker with a connection of an old client and one of a new one."""
    async with served(url, "keepAliveIntervalSeconds=0") as broker:  # nothing else cuts a client off
        yield broker, await old_client(broker), await broker.connect()


async def old_client(broker):
    old = await broker.open()
    old.send(pb.BaseCommand.CONNECT, "connect", client_version="old", protocol_version=BEFORE_BATCHES)
    assert (await old.expect("connected")).protocol_version == BEFORE_BATCHES
    return old


async def publish(client, payload, **fields):
    client.publish(payload, **fields)
    await client.expect("send_receipt")


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_a_client_that_cannot_read_batches_is_cut_off_before_it_is_sent_one(broker_url, topic, kind):
    async def main():
        async with connections(broker_url) as (_, old, new):
            await new.producer(topic=topic)
            await old.subscribe(topic=topic, subType=kind, permits=10)
            await publish(new, b"alone")
            (alone,) = await old.messages(1)
            assert not alone.entry.startswith(b"\x0e\x01")
            await publish(new, b"batch", sequence=1, num_messages=2)
            await old.closed()
            await new.subscribe(topic=topic, subType=kind, permits=10)
            assert [each.payload for each in await new.messages(2)] == [b"alone", b"batch"]

    run(main())


def test_a_batch_of_which_one_message_is_left_is_a_batch(broker_url, topic):
    async def main():
        async with connections(broker_url) as (broker, old, new):
            await new.producer(topic=topic)
            await new.subscribe(topic=topic, permits=10)
            await publish(new, b"batch", num_messages=2)
            (batch,) = await new.messages(1)
            at = {"ledgerId": batch.position.ledger_id, "entryId": batch.position.entry_id, "ack_set": [2]}
            part = {"consumer_id": 0, "ack_type": "Individual", "message_id": [pb.MessageIdData(**at)]}
            await new.request(pb.BaseCommand.ACK, "ack", "ackResponse", **part)
            await new.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            (opened,) = broker.broker.topics.open
            opened.batch_published = False  # as once it is opened again
            await old.subscribe(topic=topic, permits=10)
            await old.closed()

    run(main())


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_a_client_that_was_cut_off_at_a_batch_is_refused_when_it_comes_again(broker_url, topic, kind):
    async def main():
        async with connections(broker_url) as (_, _, new):
            await new.producer(topic=topic)
            await publish(new, b"batch", num_messages=2)
        async with connections(broker_url) as (broker, old, _):  # nobody has published since the topic was opened
            await old.subscribe(topic=topic, subType=kind, permits=10)
            await old.closed()
            wanted = {"topic": topic, "subscription": "sub", "subType": kind, "consumer_id": 0}
            again = await old_client(broker)
            refused = await again.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", **wanted)
            assert refused.error == pb.UnsupportedVersionError

    run(main())


def test_a_client_is_sent_a_batch_of_one_message(broker_url, topic):
    """As in Pulsar, whose brokers look at the number of messages."""

    async def main():
        async with connections(broker_url) as (_, old, new):
            await new.producer(topic=topic)
            await publish(new, b"one", num_messages=1)
            await old.subscribe(topic=topic, permits=10)
            (one,) = await old.messages(1)
            assert one.entry.endswith(b"one")

    run(main())


@pytest.mark.parametrize("kept", [True, False])
def test_a_client_that_cannot_read_batches_does_not_subscribe_where_some_are_published(broker_url, topic, kept):
    name = topic if kept else topic.replace("persistent", "non-persistent")

    async def main():
        async with connections(broker_url) as (_, old, new):
            await new.producer(topic=name)
            wanted = {"topic": name, "subscription": "sub", "subType": "Shared", "consumer_id": 0}
            await publish(new, b"alone")
            await old.request(pb.BaseCommand.SUBSCRIBE, "subscribe", **wanted)
            await old.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            await publish(new, b"batch", sequence=1, num_messages=2)
            refused = await old.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", **wanted)
            assert refused.error == pb.UnsupportedVersionError

    run(main())


def test_of_a_topic_that_is_not_stored_it_is_sent_no_batch_either(broker_url, topic):
    live = topic.replace("persistent", "non-persistent")

    async def main():
        async with connections(broker_url) as (broker, old, new):
            await new.producer(topic=live)
            await old.subscribe(topic=live, permits=10)
            await old.request(pb.BaseCommand.CONSUMER_STATS, "consumerStats", "consumerStatsResponse", consumer_id=0)
            await publish(new, b"batch", num_messages=2)
            await old.closed()
            (opened,) = broker.broker.topics.open
            assert opened.subscriptions.get("sub").drops.dropped == 2

    run(main())
