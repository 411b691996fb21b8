"""Lookups over HTTP: what clients with an `http` service URL ask, at Pulsar's paths."""

import asyncio
import logging

import pulsar

from mledger.broker.lookup.bundle_ranges import plan_boundaries, plan_bundle
from mledger.metastore.records.paths import TopicName
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.http import get
from tests.support.metadata.namespaces import create_namespace_at


def lookup_of(topic):
    return f"/lookup/v2/topic/{topic.replace('://', '/')}"


def partitions_of(topic):
    return f"/admin/v2/{topic.replace('://', '/')}/partitions"


def exchange(service_url, topic):
    """What a client receives of a message that it sends."""
    quiet = logging.getLogger("http lookup")
    quiet.setLevel(logging.ERROR)
    client = pulsar.Client(service_url, operation_timeout_seconds=120, logger=quiet)
    consumer = client.subscribe(topic, "sub")
    client.create_producer(topic).send(b"hello")
    received = consumer.receive(60_000).data()
    client.close()
    return received


def test_an_official_client_with_an_http_url_sends_and_receives(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            assert await asyncio.to_thread(exchange, f"http://127.0.0.1:{broker.web_port}", topic) == b"hello"
            answer = await get(broker.web_port, "/admin/v2/namespaces/public/default/topics?mode=PERSISTENT")
            assert topic in answer.json

    run(main())


def test_partitions_are_told_and_created_only_where_a_client_says_so(broker_url, topic):
    async def main():
        settings = ("allowAutoTopicCreationType=partitioned", "defaultNumPartitions=3")
        async with web_served(broker_url, *settings) as broker:
            assert (await get(broker.web_port, partitions_of(topic))).status == 404
            asked = f"{partitions_of(topic)}?checkAllowAutoCreation=true"
            assert (await get(broker.web_port, asked)).json["partitions"] == 3
            assert (await get(broker.web_port, partitions_of(topic))).json["partitions"] == 3
            assert (await get(broker.web_port, partitions_of(f"{topic}-partition-0"))).json["partitions"] == 0
            assert (await get(broker.web_port, "/lookup/v2/topic/persistent/no-topic")).status == 412
            bundle = plan_bundle(TopicName.parse(topic), plan_boundaries(4))
            found = await get(broker.web_port, f"/lookup/v2/topic/{topic.replace('://', '/')}/bundle")
            assert (found.status, found.body) == (200, bundle)

    run(main())


def test_a_client_is_sent_to_the_broker_that_will_serve_the_topic(broker_url, topic):
    namespace = create_namespace_at(broker_url, f"tests/{topic.rpartition('/')[2]}")
    topics = [f"persistent://{namespace}/t-{number}" for number in range(40)]
    bundles = {plan_bundle(TopicName.parse(each), plan_boundaries(4)): each for each in topics}

    async def main():
        async with web_served(broker_url) as one, web_served(broker_url) as other:
            urls = {each.web_port: each.broker.service_url for each in (one, other)}
            redirected = 0
            for each in bundles.values():
                answer = await get(one.web_port, lookup_of(each))
                if answer.status == 307:
                    redirected += 1
                    assert answer.headers["location"].startswith(f"http://127.0.0.1:{other.web_port}/lookup/")
                    path = answer.headers["location"].removeprefix(f"http://127.0.0.1:{other.web_port}")
                    answer = await get(other.web_port, path)
                    assert answer.json["brokerUrl"] == urls[other.web_port]
                    answer = await get(one.web_port, lookup_of(each))
                    assert answer.json["brokerUrl"] == urls[other.web_port]
                    assert answer.json["httpUrl"] == f"http://127.0.0.1:{other.web_port}"
                else:
                    assert answer.json["brokerUrl"] == urls[one.web_port]
            assert redirected

    run(main())
