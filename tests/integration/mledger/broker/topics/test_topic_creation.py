"""Clients create topics by using them as the policy of the namespace says, else as the settings say."""

import pytest

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run

PARTITIONS = pb.BaseCommand.PARTITIONED_METADATA


@pytest.fixture
def namespace(topic):
    return f"public/{topic.rsplit('/', 1)[1]}"


async def partitions(client, topic):
    """How many partitions a client is told that the topic has, or the error."""
    answer = await client.request(PARTITIONS, "partitionMetadata", "partitionMetadataResponse", topic=topic)
    return answer.partitions if answer.response == answer.Success else answer.error


def test_a_namespace_that_forbids_it_has_no_topics_from_clients_until_it_allows_them(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            path, a = f"namespaces/{namespace}/autoTopicCreation", f"persistent://{namespace}/a"
            await broker.done("PUT", f"persistent/{namespace}/existing")
            await broker.done("POST", path, {"allowAutoTopicCreation": False})
            client = await broker.connect()
            assert (await client.refused_producer(a)).error == pb.TopicNotFound
            assert (await client.refused_producer(f"non-{a}")).error == pb.TopicNotFound
            assert await partitions(client, a) == pb.TopicNotFound
            await client.producer(50, f"persistent://{namespace}/existing")
            await client.producer(51, f"persistent://{namespace}/__change_events")
            await broker.done("DELETE", path)
            await client.producer(52, a)

    run(main())


def test_a_namespace_that_allows_it_comes_before_a_broker_that_does_not(broker_url, namespace):
    async def main():
        async with web_served(broker_url, "allowAutoTopicCreation=false") as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            client = await broker.connect()
            assert (await client.refused_producer(f"persistent://{namespace}/a")).error == pb.TopicNotFound
            policy = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
            await broker.done("POST", f"namespaces/{namespace}/autoTopicCreation", policy)
            assert await broker.get(f"namespaces/{namespace}/autoTopicCreation") == policy
            assert await partitions(client, f"persistent://{namespace}/b") == 3
            await client.producer(50, f"persistent://{namespace}/b-partition-2")

    run(main())


def test_a_namespace_of_plain_topics_comes_before_a_broker_of_partitioned_ones(broker_url, namespace):
    async def main():
        async with web_served(broker_url, "allowAutoTopicCreationType=partitioned", "defaultNumPartitions=2") as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            client = await broker.connect()
            assert await partitions(client, f"persistent://{namespace}/a") == 2
            policy = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
            await broker.done("POST", f"namespaces/{namespace}/autoTopicCreation", policy)
            assert await partitions(client, f"persistent://{namespace}/b") == 0

    run(main())


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_a_partition_of_no_partitioned_topic_is_not_created(broker_url, namespace, domain):
    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            client = await broker.connect()
            error = await client.refused_producer(f"{domain}://{namespace}/a-partition-0")
            assert error.error == pb.TopicNotFound
            await client.producer(50, f"{domain}://{namespace}/a-partition-one")

    run(main())


def test_a_partition_that_is_stored_is_served_without_the_record_of_its_topic(broker_url, namespace):
    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"namespaces/{namespace}")
            name = f"persistent://{namespace}/a-partition-0"
            await (await broker.cluster.create_topic(name)).close()
            await (await broker.connect()).producer(50, name)

    run(main())
