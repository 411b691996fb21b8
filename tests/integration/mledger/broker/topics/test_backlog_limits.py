"""Time to live and backlog quotas of topics with clients."""

import asyncio
import contextlib

import pytest

from mledger.bookie.errors import BookieUnavailable, NoSuchEntry
from mledger.broker.topics.backlog_limits import BacklogLimits
from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.cursors.persistence.store import CursorStore
from mledger.errors import LedgerOffloaded
from mledger.metastore.cluster.service_policies import QuotaKind, QuotaPolicy
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import HANG_S, run
from tests.support.brokers.served_broker import served
from tests.support.compacted_topics import compacted, publish_keyed

EVICTING = ("backlogQuotaDefaultLimitBytes=1", "backlogQuotaDefaultRetentionPolicy=consumer_backlog_eviction")


async def limits_of(broker):
    """The limits of a broker, and its one topic."""
    (topic,) = broker.broker.topics.open
    return BacklogLimits(lambda: [topic], broker.broker.settings), topic


def test_messages_that_outlived_their_time_are_not_delivered_again(broker_url, topic):
    async def main():
        async with served(broker_url, "ttlDurationDefaultInSeconds=60") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"old", b"older")  # published in 1970
            await client.subscribe(topic=topic, permits=10)
            await client.messages(2)
            limits, opened = await limits_of(broker)
            await limits.expire(opened)
            client.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=0
            )
            await client.publish_all(b"next")
            assert [message.payload for message in await client.messages(1)] == [b"next"]

    run(main())


def test_messages_do_not_expire_on_the_subscriptions_that_the_settings_name(broker_url, topic):
    async def main():
        settings = ("ttlDurationDefaultInSeconds=60", "additionalSystemCursorNames=audit, other")
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for number, name in enumerate(("audit", "usual")):
                await client.subscribe(number, topic=topic, subscription=name)
            await client.publish_all(b"old")  # published in 1970
            limits, opened = await limits_of(broker)
            await limits.expire(opened)
            backlogs = {name: cursor.backlog for name, cursor in opened.managed_ledger.open_cursors.items()}
            assert backlogs == {"audit": 1, "usual": 0}

    run(main())


def test_a_subscription_whose_next_messages_cannot_be_read_keeps_no_other_from_expiring(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url, "ttlDurationDefaultInSeconds=60") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for number, name in enumerate(("behind", "next")):
                await client.subscribe(number, topic=topic, subscription=name)
            positions = await client.publish_all(b"0", b"1")
            await client.ack_durably(positions[0], number=1)
            limits, opened = await limits_of(broker)
            read_entry = opened.managed_ledger.read_entry

            async def read_second(position):
                if position == positions[0]:
                    raise BookieUnavailable("the bookies of the first message are away")
                return await read_entry(position)

            monkeypatch.setattr(opened.managed_ledger, "read_entry", read_second)
            await limits.expire(opened)
            backlogs = {name: cursor.backlog for name, cursor in opened.managed_ledger.open_cursors.items()}
            assert backlogs == {"behind": 2, "next": 0}

    run(main())


@pytest.mark.parametrize("settings", [("ttlDurationDefaultInSeconds=60",), EVICTING])
def test_consumers_hold_no_longer_what_expired_even_if_that_cannot_be_written_yet(
    broker_url, topic, monkeypatch, settings
):
    """Else one that has too many unacknowledged messages gets nothing more."""

    async def write(*_):
        raise BookieUnavailable("made to fail by the test")

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for number in range(2):
                await client.subscribe(number, subscription=f"s{number}", topic=topic, subType="Shared", permits=10)
            client.publish(b"old", num_messages=2)
            await client.expect("send_receipt")
            await client.messages(2)
            limits, opened = await limits_of(broker)
            await opened.managed_ledger.initialized()
            with monkeypatch.context() as failing:
                failing.setattr(CursorStore, "write", write)
                with contextlib.suppress(BookieUnavailable):
                    await (limits.check_quota if settings is EVICTING else limits.expire)(opened)
            unacked = [c.dispatch.unacked for subscription in opened.subscriptions for c in subscription.consumers]
            assert unacked == [0, 0]

    run(main())


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("producer_request_hold", pb.ProducerBlockedQuotaExceededError),
        ("producer_exception", pb.ProducerBlockedQuotaExceededException),
    ],
)
def test_a_topic_over_its_quota_closes_its_producers_until_the_backlog_is_consumed(broker_url, topic, policy, code):
    settings = ("backlogQuotaDefaultLimitBytes=1", f"backlogQuotaDefaultRetentionPolicy={policy}")

    async def main():
        async with served(broker_url, *settings) as broker:
            client, consumer = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            await consumer.subscribe(topic=topic, permits=10)
            (position,) = await client.publish_all(b"0")
            limits, opened = await limits_of(broker)
            await limits.check_quota(opened)
            assert (await client.expect("close_producer")).producer_id == 0
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=0)
            assert refused.error == code
            await consumer.messages(1)
            await consumer.ack_durably(position)
            await limits.check_quota(opened)
            await client.producer(topic=topic)

    run(main())


@pytest.mark.parametrize("policy", ["producer_request_hold", "consumer_backlog_eviction"])
def test_the_cursor_of_deduplication_does_not_exceed_a_quota(broker_url, topic, policy):
    settings = (
        "brokerDeduplicationEnabled=true",
        "backlogQuotaDefaultLimitBytes=250",
        f"backlogQuotaDefaultRetentionPolicy={policy}",
    )

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            positions = await client.publish_all(*[bytes(100)] * 4)
            await client.ack_durably(positions[1], kind="Cumulative")
            limits, opened = await limits_of(broker)
            await limits.check_quota(opened)
            assert opened.held_by is None
            assert opened.subscriptions.get("sub").cursor.backlog == 2
            await client.publish_all(b"4")

    run(main())


@pytest.mark.parametrize("policy", ["producer_exception", "consumer_backlog_eviction"])
def test_a_topic_of_which_only_compaction_is_behind_is_compacted(broker_url, topic, policy):
    settings = ("backlogQuotaDefaultLimitBytes=250", f"backlogQuotaDefaultRetentionPolicy={policy}")

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await publish_keyed(client, "a1")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            positions = await client.publish_all(*[bytes(100)] * 4)
            await client.ack_durably(positions[1], kind="Cumulative")
            limits, opened = await limits_of(broker)
            await limits.check_quota(opened)
            assert opened.held_by is None
            assert opened.subscriptions.get("sub").cursor.backlog == 2
            async with asyncio.timeout(HANG_S):
                while opened.compaction.status is CompactionStatus.RUNNING:
                    await asyncio.sleep(0)
            assert opened.managed_ledger.open_cursors["__compaction"].backlog == 0

    run(main())


def test_a_subscription_that_is_behind_as_well_as_compaction_holds_producers(broker_url, topic):
    settings = ("backlogQuotaDefaultLimitBytes=250", "backlogQuotaDefaultRetentionPolicy=producer_exception")

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await publish_keyed(client, "a1")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            await client.publish_all(*[bytes(100)] * 4)
            limits, opened = await limits_of(broker)
            await limits.check_quota(opened)
            assert opened.held_by is QuotaPolicy.PRODUCER_EXCEPTION

    run(main())


def test_a_topic_that_is_published_to_no_more_keeps_its_sequence_ids_after_a_while(broker_url, topic):
    async def main():
        settings = ("brokerDeduplicationEnabled=true", "brokerDeduplicationSnapshotIntervalSeconds=1")
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0")
            limits, opened = await limits_of(broker)
            cursor = opened.managed_ledger.open_cursors["pulsar.dedup"]
            for check in limits.checks:
                check.start()
            async with asyncio.timeout(HANG_S):
                while cursor.backlog:
                    await asyncio.sleep(0.05)
            for check in limits.checks:
                check.stop()

    run(main())


@pytest.mark.parametrize(("precise", "left"), [("true", 0), ("false", 2)])
def test_the_age_of_a_backlog_in_the_open_ledger_counts_only_if_it_is_looked_at_precisely(
    broker_url, topic, precise, left
):
    settings = (
        "backlogQuotaDefaultLimitSecond=60",
        "backlogQuotaDefaultRetentionPolicy=consumer_backlog_eviction",
        f"preciseTimeBasedBacklogQuotaCheck={precise}",
    )

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await client.publish_all(b"old", b"older")  # published in 1970
            limits, opened = await limits_of(broker)
            await limits.check_quota(opened)
            cursor = opened.managed_ledger.open_cursors["sub"]
            assert cursor.backlog == left
            assert opened.cursor_advances.of(cursor).expired == 2 - left
            assert opened.evictions[QuotaKind.AGE] == (left == 0)

    run(main())


@pytest.mark.parametrize("error", [NoSuchEntry, BookieUnavailable, LedgerOffloaded])
def test_an_oldest_message_that_cannot_be_read_takes_no_quota_out_of_force(broker_url, topic, monkeypatch, error):
    settings = (
        "backlogQuotaDefaultLimitBytes=250",
        "backlogQuotaDefaultLimitSecond=60",
        "backlogQuotaDefaultRetentionPolicy=producer_request_hold",
        "preciseTimeBasedBacklogQuotaCheck=true",
    )

    async def lost(position):
        raise error(f"no bookie has {position}")

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            positions = await client.publish_all(*[bytes(100)] * 3)
            limits, opened = await limits_of(broker)
            monkeypatch.setattr(opened.managed_ledger, "read_entry", lost)
            await limits.check_quota(opened)
            assert (await client.expect("close_producer")).producer_id == 0
            await client.ack_durably(positions[1], kind="Cumulative")
            await limits.check_quota(opened)
            await client.producer(topic=topic)

    run(main())


def test_an_eviction_that_fails_counts_for_nothing_and_lets_producers_in_again(broker_url, topic, monkeypatch):
    async def write(*_):
        raise BookieUnavailable("made to fail by the test")

    async def main():
        async with served(broker_url, *EVICTING) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await client.publish_all(b"0", b"1")
            limits, opened = await limits_of(broker)
            opened.hold_producers(QuotaPolicy.PRODUCER_EXCEPTION)  # as a policy said before
            with monkeypatch.context() as failing:
                failing.setattr(CursorStore, "write", write)
                await limits.check_quota(opened)
            assert (opened.held_by, opened.evictions[QuotaKind.SIZE]) == (None, 0)

    run(main())
