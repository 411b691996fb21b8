"""The backlogs of a whole namespace, and of a bundle: cleared, and given up with their subscriptions."""

import pytest

from mledger.broker.lookup.bundle_ranges import plan_boundaries, plan_bundle
from mledger.cursors.compaction import COMPACTION
from mledger.metastore.records.paths import TopicName
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import BUNDLES, create_namespace


@pytest.fixture
def namespace(topic):
    """The name of a namespace that no other test has."""
    return f"{topic.rsplit('/', 1)[1]}/ns"


async def create_topics(broker, namespace, topics):
    """Create a namespace, and topics with these subscriptions, each of which has a backlog of one message."""
    await create_namespace(broker.cluster.store, namespace)
    for name, subscriptions in topics.items():
        client = await broker.connect()
        await client.producer(topic=f"persistent://{namespace}/{name}")
        for subscription in subscriptions:
            await broker.done("PUT", f"persistent/{namespace}/{name}/subscription/{subscription}")
        await client.publish_all(b"0")


async def backlogs(broker, namespace, *names):
    """Those of the subscriptions of each topic."""
    found = {}
    for name in names:
        stats = await broker.get(f"persistent/{namespace}/{name}/stats")
        found[name] = {key: each["msgBacklog"] for key, each in stats["subscriptions"].items()}
    return found


def test_everything_is_acknowledged_wherever_topics_are_served_but_not_for_compaction(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as one, web_served(broker_url) as other:
            await create_topics(other, namespace, {"a": ["sub", "x%2Fy"], "b": ["sub", COMPACTION], "c": []})
            assert (one.broker.topics.open, len(other.broker.topics.open)) == ([], 3)
            await one.done("POST", f"namespaces/{namespace}/clearBacklog")
            assert await backlogs(other, namespace, "a", "b", "c") == {
                "a": {"sub": 0, "x/y": 0},
                "b": {"sub": 0, COMPACTION: 1},
                "c": {},
            }

    run(main())


def test_one_subscription_is_cleared_where_a_topic_has_it(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as broker:
            await create_topics(broker, namespace, {"a": ["sub", "other"], "b": ["other"]})
            await broker.done("POST", f"namespaces/{namespace}/clearBacklog/sub")
            assert await backlogs(broker, namespace, "a", "b") == {"a": {"sub": 0, "other": 1}, "b": {"other": 1}}
            assert (await broker.refused("POST", f"namespaces/{namespace}/clearBacklog/{COMPACTION}"))[0] == 412

    run(main())


def test_a_subscription_is_given_up_unless_it_has_consumers(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as broker:
            await create_topics(broker, namespace, {"a": ["sub", "other"], "b": ["other"]})
            client = await broker.connect()
            await client.subscribe(topic=f"persistent://{namespace}/b", subscription="other")
            await broker.done("POST", f"namespaces/{namespace}/unsubscribe/sub")
            assert await backlogs(broker, namespace, "a", "b") == {"a": {"other": 1}, "b": {"other": 1}}
            assert await broker.refused("POST", f"namespaces/{namespace}/unsubscribe/other") == (
                412,
                "Subscription has active connected consumers",
            )
            assert (await backlogs(broker, namespace, "b"))["b"] == {"other": 1}

    run(main())


def test_a_bundle_s_topics_only(broker_url, namespace):
    boundaries = plan_boundaries(BUNDLES)
    bundles = {
        name: plan_bundle(TopicName.parse(f"persistent://{namespace}/{name}"), boundaries) for name in "abcdefgh"
    }
    inside = bundles["a"]
    outside = next(name for name, bundle in bundles.items() if bundle != inside)

    async def main():
        async with web_served(broker_url) as broker:
            await create_topics(broker, namespace, {"a": ["sub", "gone"], outside: ["sub", "gone"]})
            path = f"namespaces/{namespace}/{inside}"
            await broker.done("POST", f"{path}/unsubscribe/gone")
            await broker.done("POST", f"{path}/clearBacklog/sub")
            kept = {"sub": 1, "gone": 1}
            assert await backlogs(broker, namespace, "a", outside) == {"a": {"sub": 0}, outside: kept}
            await broker.done("POST", f"namespaces/{namespace}/{bundles[outside]}/clearBacklog")
            assert (await backlogs(broker, namespace, outside))[outside] == {"sub": 0, "gone": 0}
            assert (await broker.refused("POST", f"namespaces/{namespace}/0x00000000_0x11111111/clearBacklog"))[
                0
            ] == 412
            assert await broker.refused("POST", f"namespaces/{namespace}x/clearBacklog") == (
                404,
                "Namespace not found",
            )

    run(main())
