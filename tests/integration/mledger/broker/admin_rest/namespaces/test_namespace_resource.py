"""Namespaces: created, listed, unloaded, deleted."""

import json

import pytest

from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace


@pytest.fixture
def tenant(topic):
    """A tenant that no other test has."""
    return topic.rsplit("/", 1)[1]


def test_a_namespace_has_a_node_that_pulsar_reads_and_is_gone_with_it(broker_url, tenant):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"namespaces/{tenant}/ns"
            assert await broker.refused("PUT", path) == (404, "Tenant does not exist")
            await broker.done("PUT", f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": ["standalone"]})
            await broker.done("PUT", path, {"bundles": {"numBundles": 2}})
            assert await broker.refused("PUT", path) == (409, "Namespace already exists")
            node = await broker.cluster.store.get(f"/admin/policies/{tenant}/ns")
            bundles = {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2}
            assert json.loads(node.data)["bundles"] == bundles == await broker.get(f"{path}/bundles")
            assert (await broker.get(path))["replication_clusters"] == ["standalone"]
            assert await broker.get(f"namespaces/{tenant}") == [f"{tenant}/ns"]
            await broker.done("DELETE", path)
            assert await broker.refused("GET", path) == (404, "Namespace does not exist")
            assert await broker.refused("DELETE", path) == (404, f"Namespace {tenant}/ns does not exist.")

    run(main())


def test_a_namespace_with_topics_stays_and_one_without_frees_its_bundles(broker_url, tenant):
    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, f"{tenant}/ns")
            client = await broker.connect()
            await client.producer(topic=f"persistent://{tenant}/ns/t")
            await client.publish_all(b"0")
            path = f"namespaces/{tenant}/ns"
            assert await broker.get(f"{path}/topics") == [f"persistent://{tenant}/ns/t"]
            assert await broker.refused("DELETE", path) == (409, "Cannot delete non empty namespace")
            assert (await broker.refused("DELETE", f"{path}?force=true"))[0] == 405
            assert (await broker.refused("DELETE", f"persistent/{tenant}/ns/t"))[0] == 412
            await broker.done("DELETE", f"persistent/{tenant}/ns/t?force=true")
            await broker.done("DELETE", path)
            store = broker.cluster.store
            for root in ("/admin/policies", "/managed-ledgers"):
                assert await store.exists(f"{root}/{tenant}/ns") is None
            assert await store.children(f"/namespace/{tenant}/ns") == []

    run(main())


def test_a_namespace_of_which_a_topic_that_stores_nothing_is_in_use_stays(broker_url, tenant):
    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, f"{tenant}/ns")
            client = await broker.connect()
            await client.producer(topic=f"non-persistent://{tenant}/ns/t")
            assert await broker.refused("DELETE", f"namespaces/{tenant}/ns") == (
                409,
                "Cannot delete non empty namespace",
            )
            await broker.done("DELETE", f"non-persistent/{tenant}/ns/t?force=true")
            await broker.done("DELETE", f"namespaces/{tenant}/ns")

    run(main())


def test_a_namespace_that_keeps_a_partitioned_topic_that_stores_nothing_keeps_its_policies_too(broker_url, tenant):
    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, f"{tenant}/ns")
            path, topic = f"namespaces/{tenant}/ns", f"persistent/{tenant}/ns/t"
            await broker.done("PUT", topic)
            await broker.done("POST", f"{topic}/messageTTL?messageTTL=7")
            await broker.done("DELETE", topic)
            listed = f"persistent/{tenant}/ns?includeSystemTopic=true"
            system = await broker.get(listed)
            assert system == [f"persistent://{tenant}/ns/__change_events"]
            await broker.done("PUT", f"non-persistent/{tenant}/ns/live/partitions", 2)
            assert await broker.refused("DELETE", path) == (409, "Cannot delete non empty namespace")
            assert await broker.get(listed) == system
            await broker.done("DELETE", f"non-persistent/{tenant}/ns/live/partitions")
            await broker.done("DELETE", path)
            assert await broker.refused("GET", path) == (404, "Namespace does not exist")

    run(main())


def test_a_namespace_whose_segments_are_gone_can_be_deleted(broker_url, tenant):
    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, f"{tenant}/ns")
            segment = f"segment://{tenant}/ns/t/0000-ffff-0"
            await (await broker.cluster.open_topic(segment, create=True)).close()
            path = f"namespaces/{tenant}/ns"
            assert await broker.refused("DELETE", path) == (409, "Cannot delete non empty namespace")
            await broker.cluster.delete_topic(segment)
            await broker.done("DELETE", path)
            assert await broker.cluster.store.exists(f"/managed-ledgers/{tenant}/ns") is None

    run(main())


def test_topics_are_listed_with_those_of_brokers_if_asked(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            name = own_topic.removeprefix("persistent://")
            await broker.done("PUT", f"persistent/{name}")
            await broker.done("POST", f"persistent/{name}/maxProducers", 1)
            namespace = name.removesuffix("/t")
            listed = f"namespaces/{namespace}/topics"
            assert await broker.get(listed) == [own_topic]
            both = [f"persistent://{namespace}/__change_events", own_topic]
            assert await broker.get(f"{listed}?includeSystemTopic=true") == both
            assert await broker.get(f"{listed}?includeSystemTopic=true&mode=NON_PERSISTENT") == []

    run(main())


def test_bundles_are_unloaded_by_their_owners(broker_url, tenant):
    async def main():
        async with web_served(broker_url) as one, web_served(broker_url) as other:
            await create_namespace(one.cluster.store, f"{tenant}/ns")
            client = await other.connect()
            await client.producer(topic=f"persistent://{tenant}/ns/t")
            (bundle,) = await one.cluster.store.children(f"/namespace/{tenant}/ns")
            assert len(other.broker.topics.open) == 1
            await one.done("PUT", f"namespaces/{tenant}/ns/{bundle}/unload")
            assert other.broker.topics.open == []
            assert (await one.refused("PUT", f"namespaces/{tenant}/ns/0x00000000_0x11111111/unload"))[0] == 412
            await one.done("PUT", f"namespaces/{tenant}/ns/unload")

    run(main())


def test_a_bundle_is_not_unloaded_to_a_broker_that_the_request_chooses(broker_url, tenant):
    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, f"{tenant}/ns")
            client = await broker.connect()
            await client.producer(topic=f"persistent://{tenant}/ns/t")
            (bundle,) = await broker.cluster.store.children(f"/namespace/{tenant}/ns")
            path = f"namespaces/{tenant}/ns/{bundle}/unload?destinationBroker=127.0.0.1:1"
            assert (await broker.refused("PUT", path))[0] == 501
            assert len(broker.broker.topics.open) == 1

    run(main())


def test_names_that_cannot_be_are_refused(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            assert await broker.refused("PUT", "namespaces/public/n$s") == (412, "Namespace name is not valid")
            assert await broker.refused("GET", "namespaces/nobody") == (404, "Tenant not found")
            assert (await broker.refused("GET", "namespaces/public/nothing/topics"))[0] == 404
            assert (await broker.refused("PUT", "namespaces/public/..%2F..", {}))[0] == 412
            assert (await broker.refused("PUT", "namespaces/public/of-a-list", []))[0] == 400

    run(main())
