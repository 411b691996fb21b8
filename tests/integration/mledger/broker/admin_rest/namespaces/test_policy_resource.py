"""Policies that are set over HTTP are written with their version, and hold for topics with clients."""

import asyncio
import json

from mledger.broker.admin_rest.namespaces.policy_table import POLICIES
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace


async def settled(topic, reached):
    """Wait until the open topic has followed its policies."""
    told = asyncio.Event()
    topic.managed_ledger.on_policies(lambda _: told.set())
    while not reached():
        await told.wait()
        told.clear()
        await asyncio.sleep(0)


def test_a_limit_of_producers_holds_at_once(broker_url, topic):
    name = topic.rsplit("/", 1)[1]
    own = f"persistent://public/{name}/t"

    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, f"public/{name}")
            client = await broker.connect()
            await client.producer(topic=own)
            (opened,) = broker.broker.topics.open
            path = f"namespaces/public/{name}/maxProducersPerTopic"
            waiting = asyncio.create_task(settled(opened, lambda: opened.producers.most == 1))
            await asyncio.sleep(0)
            await broker.done("POST", path, 1)
            await waiting
            request = client.next_request()
            client.send(5, "producer", topic=own, producer_id=1, request_id=request)
            assert "maxProducersPerTopic" in (await client.expect("error")).message
            assert await broker.get(path) == 1

    run(main())


def test_every_policy_is_read_set_and_removed(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            await broker.cluster.open_topic(f"persistent://public/{name}/t", create=True)  # a namespace without a node
            base = f"namespaces/public/{name}"
            for policy in POLICIES:
                assert await broker.get(f"{base}/{policy.path}") == policy.unset
            await broker.done("POST", f"{base}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100})
            await broker.done("POST", f"{base}/backlogQuota", {"limitSize": 1 << 20, "policy": "producer_exception"})
            await broker.done(
                "POST",
                f"{base}/backlogQuota?backlogQuotaType=message_age",
                {"limitTime": 60, "policy": "consumer_backlog_eviction"},
            )
            assert set(await broker.get(f"{base}/backlogQuotaMap")) == {"destination_storage", "message_age"}
            await broker.done("DELETE", f"{base}/backlogQuota?backlogQuotaType=message_age")
            assert set(await broker.get(f"{base}/backlogQuotaMap")) == {"destination_storage"}
            await broker.done("DELETE", f"{base}/retention")
            assert await broker.get(f"{base}/retention") is None
            await broker.done("PUT", f"{base}/compactionThreshold", 100)
            assert await broker.get(f"{base}/compactionThreshold") == 100

    run(main())


def test_other_fields_of_the_node_stay_and_two_writers_lose_nothing(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            store, path = broker.cluster.store, f"/admin/policies/public/{name}"
            await store.create(path, json.dumps({"of_a_later_version": 1}).encode(), parents=True)
            paths = [
                ("POST", f"namespaces/public/{name}/{policy.path}", 7)
                for policy in POLICIES
                if policy.path.startswith("max")
            ]
            await asyncio.gather(*(broker.done(*each) for each in paths))
            found = json.loads((await store.get(path)).data)
            assert found["of_a_later_version"] == 1
            assert sorted(found.values()) == [1, *[7] * len(paths)]

    run(main())


def test_a_namespace_that_is_not_there_has_no_policies(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            path = "namespaces/public/not-there/messageTTL"
            assert await broker.refused("POST", path, 60) == (404, "Namespace policies does not exist")
            assert await broker.refused("GET", path) == (404, "Namespace does not exist")

    run(main())
