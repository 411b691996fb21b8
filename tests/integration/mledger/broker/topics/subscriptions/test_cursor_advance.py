"""What expired, and when clients last did something, in the figures of a subscription."""

import pytest

from mledger.broker.topics.backlog_limits import BacklogLimits
from mledger.broker.topics.nonpersistent import subscription as nonpersistent_subscription
from mledger.broker.topics.nonpersistent import topic as nonpersistent_topic
from mledger.broker.topics.subscriptions import cursor_advance, driver, subscription
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.clock import MINUTE_MS, SECOND_MS, Clock

NEVER = 0


@pytest.fixture
def clock(monkeypatch):
    """The clock by which clients' actions are dated."""
    clock = Clock()
    for module in (cursor_advance, subscription, driver, nonpersistent_subscription, nonpersistent_topic):
        monkeypatch.setattr(module, "wall_clock_ms", clock)
    return clock


def times(figures):
    """The times of a subscription or a consumer."""
    names = ("lastConsumedFlowTimestamp", "lastConsumedTimestamp", "lastAckedTimestamp")
    return [figures[name] for name in names]


async def figures(broker, topic):
    stats = await broker.get(f"{topic.replace('://', '/')}/stats")
    return stats["subscriptions"]["sub"]


def test_the_last_permits_messages_and_acknowledgements_are_dated(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url) as broker:
            client, start_ms = await broker.connect(), clock.ms
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, subType="Shared")
            assert times(await figures(broker, topic)) == [NEVER, NEVER, NEVER]
            client.flow(10)
            await client.messages(2)
            clock.ms += SECOND_MS
            await client.ack_durably(sent[1])
            found = await figures(broker, topic)
            assert times(found) == [start_ms, start_ms, start_ms + SECOND_MS]
            assert times(found["consumers"][0]) == times(found)
            assert found["lastMarkDeleteAdvancedTimestamp"] == NEVER
            clock.ms += SECOND_MS
            await client.ack_durably(sent[0])
            found = await figures(broker, topic)
            assert found["lastMarkDeleteAdvancedTimestamp"] == start_ms + 2 * SECOND_MS

    run(main())


def test_a_cumulative_acknowledgement_is_dated(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, permits=10)
            await client.messages(2)
            clock.ms += SECOND_MS
            await client.ack_durably(sent[1], kind="Cumulative")
            found = await figures(broker, topic)
            assert (found["lastAckedTimestamp"], found["lastMarkDeleteAdvancedTimestamp"]) == (clock.ms, clock.ms)

    run(main())


def test_what_expires_is_counted_also_where_nobody_consumes(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url, "ttlDurationDefaultInSeconds=60") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await broker.done("PUT", f"{topic.replace('://', '/')}/unload")
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"old", b"older")  # published in 1970
            (opened,) = broker.broker.topics.open
            await opened.managed_ledger.initialized()
            limits = BacklogLimits(lambda: [opened], broker.broker.settings)
            await limits.expire(opened)
            found = await figures(broker, topic)
            assert (found["totalMsgExpired"], found["lastExpireTimestamp"]) == (2, clock.ms)
            assert found["lastMarkDeleteAdvancedTimestamp"] == clock.ms
            expired_ms = clock.ms
            clock.ms += MINUTE_MS
            await limits.expire(opened)
            found = await figures(broker, topic)
            assert (found["totalMsgExpired"], found["lastExpireTimestamp"]) == (2, clock.ms)
            assert found["lastMarkDeleteAdvancedTimestamp"] == expired_ms

    run(main())


def test_what_expires_on_request_is_counted(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url) as broker:
            client, path = await broker.connect(), f"{topic.replace('://', '/')}/subscription/sub/expireMessages"
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await broker.done("POST", path, {"ledgerId": sent[0].ledger_id, "entryId": sent[0].entry_id})
            found = await figures(broker, topic)
            assert (found["totalMsgExpired"], found["lastExpireTimestamp"]) == (1, NEVER)
            clock.ms += SECOND_MS
            await broker.done("POST", f"{path}/60")
            found = await figures(broker, topic)
            assert (found["totalMsgExpired"], found["lastExpireTimestamp"]) == (3, clock.ms)

    run(main())


def test_consumers_of_a_topic_that_is_not_stored_have_times_too(broker_url, topic, clock):
    live = topic.replace("persistent", "non-persistent")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=live)
            await client.subscribe(topic=live, permits=10)
            client.publish(b"0", 0)
            await client.expect("send_receipt")
            (message,) = await client.messages(1)
            await client.ack_durably(message.position)
            (consumer,) = (await figures(broker, live))["consumers"]
            assert times(consumer) == [clock.ms] * 3

    run(main())
