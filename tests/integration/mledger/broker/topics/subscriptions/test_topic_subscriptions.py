"""What clients may not do by a subscription: have ledgers of others deleted, or take a cursor of the broker."""

import pytest

from mledger.bookie.errors import BookieUnavailable
from mledger.broker.topics.subscriptions.topic_subscriptions import SubscriptionRequest
from mledger.cursors.container import CursorContainer
from mledger.cursors.persistence.store import CursorStore
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import TopicName, cursor_path, ledger_path
from mledger.metastore.url import open_reader
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import served


def names_of_buckets(ledger_id):
    """Properties that name a ledger as an index of delayed messages: as brokers call one, and almost so."""
    name = "#pulsar.internal.delayed.bucket"
    return [{f"{name}{rest}": str(ledger_id)} for rest in ("_1_2", "X")]


async def victim_of(broker, topic):
    """The ledger of a topic with a message."""
    client = await broker.connect()
    await client.producer(topic=f"{topic}-kept")
    await client.publish_all(b"kept")
    (kept,) = (each for each in broker.cluster.opened.values() if each.name.endswith("-kept"))
    return kept.last_confirmed.ledger_id


async def assert_there(url, ledger_id):
    async with await open_reader(url) as reader:
        assert await reader.exists(ledger_path(ledger_id)) is not None


@pytest.mark.parametrize("which", [0, 1])
def test_a_subscription_that_names_a_ledger_of_another_topic_goes_without_it(broker_url, topic, which):
    async def main():
        async with served(broker_url) as broker:
            victim = await victim_of(broker, topic)
            client = await broker.connect()
            await client.subscribe(topic=topic)
            (opened,) = (
                each for each in broker.cluster.opened.values() if each.name.endswith(topic.rpartition("/")[2])
            )
            (cursor,) = opened.open_cursors.values()
            await cursor.set_cursor_properties(names_of_buckets(victim)[which])
            await client.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
            assert opened.cursors == []
        await assert_there(broker_url, victim)

    run(main())


@pytest.mark.parametrize("which", [0, 1])
def test_clients_set_no_properties_that_are_the_brokers_own(broker_url, topic, which):
    async def main():
        async with web_served(broker_url) as broker:
            victim = await victim_of(broker, topic)
            wanted = names_of_buckets(victim)[which]
            client = await broker.connect()
            await client.producer(topic=topic)
            pairs = [pb.KeyValue(key=key, value=value) for key, value in wanted.items()]
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE,
                "subscribe",
                "error",
                topic=topic,
                subscription="new",
                subType=pb.CommandSubscribe.Exclusive,
                consumer_id=0,
                subscription_properties=pairs,
            )
            assert (refused.error, "brokers' own" in refused.message) == (pb.NotAllowedError, True)
            path = f"{topic.replace('://', '/')}/subscription"
            place = {"ledgerId": -1, "entryId": -1, "properties": wanted}
            assert (await broker.refused("PUT", f"{path}/new", place))[0] < 500
            await broker.done("PUT", f"{path}/there")
            assert (await broker.refused("PUT", f"{path}/there/properties", wanted))[0] < 500
            assert await broker.get(f"{path}/there/properties") == {}  # which opens it
            (opened,) = (
                each for each in broker.cluster.opened.values() if each.name.endswith(topic.rpartition("/")[2])
            )
            assert opened.cursors == ["there"]
            own = {"#pulsar.internal.delayed.bucket_3_4": "5"}  # as a broker has set it
            await opened.open_cursors["there"].set_cursor_properties(own)
            await broker.done("PUT", f"{path}/there/properties", {"a": "b"})
            assert opened.open_cursors["there"].cursor_properties == {"a": "b"} | own

    run(main())


def test_no_client_takes_the_cursor_of_deduplication(broker_url, topic):
    async def main():
        async with served(broker_url, "brokerDeduplicationEnabled=true") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0", b"1")
            for durable in (True, False):
                refused = await client.request(
                    pb.BaseCommand.SUBSCRIBE,
                    "subscribe",
                    "error",
                    topic=topic,
                    subscription="pulsar.dedup",
                    subType=pb.CommandSubscribe.Exclusive,
                    consumer_id=0,
                    durable=durable,
                )
                assert (refused.error, "deduplicates" in refused.message) == (pb.NotAllowedError, True)

    run(main())


def test_a_refused_consumer_that_wants_to_start_in_the_past_undoes_no_acknowledgement(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, other = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic)
            await client.ack_durably(*sent)
            wanted = {"topic": topic, "subscription": "sub", "subType": "Exclusive", "consumer_id": 0}
            past = {"start_message_rollback_duration_sec": 2 * 10**9}
            refused = await other.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", **wanted, **past)
            assert refused.error == pb.ConsumerBusy
            (managed_ledger,) = broker.cluster.opened.values()
            assert managed_ledger.open_cursors["sub"].backlog == 0

    run(main())


def test_a_new_subscription_looks_at_none_of_the_others(broker_url, topic, monkeypatch):
    """With 10,000 of them, one look at the others for each that subscribes takes a minute."""

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            looked = []
            monkeypatch.setattr(CursorContainer, "names", property(lambda _: looked.append("cursors") or []))
            subscriptions = (await broker.broker.topics.topic(TopicName.parse(topic), create=False)).subscriptions
            monkeypatch.setattr(type(subscriptions), "__iter__", lambda _: looked.append("subscriptions") or iter(()))
            await subscriptions.open(SubscriptionRequest("another"))
            assert looked == []

    run(main())


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_a_replicators_cursor_is_nobody_s_subscription(broker_url, topic, domain):
    name = topic.replace("persistent", domain)

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE,
                "subscribe",
                "error",
                topic=name,
                consumer_id=0,
                subscription="pulsar.repl.west",
                subType="Shared",
            )
            assert (refused.error, "replicators" in refused.message) == (pb.NotAllowedError, True)
            if domain == "persistent":
                path = f"{topic.replace('://', '/')}/subscription/pulsar.repl.west"
                assert (await broker.refused("PUT", path))[0] == 412

    run(main())


def test_the_metadata_of_a_consumer_has_a_limit(broker_url, topic):
    async def main():
        async with served(broker_url, "maxConsumerMetadataSize=20") as broker:
            client = await broker.connect()

            async def subscribed(value, answer):
                return await client.request(
                    pb.BaseCommand.SUBSCRIBE,
                    "subscribe",
                    answer,
                    topic=topic,
                    consumer_id=len(value),
                    subscription="sub",
                    subType="Shared",
                    metadata=[pb.KeyValue(key="name", value=value)],
                )

            refused = await subscribed("x" * 17, "error")
            assert (refused.error, "maxConsumerMetadataSize" in refused.message) == (pb.MetadataError, True)
            await subscribed("x" * 16, "success")

    run(main())


async def first_record_of(url, opened, name):
    """A cursor's record, which nothing but its creation has written."""
    async with await open_reader(url) as reader:
        node = await reader.get(cursor_path(opened.name, name))
    assert node.version == 0
    return decode_managed_cursor_info(node.data).value


@pytest.mark.parametrize("kept", [True, False])
def test_a_client_creates_a_subscription_that_is_replicated_unless_the_broker_keeps_no_marks(broker_url, topic, kept):
    async def main():
        async with served(broker_url, f"enableReplicatedSubscriptions={str(kept).lower()}") as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, replicate_subscription_state=True)
            (opened,) = broker.cluster.opened.values()
            record = await first_record_of(broker_url, opened, "sub")
            assert record.properties == ((("pulsar.replicated.subscription", 1),) if kept else ())

    run(main())


def test_a_client_marks_a_subscription_that_is_there_as_replicated(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            for marked in (False, True):
                await client.subscribe(topic=topic, replicate_subscription_state=marked)
                await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            (opened,) = broker.cluster.opened.values()
            assert opened.open_cursors["sub"].properties == {"pulsar.replicated.subscription": 1}

    run(main())


def test_a_client_is_served_though_the_mark_of_its_subscription_cannot_be_written(broker_url, topic, monkeypatch):
    async def write(*_):
        raise BookieUnavailable("made to fail by the test")

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            with monkeypatch.context() as failing:
                failing.setattr(CursorStore, "write", write)
                await client.subscribe(topic=topic, replicate_subscription_state=True)
            (opened,) = broker.cluster.opened.values()
            assert opened.open_cursors["sub"].properties == {"pulsar.replicated.subscription": 1}

    run(main())


def test_a_key_shared_subscription_is_refused_where_the_broker_has_none(broker_url, topic):
    async def main():
        async with served(broker_url, "subscriptionKeySharedEnable=false") as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, subType="Shared")
            wanted = {"topic": topic, "subscription": "other", "consumer_id": 1, "subType": "Key_Shared"}
            refused = await client.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", **wanted)
            assert (refused.error, "subscriptionKeySharedEnable" in refused.message) == (pb.NotAllowedError, True)

    run(main())
