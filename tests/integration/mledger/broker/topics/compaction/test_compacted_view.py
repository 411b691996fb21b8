"""The compacted view over a real connection: what compaction kept, then the topic."""

import pytest

import mledger
from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import entry_of, served
from tests.support.compacted_topics import compacted, publish_keyed, topic_of


async def compact(broker, topic, kept, horizon):
    """Do what Pulsar's compaction does: keep these entries, and say up to where they stand for the topic."""
    writer = await broker.cluster.bookkeeper.create_ledger(1, 1, 1)
    stored = []
    for position, entry in kept:
        message_id = pb.MessageIdData(ledgerId=position.ledger_id, entryId=position.entry_id).SerializeToString()
        stored.append(b"".join(len(part).to_bytes(4, "big") + part for part in (message_id, entry)))
    await writer.append(stored)
    await writer.close()
    opened = broker.cluster.opened[mledger.TopicName.parse(topic).managed_ledger_name]
    cursor = await opened.open_cursor("__compaction")
    await cursor.acknowledge_cumulative(horizon, {"CompactedTopicLedger": writer.ledger_id})


async def last_message(client):
    """The position of the last message, and its index in its batch."""
    answer = await client.request(
        pb.BaseCommand.GET_LAST_MESSAGE_ID, "getLastMessageId", "getLastMessageIdResponse", consumer_id=0
    )
    last = answer.last_message_id
    return Position(last.ledgerId, last.entryId), last.batch_index


def test_a_reader_gets_what_compaction_kept_and_then_the_topic(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, reader = await broker.connect(), await broker.connect()
            older = await broker.cluster.bookkeeper.create_ledger(1, 1, 1)
            await older.close()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"a1", b"b1", b"a2", b"gone")
            trimmed = Position(older.ledger_id, 7)  # of a ledger that the topic has no more
            kept = [(trimmed, entry_of(b"c1")), (sent[1], entry_of(b"b1")), (sent[2], entry_of(b"a2"))]
            await compact(broker, topic, kept, sent[3])
            await reader.subscribe(topic=topic, permits=2, read_compacted=True, durable=False)
            first = await reader.messages(2)
            assert [message.payload for message in first] == [b"c1", b"b1"]
            assert [message.position for message in first] == [trimmed, sent[1]]
            assert await last_message(reader) == (sent[2], -1)
            reader.flow(10)
            assert [message.payload for message in await reader.messages(1)] == [b"a2"]
            (new,) = await client.publish_all(b"new")
            assert [(each.payload, each.position) for each in await reader.messages(1)] == [(b"new", new)]
            assert await last_message(reader) == (new, -1)
            reader.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=0
            )
            again = [message.payload for message in await reader.messages(4)]
            assert again == [b"c1", b"b1", b"a2", b"new"]

    run(main())


async def trimmed_topic(broker, topic, client):
    """A topic of which compaction kept three messages of a ledger that is gone; returns their positions."""
    older = await broker.cluster.bookkeeper.create_ledger(1, 1, 1)
    await older.close()
    await client.producer(topic=topic)
    (last,) = await client.publish_all(b"last")
    trimmed = [Position(older.ledger_id, number) for number in range(3)]
    await compact(broker, topic, [(at, entry_of(b"%d" % at.entry_id)) for at in trimmed], last)
    return trimmed


def test_a_reader_that_comes_again_goes_on_in_what_compaction_kept(broker_url, topic):
    """As after a restart of its broker: its client names the last message that it has, which the topic has no more."""

    async def main():
        async with served(broker_url) as broker:
            client, reader = await broker.connect(), await broker.connect()
            trimmed = await trimmed_topic(broker, topic, client)
            start = {"ledgerId": trimmed[0].ledger_id, "entryId": 0}
            wanted = {"read_compacted": True, "durable": False, "initialPosition": "Latest"}
            await reader.subscribe(topic=topic, permits=2, start_message_id=start, **wanted)
            assert [message.position for message in await reader.messages(2)] == trimmed[:2]  # the client drops one
            (new,) = await client.publish_all(b"new")
            reader.flow(10)
            assert [message.position for message in await reader.messages(2)] == [trimmed[2], new]

    run(main())


@pytest.mark.parametrize("durable", [True, False])
def test_a_seek_goes_to_a_message_that_only_compaction_kept(broker_url, topic, durable):
    async def main():
        async with served(broker_url) as broker:
            client, reader = await broker.connect(), await broker.connect()
            trimmed = await trimmed_topic(broker, topic, client)
            wanted = {"topic": topic, "read_compacted": True, "durable": durable, "initialPosition": "Latest"}
            await reader.subscribe(**wanted)
            to = {"ledgerId": trimmed[1].ledger_id, "entryId": 1}
            reader.send(pb.BaseCommand.SEEK, "seek", consumer_id=0, request_id=reader.next_request(), message_id=to)
            await reader.expect("close_consumer")
            await reader.expect("success")
            await reader.subscribe(permits=2, **wanted)
            assert [message.position for message in await reader.messages(2)] == trimmed[1:]

    run(main())


def test_a_reader_that_comes_during_a_trim_gets_what_compaction_kept(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url) as broker:
            client, reader = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            sent = await publish_keyed(client, "a1", "b1")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            managed_ledger = topic_of(broker, topic).managed_ledger
            await managed_ledger.roll_over()
            monkeypatch.setattr(managed_ledger._trimmer, "_dropping", [sent[0].ledger_id])
            await reader.subscribe(topic=topic, permits=2, read_compacted=True, durable=False)
            assert [message.position for message in await reader.messages(2)] == sent

    run(main())


def test_what_a_subscription_acknowledged_of_the_view_does_not_come_again(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"a1", b"b1", b"c1", b"d1")
            kept = [(position, entry_of(name)) for position, name in zip(sent, (b"a1", b"b1", b"c1"), strict=False)]
            await compact(broker, topic, kept, sent[3])
            await client.subscribe(topic=topic, permits=10, read_compacted=True)
            assert len(await client.messages(3)) == 3
            await client.ack_durably(sent[1])
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            await client.subscribe(1, topic=topic, permits=10, read_compacted=True)
            assert [message.payload for message in await client.messages(2)] == [b"a1", b"c1"]

    run(main())


def test_compaction_reads_what_it_kept_and_what_came_since_each_time_it_starts_over(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, compactor = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"a1", b"a2", b"b1")
            await compact(broker, topic, [(sent[1], entry_of(b"a2"))], sent[1])
            for number in range(2):
                await compactor.subscribe(
                    number, topic=topic, permits=10, subscription="__compaction", read_compacted=True
                )
                assert [message.payload for message in await compactor.messages(2)] == [b"a2", b"b1"]
                compactor.send(
                    pb.BaseCommand.SEEK,
                    "seek",
                    consumer_id=number,
                    request_id=compactor.next_request(),
                    message_id=pb.MessageIdData(ledgerId=sent[1].ledger_id, entryId=sent[1].entry_id),
                )
                assert (await compactor.expect("close_consumer")).consumer_id == number
                await compactor.expect("success")

    run(main())


def test_readers_of_the_view_do_not_set_compaction_back_while_it_reads(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, compactor, reader = [await broker.connect() for _ in range(3)]
            await client.producer(topic=topic)
            sent = await client.publish_all(b"a1", b"b1", b"c1", b"d1")
            await compact(broker, topic, [(sent[0], entry_of(b"a1"))], sent[0])
            await compactor.subscribe(topic=topic, permits=3, subscription="__compaction", read_compacted=True)
            assert [message.payload for message in await compactor.messages(3)] == [b"a1", b"b1", b"c1"]
            await reader.subscribe(topic=topic, permits=4, read_compacted=True, durable=False)
            assert len(await reader.messages(4)) == 4
            assert await last_message(reader) == (sent[3], -1)
            compactor.flow(3)
            assert [message.payload for message in await compactor.messages(1)] == [b"d1"]
            (new,) = await client.publish_all(b"new")
            assert [message.position for message in await compactor.messages(1)] == [new]

    run(main())


def test_only_subscriptions_of_one_reader_see_the_compacted_view(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE,
                "subscribe",
                "error",
                topic=topic,
                subscription="sub",
                subType="Shared",
                consumer_id=0,
                read_compacted=True,
            )
            assert refused.error == pb.NotAllowedError

    run(main())


def test_the_compacted_ledger_of_another_topic_is_not_read(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            owner, other = await broker.connect(), await broker.connect()
            await owner.producer(topic=topic)
            await publish_keyed(owner, "a-secret")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            theirs = topic_of(broker, topic).managed_ledger.open_cursors["__compaction"].properties
            await other.producer(topic=f"{topic}-2")
            (sent,) = await other.publish_all(b"own")
            cursor = await topic_of(broker, f"{topic}-2").managed_ledger.open_cursor("__compaction")
            await cursor.acknowledge_cumulative(sent, theirs)
            reader = await broker.connect()
            await reader.subscribe(topic=f"{topic}-2", read_compacted=True, durable=False)
            refused = await reader.request(
                pb.BaseCommand.GET_LAST_MESSAGE_ID, "getLastMessageId", "error", consumer_id=0
            )
            assert "another topic's" in refused.message

    run(main())


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("named", [True, False], ids=["from a message", "from the earliest"])
def test_redelivery_gives_what_compaction_kept_only_to_a_reader_that_has_not_acknowledged_more(
    broker_url, topic, named, acknowledged
):
    """Its cursor is at the topic's first message again in either case, since all ledgers that it had read are trimmed.

    Only the cursor of who has acknowledged came there by consuming.
    """

    async def main():
        async with served(broker_url) as broker:
            client, reader = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            managed_ledger = topic_of(broker, topic).managed_ledger
            sent = await publish_keyed(client, "a1", "b1")
            await compact_and_trim(broker, topic)
            sent += await publish_keyed(client, "c1")
            start = {"ledgerId": sent[0].ledger_id, "entryId": sent[0].entry_id}
            wanted = {"start_message_id": start, "initialPosition": "Latest"} if named else {}
            await reader.subscribe(topic=topic, permits=100, read_compacted=True, durable=False, **wanted)
            assert [message.position for message in await reader.messages(3)] == sent
            if acknowledged:
                await reader.ack_durably(sent[2], kind="Cumulative")
            await compact_and_trim(broker, topic)
            (cursor,) = managed_ledger.non_durable_cursors.values()
            assert cursor.mark_delete > sent[2]
            reader.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=0
            )
            new = await publish_keyed(client, "d1")
            expected = new if acknowledged else sent + new
            assert [message.position for message in await reader.messages(len(expected))] == expected

    run(main())


async def compact_and_trim(broker, topic):
    """Compact a topic, and trim all that it has."""
    assert await compacted(broker, topic) is CompactionStatus.SUCCESS
    managed_ledger = topic_of(broker, topic).managed_ledger
    await managed_ledger.roll_over()
    await managed_ledger.trim()
