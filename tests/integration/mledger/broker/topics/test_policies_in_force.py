"""Policies of namespaces and topics hold for topics with clients, from when they change."""

import asyncio
import json
import time

import mledger
from mledger.broker.topics.backlog_limits import BacklogLimits
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.services import policy_watch
from tests.support.aio import run
from tests.support.brokers.served_broker import served
from tests.support.metadata.namespaces import create_namespace_at
from tests.support.recordings.policies import EVENTS, put_schema

NOWHERE = (1 << 64) - 1


class Policies:
    """The policies of one namespace, and whether an open topic has followed them."""

    def __init__(self, broker, topic):
        self._store = broker.cluster.store
        self._name = mledger.TopicName.parse(topic)
        self._broker = broker

    @property
    def topic(self):
        """The open topic."""
        return next(each for each in self._broker.broker.topics.open if each.name == self._name)

    async def put(self, **policies):
        """Write the policies, and wait until the open topic was told."""
        told = asyncio.Queue()
        self.topic.managed_ledger.on_policies(told.put_nowait)
        path, data = f"/admin/policies/{self._name.namespace_name}", json.dumps({"policies": {}, **policies}).encode()
        if await self._store.exists(path) is None:
            await self._store.create(path, data, parents=True)
        else:
            await self._store.put(path, data, -1)
        await told.get()


def rate(messages):
    """A dispatch rate as a namespace has it."""
    return {"here": {"dispatchThrottlingRateInMsg": messages, "dispatchThrottlingRateInByte": -1}}


def test_deduplication_begins_and_ends_while_a_producer_is_open(broker_url, own_topic):
    async def main():
        async with served(broker_url, policy_cluster="here") as broker:
            client = await broker.connect()
            await client.producer(topic=own_topic, producer_name="raw")
            policies = Policies(broker, own_topic)
            await client.publish_all(b"0", b"1")
            await policies.put(deduplicationEnabled=True)
            while policies.topic.deduplication is None:
                await asyncio.sleep(0.01)
            entries = []
            for sequence in (5, 5, 6):
                client.publish(b"x", sequence)
                entries.append((await client.expect("send_receipt")).message_id.entryId)
            assert entries == [2, NOWHERE, 3]
            await policies.put(deduplicationEnabled=False)
            while "pulsar.dedup" in policies.topic.managed_ledger.cursors:
                await asyncio.sleep(0.01)
            client.publish(b"6", 6)
            assert (await client.expect("send_receipt")).message_id.entryId == 4

    run(main())


def test_rates_hold_for_open_producers_and_consumers(broker_url, own_topic):
    async def main():
        async with served(broker_url, policy_cluster="here") as broker:
            client, consumer = await broker.connect(), await broker.connect()
            await client.producer(topic=own_topic)
            await consumer.subscribe(topic=own_topic, permits=1000)
            policies = Policies(broker, own_topic)
            await policies.put(topicDispatchRate=rate(100), subscriptionDispatchRate=rate(100))
            begun = time.monotonic()
            await client.publish_all(*[b"x"] * 130)
            await consumer.messages(130)
            assert time.monotonic() - begun >= 0.2  # a second's worth at once, the rest by the rate
            await policies.put(publishMaxMessageRate={"here": {"publishThrottlingRateInMsg": 100}})
            begun = time.monotonic()
            await client.publish_all(*[b"x"] * 130)
            await client.publish_all(b"last")
            assert time.monotonic() - begun >= 0.2
            await consumer.messages(131)

    run(main())


def test_a_namespace_limits_producers_of_open_topics(broker_url, own_topic):
    async def main():
        async with served(broker_url, policy_cluster="here") as broker:
            client = await broker.connect()
            await client.producer(topic=own_topic)
            policies = Policies(broker, own_topic)
            await policies.put(max_producers_per_topic=1)
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=own_topic, producer_id=1)
            assert refused.error == pb.ProducerBusy
            await policies.put(max_producers_per_topic=2)
            await client.producer(1, own_topic)

    run(main())


def test_policies_published_to_this_broker_hold_at_once(unshared_url, monkeypatch):
    create_namespace_at(unshared_url, "public/kept")

    async def main():
        monkeypatch.setattr(policy_watch, "LOOK_AGAIN_S", 1000.0)
        async with served(unshared_url, policy_cluster="here") as broker:
            client = await broker.connect()
            await client.producer(0, "persistent://public/kept/own")
            opened = broker.cluster.opened["public/kept/persistent/own"]
            told = asyncio.Queue()
            opened.on_policies(told.put_nowait)
            await put_schema(broker.cluster.store, broker.cluster.bookkeeper, "public/kept")
            await client.producer(1, "persistent://public/kept/__change_events")
            for sequence, event in enumerate(EVENTS):
                client.send(pb.BaseCommand.SEND, "send", payload=event, producer_id=1, sequence_id=sequence)
            while (policies := await told.get()).topic.retention is None:
                pass
            assert policies.topic.retention.minutes == 600

    run(main())


class UnreadableEvents:
    """The record of the namespace's `__change_events`, damaged: no policy of its topics can be read."""

    def __init__(self, own_topic):
        name = mledger.TopicName.parse(own_topic)
        self._path = mledger.TopicName.parse(f"persistent://{name.namespace_name}/__change_events").managed_ledger_path

    async def begin(self, broker_url):
        async with mledger.open_cluster(broker_url) as cluster:
            await cluster.store.create(self._path, b"\xff", parents=True)

    async def end(self, broker):
        await broker.cluster.store.delete(self._path, -1)


def test_nothing_expires_and_no_quota_counts_before_the_policies_are_known(broker_url, own_topic):
    settings = (
        "ttlDurationDefaultInSeconds=60",
        "backlogQuotaDefaultLimitBytes=1",
        "backlogQuotaDefaultRetentionPolicy=consumer_backlog_eviction",
    )

    async def main():
        events = UnreadableEvents(own_topic)
        await events.begin(broker_url)
        async with served(broker_url, *settings, policy_cluster="here") as broker:
            client = await broker.connect()
            await client.subscribe(topic=own_topic)
            await client.producer(topic=own_topic)
            await client.publish_all(b"0", b"1")  # published in 1970
            policies = Policies(broker, own_topic)
            limits = BacklogLimits(lambda: [policies.topic], broker.broker.settings)
            cursor = policies.topic.managed_ledger.open_cursors["sub"]
            for check in (limits.expire, limits.check_quota):
                await check(policies.topic)
                assert cursor.backlog == 2
            await events.end(broker)
            await policies.put()
            await limits.expire(policies.topic)
            assert cursor.backlog == 0

    run(main())


def test_a_topic_that_was_deduplicated_still_is_before_its_policies_are_known(broker_url, own_topic):
    async def main():
        async with served(broker_url, policy_cluster="here") as broker:
            client = await broker.connect()
            await client.producer(topic=own_topic, producer_name="raw")
            policies = Policies(broker, own_topic)
            await policies.put(deduplicationEnabled=True)
            while policies.topic.deduplication is None:
                await asyncio.sleep(0.01)
            await client.publish_all(b"0", b"1", b"2")
        events = UnreadableEvents(own_topic)
        await events.begin(broker_url)
        async with served(broker_url, policy_cluster="here") as broker:
            client = await broker.connect()
            assert (await client.producer(topic=own_topic, producer_name="raw")).last_sequence_id == 2
            policies = Policies(broker, own_topic)
            await events.end(broker)
            await policies.put()
            while "pulsar.dedup" in policies.topic.managed_ledger.cursors:
                await asyncio.sleep(0.01)

    run(main())
