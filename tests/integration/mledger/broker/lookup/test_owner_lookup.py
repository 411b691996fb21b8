"""Brokers of one cluster share its topics by bundles, in Pulsar's own nodes of a real metadata store."""

import asyncio
import contextlib
import json

import pytest

from mledger.broker.lookup import owner_lookup
from mledger.broker.lookup.broker_records import encode_bundle_owner, is_disabled
from mledger.broker.lookup.bundle_ranges import plan_boundaries, plan_bundle
from mledger.broker.lookup.owned_bundles import Bundle
from mledger.broker.lookup.unload_request import request_unload
from mledger.errors import OwnedElsewhere
from mledger.ledgers.ownership import find_broker
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store
from mledger.pb import PulsarApi_pb2 as pb
from tests.clients.judged_broker import OurBroker
from tests.support.aio import run
from tests.support.brokers.served_broker import connect_to, served
from tests.support.metadata.held_answers import held_answers
from tests.support.metadata.namespaces import create_namespace_at
from tests.support.zookeeper.server import SHORT_SESSION_S

Lookup = pb.CommandLookupTopicResponse
BUNDLES = 4
KILLED = [
    *(f"managedLedgerDefault{each}=1" for each in ("EnsembleSize", "WriteQuorum", "AckQuorum")),
    f"metadataStoreSessionTimeoutMillis={SHORT_SESSION_S * 1000:.0f}",
]


@pytest.fixture(params=["rocksdb", "zookeeper"])
def url(request):
    """The URL of a cluster on each kind of metadata store."""
    return request.getfixturevalue("broker_url" if request.param == "rocksdb" else "topic_url")


@pytest.fixture
def namespace(url, topic):
    """A namespace that no other test has, with as many bundles as one has by default."""
    return create_namespace_at(url, f"tests/{topic.rpartition('/')[2]}")


def topics_of_each_bundle(namespace):
    """A topic in each of a namespace's bundles."""
    found = {}
    number = 0
    while len(found) < BUNDLES:
        topic = f"persistent://{namespace}/t-{number}"
        found.setdefault(plan_bundle(TopicName.parse(topic), plan_boundaries(BUNDLES)), topic)
        number += 1
    return list(found.values())


def bundle_of(topic):
    name = TopicName.parse(topic)
    return Bundle(name.namespace_name, plan_bundle(name, plan_boundaries(BUNDLES)))


async def lookup(broker, topic, *, authoritative=False):
    client = await broker.connect()
    answer = await client.request(
        pb.BaseCommand.LOOKUP, "lookupTopic", "lookupTopicResponse", topic=topic, authoritative=authoritative
    )
    client.close()
    return answer


async def kill(broker, store):
    """kill -9; returns once the broker's session has ended, so that nobody counts on it."""
    path = f"/loadbalance/brokers/127.0.0.1:{broker.port}"
    async with store.watch(path) as changes:
        await asyncio.to_thread(broker.kill)
        while await store.exists(path) is not None:
            await anext(changes)


async def owner_of(brokers, topic):
    """The broker that serves the topic, found as clients do: from the first broker on."""
    by_url = {each.broker.service_url: each for each in brokers}
    asked, authoritative = brokers[0], False
    while True:
        answer = await lookup(asked, topic, authoritative=authoritative)
        asked = by_url[answer.brokerServiceUrl]
        if answer.response == Lookup.Connect:
            return asked
        assert answer.response == Lookup.Redirect, answer
        authoritative = answer.authoritative


@contextlib.asynccontextmanager
async def two(url):
    async with served(url) as one, served(url) as other:
        yield one, other


def other_than(brokers, owner):
    return brokers[0] if owner is brokers[1] else brokers[1]


def test_a_broker_says_in_pulsars_nodes_where_it_is_and_which_bundles_it_has(url, namespace):
    async def main():
        async with served(url) as broker, await open_store(url) as store:
            topic = topics_of_each_bundle(namespace)[0]
            answer = await lookup(broker, topic)
            service_url = f"pulsar://127.0.0.1:{broker.port}"
            assert (answer.response, answer.brokerServiceUrl) == (Lookup.Connect, service_url)
            assert answer.authoritative
            node = await store.get(bundle_of(topic).path)
            assert json.loads(node.data)["nativeUrl"] == service_url
            assert node.stat.ephemeral_owner == broker.cluster.store.session_id
            path = f"/loadbalance/brokers/127.0.0.1:{broker.port}"
            async with store.watch(path) as changes:
                while not (said := json.loads((await store.get(path)).data))["bundles"]:
                    await anext(changes)
            assert (said["pulsarServiceUrl"], said["bundles"]) == (service_url, [str(bundle_of(topic))])
        async with await open_store(url) as store:
            assert await store.exists(bundle_of(topic).path) is None
            assert await store.exists(path) is None

    run(main())


def test_two_brokers_share_a_namespaces_bundles_evenly_and_name_each_other(url, namespace):
    async def main():
        async with two(url) as brokers:
            topics = topics_of_each_bundle(namespace)
            owners = [await owner_of(brokers, topic) for topic in topics]
            assert [owners.count(each) for each in brokers] == [2, 2]
            for topic, owner in zip(topics, owners, strict=True):
                for each in brokers:
                    answer = await lookup(each, topic)
                    assert answer.response == Lookup.Connect
                    assert answer.brokerServiceUrl == owner.broker.service_url

    run(main())


def test_of_brokers_that_claim_a_bundle_at_once_one_owns_it(url, namespace):
    async def main():
        async with two(url) as brokers:
            for topic in topics_of_each_bundle(namespace):
                answers = await asyncio.gather(*(lookup(each, topic, authoritative=True) for each in brokers * 3))
                assert {answer.response for answer in answers} == {Lookup.Connect}
                assert len({answer.brokerServiceUrl for answer in answers}) == 1

    run(main())


def test_a_broker_opens_no_topic_of_anothers_bundle(url, namespace):
    async def main():
        async with two(url) as brokers:
            topic = topics_of_each_bundle(namespace)[0]
            owner = await owner_of(brokers, topic)
            client = await other_than(brokers, owner).connect()
            client.send(pb.BaseCommand.PRODUCER, "producer", topic=topic, producer_id=0, request_id=1)
            error = await client.expect("error")
            assert error.error == pb.ServiceNotReady
            assert owner.broker.service_url in error.message

    run(main())


def test_an_unloaded_bundle_moves_its_clients_to_the_broker_that_is_to_have_it(url, namespace):
    async def main():
        async with two(url) as brokers:
            topic = topics_of_each_bundle(namespace)[0]
            owner = await owner_of(brokers, topic)
            other = other_than(brokers, owner)
            client = await owner.connect()
            await client.subscribe(0, topic=topic)
            await client.producer(0, topic=topic)
            (position,) = await client.publish_all(b"before")
            await owner.broker.handover.unload(bundle_of(topic))
            closed = await client.expect("close_producer"), await client.expect("close_consumer")
            assert {each.assignedBrokerServiceUrl for each in closed} == {other.broker.service_url}
            moved = await other.connect()
            await moved.subscribe(0, topic=topic, permits=10)
            (message,) = await moved.messages(1)
            assert (message.payload, message.position) == (b"before", position)
            assert await owner_of(brokers, topic) is other

    run(main())


def test_a_bundle_is_unloaded_at_the_request_of_another_program(url, namespace):
    async def main():
        async with two(url) as brokers, await open_store(url) as tool:
            topic = topics_of_each_bundle(namespace)[0]
            owner = await owner_of(brokers, topic)
            client = await owner.connect()
            await client.producer(0, topic=topic)
            await request_unload(tool, TopicName.parse(topic))
            assert await find_broker(tool, TopicName.parse(topic).managed_ledger_name) is None
            closed = await client.expect("close_producer")
            assert closed.assignedBrokerServiceUrl == other_than(brokers, owner).broker.service_url
            await request_unload(tool, TopicName.parse(topic))
            again = await owner_of(brokers, topic)
            assert not is_disabled((await tool.get(bundle_of(topic).path)).data)
            assert again.broker.owners.serves(TopicName.parse(topic))

    run(main())


def test_a_lookup_waits_for_another_broker_that_is_unloading_the_bundle(url, namespace):
    async def main():
        async with served(url) as broker, await open_store(url) as other:
            topic = topics_of_each_bundle(namespace)[0]
            data = json.dumps({"nativeUrl": "pulsar://other:6650", "disabled": True}).encode()
            await other.create(bundle_of(topic).path, data, ephemeral=True, parents=True)
            asked = asyncio.ensure_future(lookup(broker, topic))
            await other.put(bundle_of(topic).path, data, 0)
            await other.delete(bundle_of(topic).path)
            assert (await asked).brokerServiceUrl == broker.broker.service_url

    run(main())


def test_an_owner_that_has_unloaded_the_bundle_since_it_was_found_is_not_answered(url, namespace, monkeypatch):
    find = owner_lookup.find_broker

    async def main():
        async with served(url) as broker, await open_store(url) as other:
            topic = topics_of_each_bundle(namespace)[0]
            path = bundle_of(topic).path
            await other.create(
                path, json.dumps({"nativeUrl": "pulsar://other:6650"}).encode(), ephemeral=True, parents=True
            )

            async def found_and_then_gone(*arguments, **options):
                owner = await find(*arguments, **options)
                if owner is not None:
                    await other.delete(path)
                    await broker.cluster.store.sync()
                return owner

            monkeypatch.setattr(owner_lookup, "find_broker", found_and_then_gone)
            assert (await lookup(broker, topic)).brokerServiceUrl == broker.broker.service_url

    run(main())


def test_a_lookup_waits_for_a_bundle_that_this_broker_is_unloading(url, namespace):
    async def main():
        async with served(url) as broker:
            topic = topics_of_each_bundle(namespace)[0]
            await lookup(broker, topic)
            await broker.broker.owners.owned.leave(bundle_of(topic))
            asked = asyncio.ensure_future(lookup(broker, topic))
            await lookup(broker, topics_of_each_bundle(namespace)[1])
            assert not asked.done()
            await broker.broker.owners.owned.release(bundle_of(topic))
            assert (await asked).response == Lookup.Connect

    run(main())


def test_a_java_brokers_bundle_is_not_unloaded_by_our_request(url, namespace):
    async def main():
        async with await open_store(url) as java, await open_store(url) as tool:
            topic = topics_of_each_bundle(namespace)[0]
            data = json.dumps({"nativeUrl": "pulsar://java:6650", "disabled": False}).encode()
            await java.create(bundle_of(topic).path, data, ephemeral=True, parents=True)
            with pytest.raises(OwnedElsewhere, match="own tools"):
                await request_unload(tool, TopicName.parse(topic))
            assert (await tool.get(bundle_of(topic).path)).data == data

    run(main())


def test_a_broker_whose_bundles_node_is_removed_closes_its_topics(url, namespace):
    async def main():
        async with served(url) as broker, await open_store(url) as tool:
            topic = topics_of_each_bundle(namespace)[0]
            client = await broker.connect()
            await client.producer(0, topic=topic)
            await tool.delete(bundle_of(topic).path)
            await client.expect("close_producer")
            answer = await lookup(broker, topic)
            assert (answer.response, answer.brokerServiceUrl) == (Lookup.Connect, broker.broker.service_url)

    run(main())


def test_a_killed_brokers_topics_go_to_another_once_its_nodes_are_gone(url, namespace, tmp_path):
    async def main():
        topics = topics_of_each_bundle(namespace)
        killed = OurBroker(url, tmp_path, KILLED)
        await asyncio.to_thread(killed.start)
        async with served(url) as other, await open_store(url) as store:
            client = await connect_to(killed.port)
            for number, topic in enumerate(topics):
                await client.subscribe(number, topic=topic)
                await client.producer(number, topic=topic)
                client.publish(topic.encode(), number=number)
                await client.expect("send_receipt")
            assert {(await lookup(other, topic)).brokerServiceUrl for topic in topics} == {killed.service_url}
            await kill(killed, store)
            assert await store.children(f"/namespace/{namespace}") == []
            client = await other.connect()
            for number, topic in enumerate(topics):
                answer = await lookup(other, topic)
                assert (answer.response, answer.brokerServiceUrl) == (Lookup.Connect, other.broker.service_url)
                await client.subscribe(number, topic=topic, permits=10)
                (message,) = await client.messages(1)
                assert message.payload == topic.encode()

    run(main())


def test_a_killed_broker_that_is_started_again_serves_its_topics_at_once(url, namespace, tmp_path):
    async def main():
        topic = topics_of_each_bundle(namespace)[0]
        broker = OurBroker(url, tmp_path, KILLED)
        await asyncio.to_thread(broker.start)
        try:
            client = await connect_to(broker.port)
            await client.producer(0, topic=topic)
            await client.publish_all(b"before")
            async with await open_store(url) as store:
                session = (await store.get(bundle_of(topic).path)).stat.ephemeral_owner
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
                client = await connect_to(broker.port)
                await client.subscribe(0, topic=topic, permits=10)
                assert [each.payload for each in await client.messages(1)] == [b"before"]
                assert (await store.get(bundle_of(topic).path)).stat.ephemeral_owner != session
                await kill(broker, store)
        finally:
            await asyncio.to_thread(broker.kill)

    run(main())


def test_a_broker_that_stops_leaves_its_bundles_to_the_others(url, namespace):
    async def main():
        async with served(url) as staying:
            topic = topics_of_each_bundle(namespace)[0]
            async with served(url) as stopping:
                assert (await lookup(stopping, topic, authoritative=True)).response == Lookup.Connect
                client = await stopping.connect()
                await client.producer(0, topic=topic)
                await client.publish_all(b"before")
            closed = await client.expect("close_producer")
            assert closed.assignedBrokerServiceUrl == staying.broker.service_url
            client = await staying.connect()
            await client.subscribe(0, topic=topic, permits=10)
            assert [each.payload for each in await client.messages(1)] == [b"before"]

    run(main())


def test_a_java_brokers_bundle_is_left_to_it(url, namespace):
    async def main():
        async with served(url) as broker, await open_store(url) as java:
            topic = topics_of_each_bundle(namespace)[0]
            data = json.dumps({"nativeUrl": "pulsar://java:6650", "disabled": False}).encode()
            await java.create(bundle_of(topic).path, data, ephemeral=True, parents=True)
            answer = await lookup(broker, topic, authoritative=True)
            assert (answer.response, answer.brokerServiceUrl) == (Lookup.Connect, "pulsar://java:6650")

    run(main())


def test_namespaces_are_split_as_their_policies_say(url, namespace):
    async def main():
        async with served(url) as broker, await open_store(url) as store:
            halves = {"bundles": {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2}}
            await store.put(f"/admin/policies/{namespace}", json.dumps(halves).encode(), -1)
            for topic in topics_of_each_bundle(namespace):
                await lookup(broker, topic)
            names = await store.children(f"/namespace/{namespace}")
            assert names == ["0x00000000_0x80000000", "0x80000000_0xffffffff"]

    run(main())


def test_a_broker_takes_back_at_once_what_an_earlier_process_at_its_address_had(url, namespace):
    async def main():
        async with await open_store(url) as dead, served(url) as broker:
            topic = topics_of_each_bundle(namespace)[0]
            data = encode_bundle_owner(broker.broker.owners.roster.address)
            await dead.create(bundle_of(topic).path, data, ephemeral=True, parents=True)
            answer = await lookup(broker, topic)
            assert (answer.response, answer.brokerServiceUrl) == (Lookup.Connect, broker.broker.service_url)
            assert await broker.cluster.store.get(bundle_of(topic).path) is not None
            found = await find_broker(dead, TopicName.parse(topic).managed_ledger_name)
            assert found is not None
            assert found.session == broker.cluster.store.session_id

    run(main())


def test_tools_see_the_broker_that_serves_a_topics_bundle(url, namespace):
    async def main():
        async with served(url) as broker, await open_store(url) as tool:
            topic = topics_of_each_bundle(namespace)[0]
            await lookup(broker, topic)
            owner = await find_broker(tool, TopicName.parse(topic).managed_ledger_name)
            assert broker.broker.service_url in str(owner)

    run(main())


def test_a_broker_whose_session_ended_takes_its_bundles_back(topic_url, topic):
    name = topics_of_each_bundle(create_namespace_at(topic_url, f"tests/{topic.rpartition('/')[2]}"))[0]

    async def main():
        with held_answers(topic_url) as held:
            async with served(held.url, session_timeout=SHORT_SESSION_S) as broker, held.direct() as store:
                client = await broker.connect()
                await client.producer(0, topic=name)
                path = bundle_of(name).path
                async with store.watch(path) as changes:
                    await held.lose_session(path)
                    while await store.exists(path) is None:
                        await anext(changes)
                client.publish(b"after")
                await client.expect("send_receipt")
                node = await store.get(path)
                assert node.stat.ephemeral_owner == broker.cluster.store.session_id

    run(main())


def test_a_broker_closes_the_topics_of_a_bundle_that_another_took_while_it_had_no_session(topic_url, topic):
    name = topics_of_each_bundle(create_namespace_at(topic_url, f"tests/{topic.rpartition('/')[2]}"))[0]

    async def main():
        with held_answers(topic_url) as held:
            async with served(held.url, session_timeout=SHORT_SESSION_S) as broker, held.direct() as store:
                client = await broker.connect()
                await client.producer(0, topic=name)
                await held.lose_session(bundle_of(name).path, back=False)
                data = json.dumps({"nativeUrl": "pulsar://other:6650"}).encode()
                await store.create(bundle_of(name).path, data, ephemeral=True, parents=True)
                held.release()
                await client.expect("close_producer")
                answer = await lookup(broker, name)
                assert answer.brokerServiceUrl == "pulsar://other:6650"

    run(main())
