"""When a topic is compacted by itself: Pulsar's keyed topics without a threshold, others only with one (C12)."""

import asyncio

import pytest

from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.cursors.compaction import COMPACTION
from tests.support.aio import run
from tests.support.brokers.served_broker import served
from tests.support.compacted_topics import publish_keyed, topic_of, view_of


@pytest.fixture
def policy_events(own_topic):
    """The topic with the policies of the topics of a namespace."""
    return own_topic.removesuffix("/t") + "/__change_events"


async def open_with(broker, topic, *values):
    client = await broker.connect()
    await client.producer(topic=topic)
    await publish_keyed(client, *values)
    return topic_of(broker, topic)


async def ended(compaction):
    """How the compaction that was begun ended; NOT_RUN if none was."""
    while compaction.status is CompactionStatus.RUNNING:
        await asyncio.sleep(0.005)
    return compaction.status


def test_a_system_topic_is_compacted_without_a_threshold_and_then_trimmed(broker_url, own_topic):
    snapshots = own_topic.removesuffix("/t") + "/__transaction_buffer_snapshot"

    async def main():
        async with served(broker_url) as broker:
            topic = await open_with(broker, snapshots, "a1", "a2", "b1")
            await topic.compaction.start_if_due()
            assert await ended(topic.compaction) is CompactionStatus.SUCCESS
            before = topic.managed_ledger.last_confirmed
            await topic.managed_ledger.roll_over()
            await topic.managed_ledger.trim()
            assert topic.managed_ledger.ledger_list.first_position.ledger_id > before.ledger_id
            assert [values for _, values in await view_of(broker, snapshots)] == [["a2"], ["b1"]]

    run(main())


def test_they_are_not_compacted_again_while_nothing_is_published(broker_url, policy_events):
    async def main():
        async with served(broker_url) as broker:
            topic = await open_with(broker, policy_events, "a1", "a2")
            await topic.compaction.start_if_due()
            assert await ended(topic.compaction) is CompactionStatus.SUCCESS
            ledger = topic.managed_ledger.open_cursors[COMPACTION].properties
            await topic.compaction.start_if_due()
            await ended(topic.compaction)
            assert topic.managed_ledger.open_cursors[COMPACTION].properties == ledger

    run(main())


def test_events_whose_compacted_ledger_is_gone_are_compacted_only_on_request(broker_url, policy_events):
    async def main():
        async with served(broker_url) as broker:
            topic = await open_with(broker, policy_events, "a1", "a2")
            await topic.compaction.start_if_due()
            assert await ended(topic.compaction) is CompactionStatus.SUCCESS
            lost = topic.managed_ledger.open_cursors[COMPACTION].properties["CompactedTopicLedger"]
            await broker.cluster.bookkeeper.delete_ledger(lost)
        async with served(broker_url) as broker:
            topic = await open_with(broker, policy_events, "b1")
            await topic.compaction.start_if_due()
            assert await ended(topic.compaction) is CompactionStatus.NOT_RUN
            topic.compaction.start()
            assert await ended(topic.compaction) is CompactionStatus.SUCCESS

    run(main())


def test_another_topic_is_not_compacted_without_a_threshold(broker_url, own_topic):
    async def main():
        async with served(broker_url) as broker:
            topic = await open_with(broker, own_topic, "a1", "a2")
            await topic.compaction.start_if_due()
            assert await ended(topic.compaction) is CompactionStatus.NOT_RUN
            assert COMPACTION not in topic.managed_ledger.cursors

    run(main())
