"""Unsubscribing over a real connection: while others use the subscription, where it fails, by force."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.cursors.persistence.store import CursorStore
from mledger.metastore.errors import StoreUnavailable
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import payloads, served


def test_an_unsubscribed_subscription_is_gone(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0")
            await client.subscribe(topic=topic)
            await client.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
            (opened,) = (
                each for each in broker.cluster.opened.values() if each.name.endswith(topic.rpartition("/")[2])
            )
            assert opened.cursors == []

    run(main())


def test_what_an_unsubscribed_consumer_held_does_not_count_against_the_brokers_limit(broker_url, topic):
    async def main():
        async with served(broker_url, "maxUnackedMessagesPerBroker=4") as broker:
            leaving, staying, producer = await broker.connect(), await broker.connect(), await broker.connect()
            await producer.producer(topic=topic)
            await leaving.subscribe(topic=topic, subscription="leaving", subType="Shared", permits=4)
            await staying.subscribe(topic=topic, subscription="staying", subType="Shared", permits=1)
            await producer.publish_all(b"0", b"1", b"2", b"3")
            await leaving.messages(4)
            await staying.messages(1)
            await leaving.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
            staying.flow(2)
            assert payloads(await staying.messages(2)) == [b"1", b"2"]

    run(main())


@pytest.fixture
def held_deletion(monkeypatch):
    """Deletions of cursors wait before their write: `reached` and `go` are events; `fail` makes the first one fail."""
    held = SimpleNamespace(reached=asyncio.Event(), go=asyncio.Event(), fail=None)
    remove = CursorStore.remove

    async def held_remove(store, *named):
        held.reached.set()
        await held.go.wait()
        error, held.fail = held.fail, None
        if error is not None:
            raise error
        await remove(store, *named)

    monkeypatch.setattr(CursorStore, "remove", held_remove)
    return held


def test_while_a_subscription_is_deleted_others_get_messages_and_acknowledgements_of_it_do_no_harm(
    broker_url, topic, held_deletion
):
    async def main():
        async with served(broker_url) as broker:
            leaving, staying, producer = await broker.connect(), await broker.connect(), await broker.connect()
            await producer.producer(topic=topic)
            await leaving.subscribe(topic=topic, subscription="leaving", permits=10)
            await staying.subscribe(topic=topic, subscription="staying", permits=10)
            (first,) = await producer.publish_all(b"0")
            await leaving.messages(1)
            await staying.messages(1)
            leaving.send(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0, request_id=99)
            await held_deletion.reached.wait()
            producer.publish(b"1", 1)
            assert payloads(await staying.messages(1)) == [b"1"]
            leaving.ack(first)
            leaving.flow(10)
            held_deletion.go.set()
            assert (await leaving.expect("success")).request_id == 99

    run(main())


def test_a_subscription_that_could_not_be_deleted_serves_its_consumers_again(broker_url, topic, held_deletion):
    held_deletion.go.set()
    held_deletion.fail = StoreUnavailable("no server answers")

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0")
            await client.subscribe(topic=topic)
            client.send(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0, request_id=99)
            assert (await client.expect("close_consumer")).consumer_id == 0
            assert (await client.expect("error")).error == pb.MetadataError
            await client.subscribe(topic=topic, permits=10)
            assert payloads(await client.messages(1)) == [b"0"]

    run(main())


def test_a_subscription_whose_client_left_while_it_was_deleted_can_be_used_anew(broker_url, topic, held_deletion):
    async def main():
        async with served(broker_url) as broker:
            client, other = await broker.connect(), await broker.connect()
            await other.producer(topic=topic)
            await other.publish_all(b"0")
            await client.subscribe(topic=topic)
            client.send(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0, request_id=99)
            await held_deletion.reached.wait()
            client.close()
            while len(broker.broker.connections) > 1:
                await asyncio.sleep(0)
            held_deletion.go.set()
            await other.subscribe(topic=topic, permits=10)
            assert payloads(await other.messages(1)) == [b"0"]

    run(main())


def test_who_subscribes_while_a_subscription_is_deleted_is_told_to_subscribe_again(broker_url, topic, held_deletion):
    async def main():
        async with served(broker_url) as broker:
            leaving, coming = await broker.connect(), await broker.connect()
            await leaving.subscribe(topic=topic)
            leaving.send(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0, request_id=99)
            await held_deletion.reached.wait()
            wanted = {"topic": topic, "subscription": "sub", "subType": "Exclusive", "consumer_id": 0}
            coming.send(pb.BaseCommand.SUBSCRIBE, "subscribe", request_id=coming.next_request(), **wanted)
            (connection,) = (each for each in broker.broker.connections if not each.consumers)
            while 0 not in connection.opening_consumers:
                await asyncio.sleep(0)
            held_deletion.go.set()
            assert (await coming.expect("error")).error == pb.ServiceNotReady  # with which clients try again
            await coming.subscribe(topic=topic)

    run(main())


def test_a_number_that_is_used_anew_while_a_subscription_is_deleted_stays_open(broker_url, topic, held_deletion):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            client.send(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0, request_id=99)
            await held_deletion.reached.wait()
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            await client.subscribe(topic=topic, subscription="other", permits=10)
            held_deletion.go.set()
            assert (await client.expect("success")).request_id == 99
            client.publish(b"0")
            await client.expect("send_receipt")
            (message,) = await client.messages(1)
            await client.ack_durably(message.position)

    run(main())


def test_a_reader_can_give_up_its_subscription(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, subscription="r", durable=False)
            await client.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
            (opened,) = (
                each for each in broker.cluster.opened.values() if each.name.endswith(topic.rpartition("/")[2])
            )
            assert list(opened.non_durable_cursors) == []

    run(main())


def test_a_subscription_with_other_consumers_is_deleted_by_force_only(broker_url, topic):
    async def main():
        async with served(broker_url, "activeConsumerFailoverDelayTimeMillis=0") as broker:
            client, other = await broker.connect(), await broker.connect()
            for priority, each in enumerate((client, other)):
                await each.subscribe(topic=topic, subType="Failover", priority_level=priority)
            unsubscribe = pb.BaseCommand.UNSUBSCRIBE, "unsubscribe"
            assert (await client.expect("active_consumer_change")).is_active
            assert (await client.request(*unsubscribe, "error", consumer_id=0)).error == pb.MetadataError
            await client.request(*unsubscribe, consumer_id=0, force=True)
            await other.expect("active_consumer_change")
            assert (await other.expect("close_consumer")).consumer_id == 0

    run(main())
