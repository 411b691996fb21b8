"""What a subscription's backlog has, and whether the subscription is marked as replicated."""

import asyncio

from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import REPLICATED_SUBSCRIPTION
from tests.support.admin_rest import web_served
from tests.support.aio import run

COUNTED = {
    "markerMessages": 0,
    "filterRejectedEntries": 0,
    "filterRescheduledEntries": 0,
    "filterRejectedMessages": 0,
    "filterRescheduledMessages": 0,
}


def path_of(topic):
    return topic.replace("://", "/")


def shown(count, first=None, last=None, *, aborted=False):
    """What is answered for so many messages, each an entry."""
    ends = {"firstMessageId": first, "lastMessageId": last} if count else {}
    names = ("entries", "messages", "filterAcceptedEntries", "filterAcceptedMessages")
    places = {name: f"{at.ledger_id}:{at.entry_id}" for name, at in ends.items()}
    return COUNTED | dict.fromkeys(names, count) | {"aborted": aborted} | places


async def analyzed(broker, path, body=None):
    answer = await broker.ask("POST", path, body)
    assert answer.status == 200, answer
    return answer.json


def at(position):
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


def test_a_backlog_is_analyzed_and_stays_as_it_is(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            path = f"{path_of(topic)}/subscription/sub/analyzeBacklog"
            assert await analyzed(broker, path) == shown(0)
            sent = await client.publish_all(*(b"%d" % number for number in range(6)))
            await client.messages(6)
            for body in (None, {}, "earliest", {"ledgerId": -1, "entryId": -1}):
                assert await analyzed(broker, path, body) == shown(6, sent[0], sent[5])
            await client.ack_durably(sent[0])
            await client.ack_durably(sent[3])
            assert await analyzed(broker, path) == shown(4, sent[1], sent[5])
            assert await analyzed(broker, path, at(sent[4])) == shown(2, sent[4], sent[5])
            assert await analyzed(broker, path, at(sent[0])) == shown(5, sent[0], sent[5])
            assert await analyzed(broker, path, "latest") == shown(0)
            stats = await broker.get(f"{path_of(topic)}/stats")
            assert stats["subscriptions"]["sub"]["msgBacklog"] == 4

    run(main())


def test_a_scan_ends_at_the_broker_s_limits(broker_url, topic):
    async def main():
        async with web_served(broker_url, "subscriptionBacklogScanMaxEntries=2") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            path = f"{path_of(topic)}/subscription/sub/analyzeBacklog"
            assert await analyzed(broker, path) == shown(2, sent[0], sent[1], aborted=True)
            assert await analyzed(broker, path, at(sent[1])) == shown(2, sent[1], sent[2])
            answers = await asyncio.gather(*(analyzed(broker, path) for _ in range(20)))
            assert answers == [shown(2, sent[0], sent[1], aborted=True)] * 20

    run(main())


def test_what_cannot_be_analyzed_is_refused(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/subscription/sub")
            for body in ([1], 1, True, {"ledgerId": "x"}, {"ledgerId": 2**70}, {"ledgerId": None}, "soon", b"{"):
                assert (await broker.refused("POST", f"{path}/subscription/sub/analyzeBacklog", body))[0] == 400, body
            for missing in (f"{path}/subscription/none", f"{path}-none/subscription/sub"):
                assert (await broker.refused("POST", f"{missing}/analyzeBacklog"))[0] == 404
                assert (await broker.refused("GET", f"{missing}/replicatedSubscriptionStatus"))[0] == 404
            await broker.done("PUT", f"{path}-many/partitions", 2)
            assert (await broker.refused("POST", f"{path}-many/subscription/sub/analyzeBacklog"))[0] == 405

    run(main())


def test_a_subscription_says_whether_it_is_marked_as_replicated(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            many = f"{topic}-many"
            await broker.done("PUT", f"{path_of(many)}/partitions", 2)
            for each in (topic, many):
                await broker.done("PUT", f"{path_of(each)}/subscription/sub")
            status = "subscription/sub/replicatedSubscriptionStatus"
            assert await broker.get(f"{path_of(topic)}/{status}") == {topic: False}
            partitions = [f"{many}-partition-{number}" for number in range(2)]
            assert await broker.get(f"{path_of(many)}/{status}") == dict.fromkeys(partitions, False)
            assert await broker.get(f"{path_of(partitions[1])}/{status}") == {partitions[1]: False}

            client = await broker.connect()
            await client.producer(topic=topic)
            (sent,) = await client.publish_all(b"0")
            cursor = await broker.cluster.opened[TopicName.parse(topic).managed_ledger_name].open_cursor("sub")
            cursor.acknowledge_cumulative(sent, {REPLICATED_SUBSCRIPTION: 1})  # as Java's brokers mark one
            assert await broker.get(f"{path_of(topic)}/{status}") == {topic: True}

    run(main())


def test_a_subscription_is_created_as_a_replicated_one(broker_url, topic):
    async def main():
        many, status = f"{topic}-many", "subscription/sub/replicatedSubscriptionStatus"
        partitions = [f"{many}-partition-{number}" for number in range(2)]
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"{path_of(many)}/partitions", 2)
            for each in (topic, many):
                await broker.done("PUT", f"{path_of(each)}/subscription/sub?replicated=true")
        async with web_served(broker_url) as broker:
            assert await broker.get(f"{path_of(topic)}/{status}") == {topic: True}
            assert await broker.get(f"{path_of(many)}/{status}") == dict.fromkeys(partitions, True)
            stats = await broker.get(f"{path_of(topic)}/stats")
            assert stats["subscriptions"]["sub"]["isReplicated"] is True

    run(main())


def test_a_subscription_that_is_created_as_a_replicated_one_at_a_message_is_that(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            positions = await client.publish_all(b"0", b"1")
            await broker.done("PUT", f"{path_of(topic)}/subscription/sub?replicated=true", at(positions[1]))
            status = f"{path_of(topic)}/subscription/sub/replicatedSubscriptionStatus"
            assert await broker.get(status) == {topic: True}

    run(main())


def test_a_subscription_is_marked_as_replicated_and_unmarked_durably(broker_url, topic):
    async def main():
        many, status = f"{topic}-many", "subscription/sub/replicatedSubscriptionStatus"
        partitions = [f"{many}-partition-{number}" for number in range(2)]
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"{path_of(many)}/partitions", 2)
            for each in (topic, many):
                await broker.done("PUT", f"{path_of(each)}/subscription/sub")
                await broker.done("POST", f"{path_of(each)}/{status}", True)
            for body in (None, 1.5, "yes"):
                assert (await broker.refused("POST", f"{path_of(topic)}/{status}", body))[0] == 400
            assert (await broker.refused("POST", f"{path_of(topic)}/subscription/no/{status[17:]}", True))[0] == 404
        async with web_served(broker_url) as broker:
            assert await broker.get(f"{path_of(topic)}/{status}") == {topic: True}
            assert await broker.get(f"{path_of(many)}/{status}") == dict.fromkeys(partitions, True)
            for each in (topic, partitions[0]):
                await broker.done("POST", f"{path_of(each)}/{status}", False)
            assert await broker.get(f"{path_of(topic)}/{status}") == {topic: False}
            assert await broker.get(f"{path_of(many)}/{status}") == {partitions[0]: False, partitions[1]: True}

    run(main())


def test_an_acknowledgement_leaves_the_mark_of_a_replicated_subscription(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client, status = await broker.connect(), "subscription/sub/replicatedSubscriptionStatus"
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic)
            await broker.done("POST", f"{path_of(topic)}/{status}", True)
            await client.ack_durably(sent[0])
            await client.ack_durably(sent[1], kind="Cumulative")
            assert await broker.get(f"{path_of(topic)}/{status}") == {topic: True}

    run(main())
