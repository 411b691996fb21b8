"""Schemas over a real connection: what producers and consumers bring, how versions count, and what is refused."""

import json

import pytest

from mledger.admin.partitions import create_partitioned_topic
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import ANY_VERSION
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served

V0, V1 = bytes(8), bytes(7) + b"\1"


def avro(*fields, kind=pb.Schema.Avro):
    """A record of int fields; a name that ends in ? has a default."""
    texts = [
        {"name": name.removesuffix("?"), "type": "int"} | ({"default": 0} if name.endswith("?") else {})
        for name in fields
    ]
    data = json.dumps({"type": "record", "name": "R", "fields": texts}).encode()
    return pb.Schema(name="", schema_data=data, type=kind)


async def produce(client, topic, schema=None, number=0):
    """Open a producer; returns the version that it writes with."""
    fields = {} if schema is None else {"schema": schema}
    return (await client.producer(number=number, topic=topic, **fields)).schema_version


async def refusal(client, kind, field, **fields):
    """The code with which a request is refused."""
    answer = await client.request(kind, field, "error", **fields)
    return answer.error


async def schema_of(client, topic, version=None):
    fields = {} if version is None else {"schema_version": version}
    return await client.request(pb.BaseCommand.GET_SCHEMA, "getSchema", "getSchemaResponse", topic=topic, **fields)


def test_producers_bring_versions_that_count_from_0(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            assert await produce(client, topic, avro("a"), 1) == V0
            assert await produce(client, topic, avro("a", "b?"), 2) == V1
            assert await produce(client, topic, avro("a"), 3) == V0
            assert await produce(client, topic, None, 4) == b""
        async with served(broker_url) as broker:
            client = await broker.connect()
            assert await produce(client, topic, avro("a", "b?"), 1) == V1

    run(main())


def test_brokers_bring_any_schema_to_their_own_topics(broker_url, own_topic):
    async def main():
        settings = ("isAllowAutoUpdateSchemaEnabled=false", "schemaCompatibilityStrategy=ALWAYS_INCOMPATIBLE")
        events = f"{own_topic.removesuffix('t')}__change_events"
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            assert await produce(client, events, avro("a"), 1) == V0
            assert await produce(client, events, avro("b"), 2) == V1

    run(main())


def test_bytes_that_a_client_gives_as_a_schema_have_a_version_too(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            plain = pb.Schema(name="Bytes", schema_data=b"", type=pb.Schema.Type.Value("None"))
            assert await produce(client, topic, plain) == V0
            found = await schema_of(client, topic)
            assert (found.schema.type, found.schema_version) == (plain.type, V0)
            await client.subscribe(topic=topic, schema=plain)

    run(main())


def test_a_schema_is_given_by_version_and_the_latest_without(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await produce(client, topic, avro("a"), 1)
            await produce(client, topic, avro("a", "b?"), 2)
            first, latest = await schema_of(client, topic, V0), await schema_of(client, topic)
            assert (first.schema.schema_data, first.schema_version) == (avro("a").schema_data, V0)
            assert (latest.schema.schema_data, latest.schema_version) == (avro("a", "b?").schema_data, V1)
            assert latest.schema.type == pb.Schema.Avro
            assert latest.schema.name == TopicName.parse(topic).local_name
            assert (await schema_of(client, topic, bytes(7) + b"\2")).error_code == pb.TopicNotFound
            assert (await schema_of(client, topic, b"")).error_code == pb.IncompatibleSchema
            assert (await schema_of(client, f"{topic}-other")).error_code == pb.TopicNotFound

    run(main())


def test_a_producer_whose_schema_does_not_fit_is_refused_and_nothing_is_stored(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await produce(client, topic, avro("a"), 1)
            fields = {"topic": topic, "producer_id": 2, "schema": avro("b")}
            assert await refusal(client, pb.BaseCommand.PRODUCER, "producer", **fields) == pb.IncompatibleSchema
            fields["schema"] = pb.Schema(name="", schema_data=b"", type=pb.Schema.String)
            assert await refusal(client, pb.BaseCommand.PRODUCER, "producer", **fields) == pb.IncompatibleSchema
            assert (await schema_of(client, topic)).schema_version == V0

    run(main())


def test_the_strategy_of_the_broker_and_of_the_namespace(broker_url, topic):
    async def main():
        async with served(broker_url, "schemaCompatibilityStrategy=FORWARD") as broker:
            client = await broker.connect()
            await produce(client, topic, avro("a"), 1)
            assert await produce(client, topic, avro("a", "b"), 2) == V1
            path = f"/admin/policies/{TopicName.parse(topic).namespace_name}"
            policies = {"schema_compatibility_strategy": "ALWAYS_COMPATIBLE"}
            store = broker.cluster.store
            if await store.exists(path) is None:
                await store.create(path, json.dumps(policies).encode(), parents=True)
            else:
                await store.put(path, json.dumps(policies).encode(), ANY_VERSION)
            text = pb.Schema(name="", schema_data=b"", type=pb.Schema.String)
            assert await produce(client, topic, text, 3) == bytes(7) + b"\2"
            await store.delete(path)

    run(main())


def test_where_clients_add_no_schemas_only_known_ones_are_taken(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            await produce(await broker.connect(), topic, avro("a"))
        async with served(broker_url, "isAllowAutoUpdateSchemaEnabled=false") as broker:
            client = await broker.connect()
            assert await produce(client, topic, avro("a"), 1) == V0
            fields = {"topic": topic, "producer_id": 2, "schema": avro("a", "b?")}
            assert await refusal(client, pb.BaseCommand.PRODUCER, "producer", **fields) == pb.IncompatibleSchema

    run(main())


def test_where_schemas_are_enforced_a_producer_without_one_is_refused(broker_url, topic):
    async def main():
        async with served(broker_url, "isSchemaValidationEnforced=true") as broker:
            client = await broker.connect()
            assert await produce(client, topic, None, 1) == b""
            assert await produce(client, topic, avro("a"), 2) == V0
            fields = {"topic": topic, "producer_id": 3}
            assert await refusal(client, pb.BaseCommand.PRODUCER, "producer", **fields) == pb.IncompatibleSchema

    run(main())


SUBSCRIBE = {"subscription": "sub", "subType": "Exclusive", "consumer_id": 0}


def test_the_first_consumer_of_an_idle_topic_brings_its_schema(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, schema=avro("a"))
            assert (await schema_of(client, topic)).schema_version == V0

    run(main())


@pytest.mark.parametrize("with_schema", [True, False])
def test_a_consumer_that_cannot_read_the_topic_is_refused(broker_url, topic, with_schema):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await produce(client, topic, avro("a") if with_schema else None)
            fields = SUBSCRIBE | {"topic": topic, "schema": avro("a", "b")}
            assert await refusal(client, pb.BaseCommand.SUBSCRIBE, "subscribe", **fields) == pb.IncompatibleSchema

    run(main())


def test_a_consumer_that_takes_any_schema_subscribes_and_brings_none(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, schema=pb.Schema(name="", schema_data=b"", type=pb.Schema.AutoConsume))
            assert (await schema_of(client, topic)).error_code == pb.TopicNotFound
            await client.subscribe(1, topic=topic, subscription="other", schema=avro("a"))
            assert (await schema_of(client, topic)).schema_version == V0

    run(main())


def test_a_schema_is_registered_without_a_producer(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()

            async def register(name, schema):
                kind, answer = pb.BaseCommand.GET_OR_CREATE_SCHEMA, "getOrCreateSchemaResponse"
                return await client.request(kind, "getOrCreateSchema", answer, topic=name, schema=schema)

            await produce(client, topic)
            assert (await register(topic, avro("a", kind=pb.Schema.Json))).schema_version == V0
            assert (await register(topic, avro("b", kind=pb.Schema.Json))).error_code == pb.IncompatibleSchema
            assert (await register(f"{topic}-none", avro("a"))).error_code == pb.TopicNotFound

    run(main())


def test_partitions_share_the_schema_of_their_topic(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            await create_partitioned_topic(broker.cluster.store, topic, 2)
            client = await broker.connect()
            assert await produce(client, f"{topic}-partition-0", avro("a"), 1) == V0
            assert await produce(client, f"{topic}-partition-1", avro("a", "b?"), 2) == V1
            assert (await schema_of(client, topic)).schema_version == V1

    run(main())
