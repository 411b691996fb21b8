"""Topics are created, listed and deleted."""

import asyncio
from itertools import pairwise

import pytest

import mledger
from mledger.broker.lookup.bundle_ranges import plan_bundle
from mledger.broker.schemas.schema_registry import SchemaRegistry
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import ONE_BOOKIE
from tests.support.metadata.namespaces import create_namespace


def path_of(topic):
    return topic.replace("://", "/")


def test_a_topic_is_created_with_properties_and_deleted(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", path, {"a": "b"})
            assert await broker.refused("PUT", path) == (409, "This topic already exists")
            assert topic in await broker.get("persistent/public/default")
            assert await broker.get(f"{path}/properties") == {"a": "b"}
            shadow = {"PULSAR.SHADOW_SOURCE": topic}
            assert (await broker.refused("PUT", path_of(f"{topic}-shadow"), shadow))[0] == 501
            assert (await broker.refused("GET", f"{path_of(topic)}-shadow/stats"))[0] == 404
            assert await broker.get(f"{path}/partitions") == {"partitions": 0, "deleted": False}
            await broker.done("DELETE", path)
            assert await broker.refused("DELETE", path) == (404, f"Topic {topic} not found")
            assert topic not in await broker.get("persistent/public/default")

    run(main())


def test_names_that_cannot_be_topics_are_refused(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            assert (await broker.refused("PUT", f"{path_of(topic)}-partition-0"))[0] == 412
            assert await broker.refused("PUT", "persistent/public/nowhere/t") == (404, "Namespace not found")
            assert (await broker.refused("GET", "persistent/public/nowhere"))[0] == 404
            assert (await broker.refused("PUT", "persistent/pub%20lic/default/t"))[0] in (404, 412)
            assert (await broker.refused("PUT", "persistent/public/default/%2E%2E"))[0] == 412

    run(main())


def test_a_topic_in_use_is_deleted_only_with_force(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic)
            status, reason = await broker.refused("DELETE", path_of(topic))
            assert (status, reason.split(":")[0]) == (412, "Topic has 2 connected producers/consumers")
            await broker.done("DELETE", f"{path_of(topic)}?force=true")
            await client.expect("close_producer")
            await client.expect("close_consumer")
            assert (await broker.refused("GET", f"{path_of(topic)}/stats"))[0] == 404
            other = await broker.connect()
            await other.subscribe(topic=topic)
            assert (await broker.get(f"{path_of(topic)}/stats"))["subscriptions"]["sub"]["msgBacklog"] == 0

    run(main())


@pytest.mark.parametrize("lives", [True, False], ids=["another owner", "another owner that is gone"])
def test_a_topic_that_another_owner_has_taken_is_not_deleted_without_force(broker_url, topic, lives):
    """The broker, which may have stood still, has not heard of it, and knows none of the other one's clients."""

    async def main():
        async with web_served(broker_url) as broker, mledger.open_cluster(broker_url, config=ONE_BOOKIE) as other:
            await broker.done("PUT", path_of(topic))
            taken = await other.open_topic(topic, take_over=True)
            await taken.add(b"0")
            if not lives:
                await taken.close()
            broker.cluster._session_timeout = 0.1  # for so long it waits whether the other one lives
            assert (await broker.refused("DELETE", path_of(topic)))[0] == 503
            assert topic in await broker.get("persistent/public/default")
            if lives:
                await taken.add(b"1")

    run(main())


def test_a_topic_of_another_broker_is_answered_with_its_url(broker_url, topic):
    async def main():
        async with web_served(broker_url) as one, web_served(broker_url) as other:
            namespace = f"public/{topic.rsplit('/', 1)[1]}"
            await create_namespace(one.cluster.store, namespace)
            own = f"persistent://{namespace}/t"
            client = await other.connect()
            await client.producer(topic=own)
            answer = await one.ask("GET", f"{path_of(own)}/stats?x=1")
            assert answer.status == 307
            base = f"http://127.0.0.1:{other.web_port}/admin/v2/"
            assert answer.headers["location"] == f"{base}{path_of(own)}/stats?x=1&authoritative=false"
            assert (await other.get(f"{path_of(own)}/stats"))["publishers"]
            assert (await one.ask("DELETE", path_of(own))).status == 307

    run(main())


def test_many_requests_at_once_create_one_topic(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            answers = await asyncio.gather(*(broker.ask("PUT", path_of(topic)) for _ in range(8)))
            assert sorted(each.status for each in answers) == [204, *[409] * 7]

    run(main())


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_a_list_has_the_topics_of_one_bundle_if_it_is_named(broker_url, own_topic, domain):
    async def main():
        async with web_served(broker_url) as broker:
            namespace = TopicName.parse(own_topic).namespace_name
            topics = [f"{domain}://{namespace}/t{number}" for number in range(8)]
            client = await broker.connect()
            for number, each in enumerate(topics):
                await client.producer(number, topic=each)
            boundaries = (await broker.get(f"namespaces/{namespace}/bundles"))["boundaries"]
            listed = {
                bundle: await broker.get(f"{domain}/{namespace}?bundle={bundle}")
                for bundle in map("_".join, pairwise(boundaries))
            }
            hashes = [int(each, 16) for each in boundaries]
            assert {topic: bundle for bundle, found in listed.items() for topic in found} == {
                topic: plan_bundle(TopicName.parse_served(topic), hashes) for topic in topics
            }
            assert sum(map(len, listed.values())) == len(topics)
            assert await broker.get(f"{domain}/{namespace}?bundle=0x00000000_0x00000001") == []

    run(main())


@pytest.mark.parametrize("part", ["", "/partitions"], ids=["plain", "partitioned"])
def test_a_deletion_that_was_cut_off_before_the_schema_was_removed_is_finished_by_the_next_one(
    broker_url, topic, monkeypatch, part
):
    """Else a new topic of that name takes no other schema."""
    path, served_as = path_of(topic), f"{topic}-partition-0" if part else topic
    number, text = (
        {"type": pb.Schema.Avro, "name": "s", "schema_data": b'"%s"' % kind} for kind in (b"int", b"string")
    )

    async def cut_off(*_):
        raise StoreUnavailable("killed", path)

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"{path}{part}", 1 if part else None)
            await (await broker.connect()).producer(topic=served_as, schema=number)
            with monkeypatch.context() as killed:
                killed.setattr(SchemaRegistry, "remove", cut_off)
                assert (await broker.refused("DELETE", f"{path}{part}?force=true"))[0] >= 500
            assert (await broker.refused("DELETE", f"{path}{part}"))[0] == 404
            await broker.done("PUT", f"{path}{part}", 1 if part else None)
            await (await broker.connect()).producer(topic=served_as, schema=text)

    run(main())


@pytest.mark.parametrize(
    ("part", "namesake"),
    [("", "persistent://{}-partition-0"), ("/partitions", "non-persistent://{}")],
    ids=["partition-without-a-whole", "not-stored"],
)
def test_a_refused_deletion_removes_no_schema_that_another_topic_has(broker_url, topic, part, namesake):
    async def main():
        async with web_served(broker_url) as broker:
            name = topic.partition("://")[2]
            other = namesake.format(name)
            if other.startswith("persistent:"):
                async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
                    await (await cluster.create_topic(other)).close()
            number = {"type": pb.Schema.Avro, "name": "s", "schema_data": b'"int"'}
            await (await broker.connect()).producer(topic=other, schema=number)
            assert (await broker.refused("DELETE", f"{path_of(topic)}{part}"))[0] == 404
            assert (await broker.get(f"schemas/{name}/schema"))["version"] == 0

    run(main())
