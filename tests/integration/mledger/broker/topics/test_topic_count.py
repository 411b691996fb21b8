"""A namespace has no more topics than its policy or the broker's setting allows; Pulsar's codes and words."""

import pytest

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run

WHY = "Exceed maximum number of topics in namespace."


@pytest.fixture
def namespace(topic):
    return f"public/{topic.rsplit('/', 1)[1]}"


def test_topics_beyond_the_setting_are_refused_and_those_that_exist_are_not(broker_url, namespace):
    async def main():
        async with web_served(broker_url, "maxTopicsPerNamespace=3") as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            await broker.done("PUT", f"persistent/{namespace}/a/partitions", 2)
            client = await broker.connect()
            await client.producer(0, f"persistent://{namespace}/b")
            error = await client.refused_producer(f"persistent://{namespace}/c")
            assert (error.error, error.message) == (pb.NotAllowedError, WHY)
            assert await broker.refused("PUT", f"persistent/{namespace}/c") == (409, WHY)
            assert await broker.refused("PUT", f"persistent/{namespace}/c/partitions", 1) == (412, WHY)
            await client.producer(1, f"persistent://{namespace}/a-partition-1")
            await client.producer(2, f"persistent://{namespace}/__change_events")
            await client.producer(3, f"non-persistent://{namespace}/d")

    run(main())


def test_a_policy_of_the_namespace_counts_before_the_setting(broker_url, namespace):
    async def main():
        async with web_served(broker_url, "maxTopicsPerNamespace=1") as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            path = f"namespaces/{namespace}/maxTopicsPerNamespace"
            await broker.done("POST", path, 2)
            assert await broker.get(path) == 2
            for name in "ab":
                await broker.done("PUT", f"persistent/{namespace}/{name}")
            assert await broker.refused("PUT", f"persistent/{namespace}/c") == (409, WHY)
            await broker.done("POST", path, 0)
            await broker.done("PUT", f"persistent/{namespace}/c")
            await broker.done("DELETE", path)
            assert await broker.refused("PUT", f"persistent/{namespace}/d") == (409, WHY)

    run(main())


def test_a_topic_that_a_lookup_would_make_partitioned_is_refused(broker_url, namespace):
    async def main():
        settings = ("maxTopicsPerNamespace=2", "allowAutoTopicCreationType=partitioned", "defaultNumPartitions=2")
        async with web_served(broker_url, *settings) as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            client = await broker.connect()

            async def partitions(name):
                return await client.request(
                    pb.BaseCommand.PARTITIONED_METADATA,
                    "partitionMetadata",
                    "partitionMetadataResponse",
                    topic=f"persistent://{namespace}/{name}",
                )

            assert (await partitions("a")).partitions == 2
            answer = await partitions("b")
            assert (answer.error, answer.message) == (pb.NotAllowedError, WHY)

    run(main())


def test_of_topics_that_are_created_at_once_only_so_many_come_to_be(broker_url, namespace):
    async def main():
        async with web_served(broker_url, "maxTopicsPerNamespace=3") as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            clients = [await broker.connect() for _ in range(8)]
            for number, client in enumerate(clients):
                topic = f"persistent://{namespace}/t-{number}"
                client.send(pb.BaseCommand.PRODUCER, "producer", topic=topic, producer_id=0, request_id=1)
            answers = [(await client.receive())[0] for client in clients]
            assert sum(each.HasField("producer_success") for each in answers) == 3
            assert {each.error.message for each in answers if each.HasField("error")} == {WHY}
            assert len(await broker.get(f"persistent/{namespace}")) == 3

    run(main())
