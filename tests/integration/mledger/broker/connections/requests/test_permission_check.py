"""Open producers and consumers whose roles have lost the right are closed at the next look, and no others."""

import asyncio
import json

import pytest

from mledger.broker.admin_rest.namespaces.policies_node import policies_path
from mledger.broker.connections.requests.permission_check import PermissionCheck
from mledger.metastore.store import ANY_VERSION
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import SECURED, credentials_of, served

DOMAINS = pytest.mark.parametrize("domain", ["persistent", "non-persistent"])


class Guarded:
    """A broker with one client each of the roles `app` and `admin`, which have a producer and a consumer."""

    def __init__(self, broker, topic):
        self.broker, self.topic, self.clients = broker, topic, []
        self.path = policies_path(topic.partition("://")[2].rpartition("/")[0])

    async def grant(self, *actions):
        """Let `app` do this in the namespace."""
        await self.store(json.dumps({"auth_policies": {"namespace_auth": {"app": actions}}}).encode())

    async def store(self, data):
        await self.broker.cluster.store.put(self.path, data, ANY_VERSION)

    async def open(self):
        """The client of `app`."""
        for role in ("admin", "app"):
            client = await self.broker.connect(**credentials_of(role))
            self.clients.append(client)
            await client.producer(topic=self.topic)
            await client.subscribe(topic=self.topic, subType="Shared", permits=10)
        return client

    async def look(self):
        await PermissionCheck(self.broker.broker).look(0.0)

    @property
    def counts(self):
        """How many producers and consumers are open."""
        (topic,) = self.broker.broker.topics.open
        return len(topic.producers), sum(len(each.consumers) for each in topic.subscriptions)


@DOMAINS
def test_a_producer_whose_role_may_no_longer_publish_is_closed(broker_url, own_topic, domain):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            guarded = Guarded(broker, own_topic.replace("persistent", domain))
            await guarded.grant("produce", "consume")
            client = await guarded.open()
            await guarded.look()
            assert guarded.counts == (2, 2)
            await guarded.grant("consume")
            await guarded.look()
            assert (await client.expect("close_producer")).producer_id == 0
            assert guarded.counts == (1, 2)
            assert (await client.refused_producer(guarded.topic)).error == pb.AuthorizationError

    run(main())


@DOMAINS
def test_a_consumer_whose_role_may_no_longer_consume_is_closed(broker_url, own_topic, domain):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            guarded = Guarded(broker, own_topic.replace("persistent", domain))
            await guarded.grant("produce", "consume")
            client = await guarded.open()
            await guarded.grant("produce")
            await guarded.look()
            assert (await client.expect("close_consumer")).consumer_id == 0
            assert guarded.counts == (2, 1)

    run(main())


def test_a_watcher_is_told_of_topics_only_while_its_role_may_list_them(broker_url, own_topic):
    namespace = own_topic.partition("://")[2].rpartition("/")[0]
    wanted = {"watcher_id": 1, "namespace": namespace, "topics_pattern": f"{namespace}/.*"}

    async def main():
        async with served(broker_url, *SECURED) as broker:
            guarded = Guarded(broker, own_topic)
            await guarded.grant("consume")
            client = await broker.connect(**credentials_of("app"))
            admin = await broker.connect(**credentials_of("admin"))
            watch = pb.BaseCommand.WATCH_TOPIC_LIST
            await client.request(watch, "watchTopicList", "watchTopicListSuccess", **wanted)
            told = []
            listener = await broker.broker.topic_watch.follow(namespace, told.append)
            assert listener == []
            await admin.producer(1, f"{own_topic}-1")
            assert list((await client.expect("watchTopicUpdate")).new_topics) == [f"{own_topic}-1"]
            await guarded.grant()
            await guarded.look()
            await admin.producer(2, f"{own_topic}-2")
            while [f"{own_topic}-1", f"{own_topic}-2"] not in told:
                await asyncio.sleep(0.01)
            refused = await client.request(watch, "watchTopicList", "error", **wanted)  # before it comes no update
            assert refused.error == pb.AuthorizationError
            await guarded.grant("consume")
            await guarded.look()
            assert list((await client.expect("watchTopicUpdate")).new_topics) == [f"{own_topic}-2"]

    run(main())


def test_a_producer_whose_role_lost_the_right_while_it_waited_does_not_get_its_turn(broker_url, own_topic):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            guarded = Guarded(broker, own_topic)
            await guarded.grant("produce")
            first, second = [await broker.connect(**credentials_of(role)) for role in ("admin", "app")]
            await first.producer(topic=own_topic, producer_access_mode=1)
            waiting = await second.producer(topic=own_topic, producer_access_mode=2)
            assert not waiting.producer_ready
            await guarded.grant()
            await first.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0)
            assert (await second.expect("error")).error == pb.AuthorizationError
            await first.producer(1, topic=own_topic, producer_access_mode=1)

    run(main())


def test_while_permissions_cannot_be_read_clients_stay(broker_url, own_topic):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            guarded = Guarded(broker, own_topic)
            await guarded.grant("produce", "consume")
            await guarded.open()
            await guarded.store(b"[nonsense")
            await guarded.look()
            assert guarded.counts == (2, 2)
            await guarded.grant()  # other tests read the policies of all namespaces

    run(main())


@pytest.mark.parametrize(("settings", "looks"), [(SECURED, 1), ((), 0)], ids=["authorizing", "open"])
def test_a_broker_that_authorizes_looks_by_itself(broker_url, settings, looks):
    async def main():
        async with served(broker_url, *settings) as broker:
            assert [each.name for each in broker.broker.checks].count("permissions of clients") == looks

    run(main())
