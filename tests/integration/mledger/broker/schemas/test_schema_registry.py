"""The registry on a real bookie: versions at once from two brokers, deletion, and what a failure leaves."""

import asyncio
import json
import threading

import pytest

import mledger
from mledger.broker.schemas import schema_registry
from mledger.broker.schemas.compatibility import CompatibilityStrategy, IncompatibleSchema, SchemaMissing
from mledger.broker.schemas.schema_registry import SchemaRegistry
from mledger.broker.schemas.stored_schema import locator_path
from mledger.broker.schemas.topic_schema import SchemaType, TopicSchema
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from tests.support.aio import run
from tests.support.brokers.served_broker import ONE_BOOKIE

ANY = CompatibilityStrategy.ALWAYS_COMPATIBLE
TEXT = TopicSchema(SchemaType.STRING, b"")


def number(bits):
    return TopicSchema(SchemaType[f"INT{bits}"], b"")


def registry_of(cluster):
    return SchemaRegistry(cluster.store, cluster.bookkeeper, cluster.config, lambda: 5)


def id_of(topic):
    return TopicName.parse(topic).namespace_name + "/" + TopicName.parse(topic).local_name


async def ledgers(cluster):
    return {ledger async for found in cluster.bookkeeper.list_ledgers() for ledger in found}


def test_two_brokers_that_add_at_once_agree_on_the_versions(broker_url, topic):
    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
            one, other = registry_of(cluster), registry_of(cluster)
            schemas = [TEXT, number(8), number(16), number(32), number(64), TEXT]
            before = await ledgers(cluster)
            found = await asyncio.gather(
                *(
                    broker.put(id_of(topic), schema, ANY)
                    for at, schema in enumerate(schemas)
                    for broker in ((one, other) if at % 2 else (other, one))
                )
            )
            versions = await registry_of(cluster).versions(id_of(topic))
            assert [version.number for version in versions] == list(range(5))
            assert {version.schema.type for version in versions} == {schema.type for schema in schemas}
            assert all(versions[each.number].schema == each.schema for each in found)
            assert len(await ledgers(cluster) - before) == 5  # those of lost races are deleted

    run(main())


def test_a_deletion_ends_the_versions_so_far(broker_url, topic):
    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
            registry = registry_of(cluster)
            with pytest.raises(SchemaMissing):
                await registry.delete(id_of(topic))
            await registry.put(id_of(topic), number(8), CompatibilityStrategy.FULL)
            await registry.delete(id_of(topic))
            assert await registry.latest(id_of(topic)) is None
            assert await registry.versions(id_of(topic)) == []
            assert await registry.version(id_of(topic), 0) is None
            again = await registry.put(id_of(topic), TEXT, CompatibilityStrategy.FULL)
            assert again.number == 2
            assert await registry.latest(id_of(topic)) == again
            assert [await registry.version(id_of(topic), number) for number in range(3)] == [None, None, again]

    run(main())


def test_a_locator_that_names_a_topics_ledger_does_not_take_it_along(broker_url, topic):
    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
            registry = registry_of(cluster)
            opened = await cluster.create_topic(topic)
            before = await ledgers(cluster)
            (data,) = opened.ledger_list.ids
            await registry.put(id_of(topic), TEXT, ANY)
            path = locator_path(id_of(topic))
            node = await cluster.store.get(path)
            locator = SchemaLocator.FromString(node.data)
            wrong = locator.index.add()
            wrong.CopyFrom(locator.info)
            wrong.position.ledgerId = data
            await cluster.store.put(path, locator.SerializeToString(), node.version)
            await registry.remove(id_of(topic))
            assert await ledgers(cluster) == before

    run(main())


def test_what_is_not_compatible_leaves_nothing(broker_url, topic):
    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
            registry = registry_of(cluster)
            await registry.put(id_of(topic), TEXT, CompatibilityStrategy.FULL)
            before = await ledgers(cluster)
            for wrong in (number(8), TopicSchema(SchemaType.AVRO, b"no schema")):
                with pytest.raises(IncompatibleSchema):
                    await registry.put(id_of(topic), wrong, CompatibilityStrategy.FULL)
            assert await ledgers(cluster) == before
            assert len(await registry.versions(id_of(topic))) == 1

    run(main())


def test_a_write_that_arrived_without_an_answer_counts(broker_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
            registry = registry_of(cluster)
            await registry.put(id_of(topic), TEXT, ANY)
            put = cluster.store.put

            async def unheard(path, data, version):
                await put(path, data, version)
                raise BadVersion("the answer was lost, and the write was tried again", path)

            monkeypatch.setattr(cluster.store, "put", unheard)
            assert (await registry.put(id_of(topic), number(8), ANY)).number == 1
            monkeypatch.undo()
            assert (await registry.latest(id_of(topic))).schema == number(8)

    run(main())


def avro(fields):
    text = {"type": "record", "name": "R", "fields": [{"name": f"f{at}", "type": "int"} for at in range(fields)]}
    return TopicSchema(SchemaType.AVRO, json.dumps(text).encode())


@pytest.mark.parametrize(("fields", "apart"), [(10, False), (1_000, True)], ids=["small", "large"])
def test_clients_do_not_wait_while_large_schemas_are_compared(broker_url, topic, monkeypatch, fields, apart):
    threads = set()

    def noted(name):
        work = getattr(schema_registry, name)

        def do(*given):
            threads.add(threading.current_thread() is not threading.main_thread())
            return work(*given)

        return do

    for name in ("check_valid", "find_version", "check_compatible", "check_consumer"):
        monkeypatch.setattr(schema_registry, name, noted(name))

    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
            registry, strategy = registry_of(cluster), CompatibilityStrategy.BACKWARD
            await registry.put(id_of(topic), avro(fields), strategy)
            await registry.put(id_of(topic), avro(fields - 1), strategy)
            await registry.check_consumer(id_of(topic), avro(fields - 1), strategy)
            assert threads == {apart}

    run(main())
