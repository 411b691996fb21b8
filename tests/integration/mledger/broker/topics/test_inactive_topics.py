"""Stored topics that nobody uses are deleted with their schema and policies; those in use, or kept, are not."""

import contextlib

import mledger
from mledger.broker.process.main import remover_of_remains
from mledger.broker.topics.inactive_topics import CAUGHT_UP, WITHOUT_SUBSCRIPTIONS, InactiveTopicDeleter
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import ONE_BOOKIE

MINUTE_MS = 60_000


def policy(mode, seconds=60):
    return {"inactiveTopicDeleteMode": mode, "maxInactiveDurationSeconds": seconds, "deleteWhileInactive": True}


class Watched:
    """A broker with one topic, a client, and the deleter, whose clock is the test's."""

    def __init__(self, broker, client, topic):
        self.broker, self.client, self.name = broker, client, TopicName.parse(topic)
        served, cluster = broker.broker, broker.cluster
        self.deleter = InactiveTopicDeleter(
            served.topics, cluster.policies, served.settings, remover_of_remains(served, cluster)
        )
        self.path = f"persistent/{self.name.namespace_name}/t"

    async def exists_at(self, *minutes):
        """Whether the topic is there after looks at these times."""
        for each in minutes:
            await self.deleter.delete_inactive(round(each * MINUTE_MS))
        return await self.broker.cluster.store.exists(self.name.managed_ledger_path) is not None


@contextlib.asynccontextmanager
async def watched(url, topic, *settings, **policies):
    """A broker of a namespace with these policies."""
    async with web_served(url, *settings) as broker:
        name = TopicName.parse(topic)
        for path, value in policies.items():
            await broker.done("POST", f"namespaces/{name.namespace_name}/{path}", value)
        yield Watched(broker, await broker.connect(), topic)


async def close_producer(client):
    await client.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0)


async def close_consumer(client):
    await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)


def test_a_topic_without_clients_and_subscriptions_is_deleted_once_its_time_is_over(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic, inactiveTopicPolicies=policy(WITHOUT_SUBSCRIPTIONS)) as seen:
            await seen.client.producer(topic=own_topic)
            await seen.client.publish_all(b"0")
            assert await seen.exists_at(1, 10)
            await close_producer(seen.client)
            assert await seen.exists_at(10.5)
            assert not await seen.exists_at(11)

    run(main())


def test_by_default_and_where_the_broker_deletes_nothing_a_topic_stays(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic) as seen:
            await seen.broker.done("PUT", seen.path)
            assert await seen.exists_at(1, 100_000)
        stays = {"inactiveTopicPolicies": policy(WITHOUT_SUBSCRIPTIONS)}
        async with watched(broker_url, own_topic, "brokerDeleteInactiveTopicsEnabled=false", **stays) as seen:
            await seen.client.producer(topic=own_topic)
            await close_producer(seen.client)
            assert await seen.exists_at(1, 100_000)

    run(main())


def test_the_setting_deletes_topics_without_a_policy(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic, "brokerDeleteInactiveTopicsEnabled=true") as seen:
            await seen.broker.done("PUT", seen.path)
            assert not await seen.exists_at(1, 2)

    run(main())


def test_a_subscription_keeps_a_topic_unless_the_mode_asks_for_its_backlog_only(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic, inactiveTopicPolicies=policy(WITHOUT_SUBSCRIPTIONS)) as seen:
            await seen.broker.done("PUT", seen.path)
            await seen.broker.done("PUT", f"{seen.path}/subscription/s", "latest")
            assert await seen.exists_at(1, 100)
            (opened,) = seen.broker.broker.topics.stored
            path = f"namespaces/{seen.name.namespace_name}/inactiveTopicPolicies"
            await seen.broker.followed(opened, "POST", path, policy(CAUGHT_UP))
            assert not await seen.exists_at(101)

    run(main())


def test_a_backlog_and_a_connected_consumer_keep_a_topic(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic, inactiveTopicPolicies=policy(CAUGHT_UP)) as seen:
            await seen.client.producer(topic=own_topic)
            await seen.client.subscribe(topic=own_topic)
            (stored,) = await seen.client.publish_all(b"0")
            await close_producer(seen.client)
            await close_consumer(seen.client)
            assert await seen.exists_at(1, 100)
            await seen.client.subscribe(topic=own_topic)
            await seen.client.ack_durably(stored)
            assert await seen.exists_at(101, 200)
            await close_consumer(seen.client)
            assert not await seen.exists_at(201)

    run(main())


def test_retention_keeps_a_topic_for_as_long_as_its_messages(broker_url, own_topic):
    kept = {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}
    policies = {"inactiveTopicPolicies": policy(WITHOUT_SUBSCRIPTIONS), "retention": kept}

    async def main():
        async with watched(broker_url, own_topic, **policies) as seen:
            await seen.broker.done("PUT", seen.path)
            assert await seen.exists_at(1, 10.9)
            assert not await seen.exists_at(11)

    run(main())


def test_a_deleted_topic_leaves_neither_schema_nor_policies(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic) as seen:
            await seen.broker.done("PUT", seen.path)
            schema = {"type": "STRING", "schema": "", "properties": {}}
            await seen.broker.done("POST", f"schemas/{seen.name.namespace_name}/t/schema", schema)
            opened = seen.broker.broker.topics.find(seen.name)
            path = f"{seen.path}/inactiveTopicPolicies"
            await seen.broker.followed(opened, "POST", path, policy(WITHOUT_SUBSCRIPTIONS))
            assert not await seen.exists_at(1, 2)
            await seen.broker.done("PUT", seen.path)
            assert await seen.broker.get(f"{seen.path}/inactiveTopicPolicies") is None
            assert (await seen.broker.refused("GET", f"schemas/{seen.name.namespace_name}/t/schema"))[0] == 404
            events = TopicName.parse(f"persistent://{seen.name.namespace_name}/__change_events")
            assert await seen.broker.cluster.store.exists(events.managed_ledger_path) is not None

    run(main())


def test_time_in_which_the_process_stood_still_does_not_count(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic, inactiveTopicPolicies=policy(WITHOUT_SUBSCRIPTIONS)) as seen:
            await seen.broker.done("PUT", seen.path)
            assert await seen.exists_at(1)
            await seen.deleter.delete_inactive(100 * MINUTE_MS, slept_s=99 * 60)
            assert await seen.exists_at(100.5)
            assert not await seen.exists_at(101)

    run(main())


def test_a_topic_that_another_process_owns_by_now_is_not_deleted(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic, inactiveTopicPolicies=policy(WITHOUT_SUBSCRIPTIONS)) as seen:
            await seen.broker.done("PUT", seen.path)
            async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as other:
                topic = await other.open_topic(own_topic, take_over=True)
                seen.broker.cluster._session_timeout = 0.1  # for so long it waits whether the other one lives
                assert [each.ended for each in seen.broker.broker.topics.stored] == [False]  # it has not heard of it
                assert await seen.exists_at(1, 100)
                await topic.append([b"0"])

    run(main())


def test_a_topic_that_another_process_has_published_to_meanwhile_is_not_deleted(broker_url, own_topic):
    """It is gone again: no owner's node tells of it. The broker has stood still, or heard of nothing."""

    async def main():
        async with watched(broker_url, own_topic, inactiveTopicPolicies=policy(WITHOUT_SUBSCRIPTIONS)) as seen:
            await seen.broker.done("PUT", seen.path)
            async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as other:
                topic = await other.open_topic(own_topic, take_over=True)
                await topic.append([b"0"])
                await topic.close()
            assert [each.ended for each in seen.broker.broker.topics.stored] == [False]  # it has not heard of it
            assert await seen.exists_at(1, 100)

    run(main())


def test_a_policy_that_was_just_removed_deletes_nothing(broker_url, own_topic):
    async def main():
        async with watched(broker_url, own_topic, inactiveTopicPolicies=policy(WITHOUT_SUBSCRIPTIONS)) as seen:
            await seen.broker.done("PUT", seen.path)
            opened = seen.broker.broker.topics.find(seen.name)
            # it hears of nothing any more
            seen.broker.cluster.policies.forget(seen.name.managed_ledger_name, opened.managed_ledger._take_policies)
            await seen.broker.done("DELETE", f"namespaces/{seen.name.namespace_name}/inactiveTopicPolicies")
            assert opened.managed_ledger.policies.service.inactive_topics is not None
            assert await seen.exists_at(1, 100)

    run(main())
