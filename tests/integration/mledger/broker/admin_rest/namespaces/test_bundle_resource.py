"""Bundles are split while clients use their topics."""

import asyncio
import json
from itertools import pairwise

import pytest

from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace_at

WHOLE = "0x00000000_0xffffffff"


@pytest.fixture
def namespace(broker_url, topic):
    """A namespace of its own, of one bundle."""
    return create_namespace_at(broker_url, f"public/{topic.rsplit('/', 1)[1]}", bundles=1)


async def published(broker, topic):
    """Publish a message as a new client; returns its position."""
    client = await broker.connect()
    await client.producer(topic=topic)
    (position,) = await client.publish_all(b"x")
    return position


def test_topics_of_a_bundle_that_was_split_go_on_in_its_parts(broker_url, namespace):
    topics = [f"persistent://{namespace}/t{number}" for number in range(8)]

    async def main():
        async with web_served(broker_url) as broker:
            before = [await published(broker, topic) for topic in topics]
            path = f"/admin/local-policies/{namespace}"
            kept = {
                "namespaceAntiAffinityGroup": "kept",
                "bundles": await broker.get(f"namespaces/{namespace}/bundles"),
            }
            await broker.cluster.store.create(path, json.dumps(kept).encode(), parents=True)
            await broker.done("PUT", f"namespaces/{namespace}/{WHOLE}/split?unload=true")
            found = await broker.get(f"namespaces/{namespace}/bundles")
            assert found["boundaries"] == ["0x00000000", "0x7fffffff", "0xffffffff"]
            node = await broker.cluster.store.get(path)
            assert json.loads(node.data)["namespaceAntiAffinityGroup"] == "kept"
            assert [each for each in broker.broker.owners.owned if each.namespace == namespace] == []
            after = [await published(broker, topic) for topic in topics]
            assert all(one < other for one, other in zip(before, after, strict=True))
            ranges = {each.range for each in broker.broker.owners.owned if each.namespace == namespace}
            assert ranges == {"0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"}
            for bundle in ranges:
                listed = await broker.get(f"persistent/{namespace}?bundle={bundle}")
                shown = await broker.get(f"namespaces/{namespace}/{bundle}/topicHashPositions")
                assert shown["topicHashPositions"].keys() == set(listed)
                assert (shown["namespace"], shown["bundle"]) == (namespace, bundle)
                one = await broker.get(f"namespaces/{namespace}/{bundle}/topicHashPositions?topics={topics[0]},none")
                assert list(one["topicHashPositions"]) == [each for each in topics[:1] if each in listed]

    run(main())


def test_a_bundle_is_divided_by_what_its_topics_have_to_do(broker_url, namespace):
    topics = [f"persistent://{namespace}/t{number}" for number in range(3)]

    async def main():
        settings = ("loadBalancerNamespaceBundleMaxMsgRate=1", "flowOrQpsDifferenceThresholdPercentage=0")
        async with web_served(broker_url, *settings) as broker:
            path = f"namespaces/{namespace}/{WHOLE}/split?splitAlgorithmName=flow_or_qps_equally_divide"
            client = await broker.connect()
            for number, topic in enumerate(topics):
                await client.producer(number, topic)
            await broker.done("PUT", path)  # they have nothing to do
            assert (await broker.get(f"namespaces/{namespace}/bundles"))["numBundles"] == 1
            await published(broker, topics[0])
            opened = broker.broker.topics.open
            for topic in opened:
                for producer in topic.producers:
                    producer.rates.per_second = (5.0, 5.0, 0.0)
            await broker.done("PUT", path)
            places = (await broker.get(f"namespaces/{namespace}/bundles"))["boundaries"]
            assert len(places) == len(topics) + 1
            for one, other in pairwise(places):
                shown = await broker.get(f"namespaces/{namespace}/{one}_{other}/topicHashPositions")
                assert len(shown["topicHashPositions"]) == 1

    run(main())


def test_a_namespace_that_has_no_node_gets_one_with_its_first_split(unshared_url):
    async def main():
        async with web_served(unshared_url) as broker:
            await published(broker, "persistent://public/default/t")
            bundles = (await broker.get("namespaces/public/default/bundles"))["boundaries"]
            await broker.done("PUT", f"namespaces/public/default/{bundles[0]}_{bundles[1]}/split")
            assert (await broker.get("namespaces/public/default"))["bundles"]["numBundles"] == len(bundles)
            await published(broker, "persistent://public/default/t")
            assert await broker.get("persistent/public/default/t/retention") is None  # its policies can be read

    run(main())


def test_of_two_splits_of_a_bundle_at_once_one_counts(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"namespaces/{namespace}/{WHOLE}/split?splitAlgorithmName=specified_positions_divide"
            answers = await asyncio.gather(*(broker.ask("PUT", path, [each]) for each in (16, 32, 48)))
            assert min(each.status for each in answers) == 204
            assert {each.status for each in answers} <= {204, 409, 412}
            assert (await broker.get(f"namespaces/{namespace}/bundles"))["numBundles"] == 2

    run(main())


def test_what_is_no_split_is_refused_and_one_without_parts_changes_nothing(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"namespaces/{namespace}/{WHOLE}/split"
            for query in ("topic_count_equally_divide", "range_equally_divide"):
                missing = f"namespaces/{namespace}/0x00000000_0x00000008/split?splitAlgorithmName={query}"
                assert (await broker.refused("PUT", missing))[0] == 412
            assert (await broker.refused("PUT", f"namespaces/public/none/{WHOLE}/split"))[0] == 404
            assert (await broker.refused("PUT", f"{path}?splitAlgorithmName=none"))[0] == 412
            at = f"{path}?splitAlgorithmName=specified_positions_divide"
            assert [(await broker.refused("PUT", at, body))[0] for body in (None, [], {}, ["x"], [[1]], [2**64])] == [
                412,
                412,
                400,
                400,
                400,
                400,
            ]
            await broker.done("PUT", at, [0, 0xFFFFFFFF, -5, 0.5])
            for algorithm in ("topic_count_equally_divide", "flow_or_qps_equally_divide"):
                await broker.done("PUT", f"{path}?splitAlgorithmName={algorithm}")
            assert (await broker.get(f"namespaces/{namespace}/bundles"))["numBundles"] == 1
            assert await broker.cluster.store.exists(f"/admin/local-policies/{namespace}") is None

    run(main())
