"""Policies of the subscriptions that clients may open hold for open topics from when they change."""

import pytest

from mledger.broker.topics.subscriptions.subscribe_limiter import TOO_OFTEN
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run

SUBSCRIBE = pb.BaseCommand.SUBSCRIBE
SubType = pb.CommandSubscribe


def policy_path(scope, opened, policy):
    """The path of a policy of the open topic, or of its namespace."""
    namespace = opened.name.namespace_name
    return f"{scope}/{namespace}/{policy}" if scope == "namespaces" else f"{scope}/{namespace}/t/{policy}"


async def refused(client, number, **fields):
    """The error that answers a SUBSCRIBE."""
    return await client.request(SUBSCRIBE, "subscribe", "error", consumer_id=number, **fields)


@pytest.mark.parametrize("scope", ["namespaces", "persistent"])
def test_clients_create_subscriptions_only_where_a_policy_lets_them(broker_url, own_topic, scope):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=own_topic, subscription="old", subType=SubType.Shared)
            (opened,) = broker.broker.topics.stored
            path = policy_path(scope, opened, "autoSubscriptionCreation")
            await broker.followed(opened, "POST", path, {"allowAutoSubscriptionCreation": False})
            new = {"topic": own_topic, "subscription": "new", "subType": SubType.Shared}
            assert (await refused(client, 1, **new)).error == pb.SubscriptionNotFound
            await client.subscribe(2, topic=own_topic, subscription="old", subType=SubType.Shared)
            await broker.followed(opened, "DELETE", path)
            await client.subscribe(3, **new)

    run(main())


def test_a_subscription_is_sent_no_more_than_its_own_rate_lets_it(broker_url, own_topic):
    rate = {"dispatchThrottlingRateInMsg": 3, "ratePeriodInSecond": 3600}

    async def main():
        async with web_served(broker_url) as broker:
            clients, producer = [await broker.connect(), await broker.connect()], await broker.connect()
            await producer.producer(topic=own_topic)
            for client, name in zip(clients, ("slow", "other"), strict=True):
                await client.subscribe(topic=own_topic, subscription=name, subType=SubType.Shared, permits=100)
            opened = next(each for each in broker.broker.topics.stored if each.name.local_name == "t")
            path = policy_path("persistent", opened, "slow/dispatchRate")
            await broker.followed(opened, "POST", path, rate)
            await producer.publish_all(*[b"x"] * 10)
            await clients[1].messages(10)
            await clients[0].messages(3)
            figures = (await broker.get(policy_path("persistent", opened, "stats")))["subscriptions"]
            assert {name: each["msgOutCounter"] for name, each in figures.items()} == {"slow": 3, "other": 10}
            await broker.followed(opened, "DELETE", path)
            await clients[0].messages(7)

    run(main())


@pytest.mark.parametrize(
    ("scope", "policy"),
    [
        ("namespaces", "maxUnackedMessagesPerConsumer"),
        ("namespaces", "maxUnackedMessagesPerSubscription"),
        ("persistent", "maxUnackedMessagesOnConsumer"),
        ("persistent", "maxUnackedMessagesOnSubscription"),
    ],
)
def test_a_consumer_has_no_more_unacknowledged_messages_than_a_policy_lets_it(broker_url, own_topic, scope, policy):
    async def main():
        async with web_served(broker_url) as broker:
            client, producer = await broker.connect(), await broker.connect()
            await producer.producer(topic=own_topic)
            await client.subscribe(topic=own_topic, subType=SubType.Shared, permits=100)
            sent = await producer.publish_all(b"0", b"1")
            await client.messages(2)
            opened = next(each for each in broker.broker.topics.stored if each.name.local_name == "t")
            path = policy_path(scope, opened, policy)
            await broker.followed(opened, "POST", path, 2)
            producer.publish(b"2", 2)
            await producer.expect("send_receipt")
            stats = pb.BaseCommand.CONSUMER_STATS, "consumerStats", "consumerStatsResponse"
            assert (await client.request(*stats, consumer_id=0)).unackedMessages == 2  # and no message came before it
            client.ack(sent[0])
            assert [message.payload for message in await client.messages(1)] == [b"2"]

    run(main())


@pytest.mark.parametrize("scope", ["namespaces", "persistent"])
def test_delayed_messages_are_held_back_as_long_as_a_policy_wants_it(broker_url, own_topic, scope):
    async def main():
        async with web_served(broker_url, "delayedDeliveryEnabled=false") as broker:
            client, producer = await broker.connect(), await broker.connect()
            await producer.producer(topic=own_topic)
            await client.subscribe(topic=own_topic, subType=SubType.Shared, permits=100)
            opened = next(each for each in broker.broker.topics.stored if each.name.local_name == "t")
            path, never = policy_path(scope, opened, "delayedDelivery"), 1 << 50
            await broker.followed(opened, "POST", path, {"active": True, "tickTime": 1000})
            producer.publish(b"0", 0, deliver_at=never)
            producer.publish(b"1", 1)
            assert [message.payload for message in await client.messages(1)] == [b"1"]
            await broker.followed(opened, "POST", path, {"active": False, "tickTime": 1000})
            producer.publish(b"2", 2, deliver_at=never)
            assert [message.payload for message in await client.messages(1)] == [b"2"]

    run(main())


@pytest.mark.parametrize("scope", ["namespaces", "persistent"])
def test_a_type_of_subscriptions_that_a_policy_leaves_out_is_refused(broker_url, own_topic, scope):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=own_topic, subscription="f", subType=SubType.Exclusive)
            (opened,) = broker.broker.topics.stored
            path = policy_path(scope, opened, "subscriptionTypesEnabled")
            await broker.followed(opened, "POST", path, ["Shared", "Key_Shared"])
            assert sorted(await broker.get(path)) == ["Key_Shared", "Shared"]
            error = await refused(client, 1, topic=own_topic, subscription="f", subType=SubType.Exclusive)
            assert (error.error, "Exclusive" in error.message) == (pb.NotAllowedError, True)
            await client.subscribe(2, topic=own_topic, subscription="s", subType=SubType.Shared)
            await broker.followed(opened, "DELETE", path)
            await client.subscribe(3, topic=own_topic, subscription="g", subType=SubType.Exclusive)

    run(main())


def test_a_policy_of_the_topic_allows_a_type_that_the_broker_does_not(broker_url, own_topic):
    async def main():
        async with web_served(broker_url, "subscriptionTypesEnabled=Exclusive") as broker:
            client = await broker.connect()
            wanted = {"topic": own_topic, "subscription": "s", "subType": SubType.Shared}
            assert (await refused(client, 1, **wanted)).error == pb.NotAllowedError
            (opened,) = broker.broker.topics.stored
            path = f"persistent/{opened.name.namespace_name}/t/subscriptionTypesEnabled"
            await broker.followed(opened, "POST", path, ["Shared"])
            await client.subscribe(1, **wanted)

    run(main())


@pytest.mark.parametrize("scope", ["namespaces", "persistent"])
def test_a_consumer_subscribes_no_more_often_than_a_policy_lets_it(broker_url, own_topic, scope):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            wanted = {"topic": own_topic, "subType": SubType.Shared, "consumer_name": "c"}
            for _ in range(3):
                await client.subscribe(**wanted)
                await close_consumer(client)
            (opened,) = broker.broker.topics.stored
            path = policy_path(scope, opened, "subscribeRate")
            rate = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 3600}
            await broker.followed(opened, "POST", path, rate)
            assert await broker.get(path) == rate
            for _ in range(2):
                await client.subscribe(**wanted)
                await close_consumer(client)
            error = await refused(client, 0, subscription="sub", **wanted)
            assert (error.error, error.message) == (pb.NotAllowedError, TOO_OFTEN)
            await client.subscribe(**wanted | {"consumer_name": "d"})
            await broker.followed(opened, "DELETE", path)
            await client.subscribe(1, **wanted)

    run(main())


async def close_consumer(client):
    await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)


def test_limits_for_clients_keep_no_broker_from_reading_the_policies_of_topics(broker_url, own_topic):
    async def main():
        settings = ("maxConsumersPerTopic=1", "maxProducersPerTopic=1", "subscriptionTypesEnabled=Shared")
        events = f"{own_topic.removesuffix('t')}__change_events"
        async with web_served(broker_url, *settings) as broker:
            for number in range(2):  # each of two brokers
                client, reader = await broker.connect(), {"durable": False, "subType": SubType.Exclusive}
                await client.producer(number, events)
                await client.subscribe(number, topic=events, subscription=f"reader-{number}", **reader)

    run(main())
