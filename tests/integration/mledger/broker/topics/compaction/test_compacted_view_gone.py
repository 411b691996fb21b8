"""The compacted ledger is gone: consumers read what the topic still has, and compaction begins anew with that (C12)."""

import asyncio

import pytest

from mledger.bookie.errors import NoSuchEntry
from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.events import CompactedLedgerGone
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served
from tests.support.cli import ok
from tests.support.compacted_topics import compacted, publish_keyed, topic_of, view_of
from tests.support.topics import assert_nothing_orphaned, managed_ledger_of

COMPACTED = "CompactedTopicLedger"
KEPT = {"retention_time_ms": -1, "retention_size_in_mb": -1}
"""The topic keeps what was compacted."""
ONE_BOOKIE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)


def named(broker, topic):
    """The compacted ledger that the cursor names."""
    return topic_of(broker, topic).managed_ledger.open_cursors["__compaction"].properties.get(COMPACTED)


async def compact_and_lose(broker, topic, client, *values):
    """Publish, compact, and delete the compacted ledger. Returns the positions of the messages."""
    sent = await publish_keyed(client, *values)
    assert await compacted(broker, topic) is CompactionStatus.SUCCESS
    await broker.cluster.bookkeeper.delete_ledger(named(broker, topic))
    return sent


async def producing(broker, topic):
    client = await broker.connect()
    await client.producer(topic=topic)
    return client


def seen_by(broker, monkeypatch):
    """The events of topics from now on."""
    events = []
    monkeypatch.setattr(broker.broker.topics, "_events", events.append)
    return events


@pytest.mark.parametrize("newer", [(), ("b2", "c1")], ids=["nothing_new", "newer_messages"])
def test_readers_get_the_topic_itself_and_compaction_begins_anew_with_it(broker_url, topic, newer, monkeypatch):
    async def main():
        async with served(broker_url, **KEPT) as broker:
            sent = await compact_and_lose(broker, topic, await producing(broker, topic), "a1", "a2", "b1")
        async with served(broker_url, **KEPT) as broker:
            events, client = seen_by(broker, monkeypatch), await producing(broker, topic)
            sent += await publish_keyed(client, *newer)
            values = ["a1", "a2", "b1", *newer]
            everything = [(position, [value]) for position, value in zip(sent, values, strict=True)]
            assert await view_of(broker, topic) == everything
            assert [type(event) for event in events].count(CompactedLedgerGone) == 1
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            left = [(position, values) for position, values in everything if values != ["a1"]]
            assert await view_of(broker, topic) == (left[:1] + left[2:] if newer else left)
        await assert_nothing_orphaned(broker_url, managed_ledger_of(topic))

    run(main())


def test_a_ledger_lost_while_it_is_being_read_ends_the_view_where_the_reader_is(broker_url, topic, monkeypatch):
    async def missing(first, last, max_bytes=None):
        raise NoSuchEntry("no bookie has it")

    async def main():
        async with served(broker_url, "dispatcherReadFailureBackoffInitialTimeInMs=1") as broker:
            client, reader = await producing(broker, topic), await broker.connect()
            sent = await publish_keyed(client, *(f"{key}1" for key in "abcdef"))
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            await reader.subscribe(topic=topic, permits=1, read_compacted=True, durable=False)
            (first,) = await reader.messages(1)
            assert first.position == sent[0]
            await broker.cluster.bookkeeper.delete_ledger(named(broker, topic))
            monkeypatch.setattr(topic_of(broker, topic).compacted._latest._reader, "read", missing)
            reader.flow(10)
            assert [message.position for message in await reader.messages(5)] == sent[1:]

    run(main())


def test_messages_that_only_it_had_are_lost_and_the_event_says_so(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url) as broker:
            client = await producing(broker, topic)
            await compact_and_lose(broker, topic, client, "a1", "b1")
            managed_ledger = topic_of(broker, topic).managed_ledger
            await managed_ledger.roll_over()
            sent = await publish_keyed(client, "c1")
            await managed_ledger.trim()
            assert managed_ledger.ledger_list.first_position.ledger_id == sent[0].ledger_id
        async with served(broker_url) as broker:
            events = seen_by(broker, monkeypatch)
            await producing(broker, topic)
            assert await view_of(broker, topic) == [(sent[0], ["c1"])]
            (event,) = [each for each in events if isinstance(each, CompactedLedgerGone)]
            assert event.kept_after.ledger_id == sent[0].ledger_id
            assert "are lost" in event.describe()
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            assert await view_of(broker, topic) == [(sent[0], ["c1"])]

    run(main())


def test_compaction_begins_anew_after_a_deletion_of_its_cursor_was_undone(broker_url, topic, tmp_path):
    async def main():
        async with served(broker_url, **KEPT) as broker:
            await publish_keyed(await producing(broker, topic), "a1", "a2", "b1")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
        file, again = tmp_path / "undo.json", tmp_path / "redo.json"
        delete = ("cursors", "delete", topic, "__compaction", "--yes", "--undo-file", file)
        await asyncio.to_thread(ok, *delete, *ONE_BOOKIE, url=broker_url)
        await asyncio.to_thread(ok, "undo", file, "--yes", "--undo-file", again, url=broker_url)
        async with served(broker_url, **KEPT) as broker:
            await publish_keyed(await producing(broker, topic), "c1")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            assert [values for _, values in await view_of(broker, topic)] == [["a2"], ["b1"], ["c1"]]

    run(main())


def test_a_compactor_of_its_own_reads_the_topic_from_its_first_entry(broker_url, topic):
    async def main():
        async with served(broker_url, **KEPT) as broker:
            sent = await compact_and_lose(broker, topic, await producing(broker, topic), "a1", "b1")
        async with served(broker_url, **KEPT) as broker:
            compactor = await broker.connect()
            await compactor.subscribe(topic=topic, permits=10, subscription="__compaction", read_compacted=True)
            answer = await compactor.request(
                pb.BaseCommand.GET_LAST_MESSAGE_ID, "getLastMessageId", "getLastMessageIdResponse", consumer_id=0
            )
            assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == sent[1]
            assert [message.position for message in await compactor.messages(2)] == sent

    run(main())
