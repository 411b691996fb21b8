"""The topics of a namespace over a real connection: lists filtered by a pattern, and watchers."""

import pytest

from mledger.broker.lookup.topic_list import topics_hash
from mledger.broker.refusals import NO_TRANSACTIONS
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served
from tests.support.metadata.namespaces import create_namespace_at

GET, WATCH = pb.BaseCommand.GET_TOPICS_OF_NAMESPACE, pb.BaseCommand.WATCH_TOPIC_LIST
LOOKAHEAD = "public/{}/(?!orders).*"


@pytest.fixture
def namespace(broker_url, topic):
    """A namespace that no other test has."""
    return create_namespace_at(broker_url, f"public/{topic.rsplit('/', 1)[1]}")


async def watch(client, namespace, pattern, number=5, **fields):
    """Open a watcher and return the answer."""
    return await client.request(
        WATCH,
        "watchTopicList",
        "watchTopicListSuccess",
        watcher_id=number,
        namespace=namespace,
        topics_pattern=pattern,
        **fields,
    )


def test_the_broker_filters_topics_and_leaves_them_out_if_the_client_knows_them(broker_url, namespace):
    async def main():
        names = [f"persistent://{namespace}/{name}" for name in ("orders-1", "orders-2", "other")]
        async with served(broker_url) as broker:
            client = await broker.connect()

            async def listed(**fields):
                return await client.request(
                    GET, "getTopicsOfNamespace", "getTopicsOfNamespaceResponse", namespace=namespace, **fields
                )

            for number, name in enumerate(names):
                await client.producer(number, name)
            found = await listed(topics_pattern=f"persistent://{namespace}/orders-.*")
            assert (list(found.topics), found.filtered, found.changed) == (names[:2], True, True)
            again = await listed(topics_pattern=f"persistent://{namespace}/orders-.*", topics_hash=found.topics_hash)
            assert (list(again.topics), again.filtered, again.changed) == ([], True, False)
            whole = await listed(topics_pattern=LOOKAHEAD.format(namespace))
            assert (list(whole.topics), whole.filtered) == (names, False)

    run(main())


def test_a_watcher_is_told_of_topics_that_match_until_it_is_closed(broker_url, namespace):
    async def main():
        first, second, third = (f"persistent://{namespace}/orders-{number}" for number in range(3))
        async with served(broker_url) as broker:
            client, other = await broker.connect(), await broker.connect()
            await other.producer(0, first)
            opened = await watch(client, namespace, f"{namespace}/orders-\\d")
            assert (list(opened.topic), opened.topics_hash) == ([first], topics_hash([first]))
            await other.producer(1, f"persistent://{namespace}/other")
            await other.producer(2, second)
            told = await client.expect("watchTopicUpdate")
            assert (told.watcher_id, list(told.new_topics), list(told.deleted_topics)) == (5, [second], [])
            assert told.topics_hash == topics_hash([first, second])
            await other.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0)
            await broker.cluster.opened[f"{namespace}/persistent/orders-0"].close()
            await broker.cluster.delete_topic(first)
            told = await client.expect("watchTopicUpdate")
            assert (list(told.new_topics), list(told.deleted_topics)) == ([], [first])
            known = await watch(client, namespace, f"{namespace}/orders-\\d", topics_hash=topics_hash([second]))
            assert (list(known.topic), known.topics_hash) == ([], topics_hash([second]))
            await client.request(pb.BaseCommand.WATCH_TOPIC_LIST_CLOSE, "watchTopicListClose", watcher_id=5)
            await watch(other, namespace, f"{namespace}/.*")
            await client.producer(0, third)  # nothing of the watcher comes before its answer
            assert list((await other.expect("watchTopicUpdate")).new_topics) == [third]

    run(main())


@pytest.mark.parametrize(
    ("setting", "pattern"),
    [
        ("enableBrokerTopicListWatcher=false", "public/default/.*"),
        ("enableBrokerSideSubscriptionPatternEvaluation=false", "public/default/.*"),
        ("subscriptionPatternMaxLength=5", "public/default/.*"),
        ("subscriptionPatternMaxLength=50", LOOKAHEAD.format("default")),
    ],
)
def test_a_watcher_that_the_broker_cannot_serve_is_refused(broker_url, setting, pattern):
    async def main():
        async with served(broker_url, setting) as broker:
            client = await broker.connect()
            refused = await client.request(
                WATCH, "watchTopicList", "error", watcher_id=5, namespace="public/default", topics_pattern=pattern
            )
            assert refused.error == pb.NotAllowedError

    run(main())


def test_no_topic_is_served_in_a_namespace_that_does_not_exist(broker_url, topic):
    async def main():
        namespace = f"public/no-{topic.rsplit('/', 1)[1]}"
        name = f"persistent://{namespace}/t"
        async with served(broker_url) as broker:
            client = await broker.connect()
            partitions = await client.request(
                pb.BaseCommand.PARTITIONED_METADATA,
                "partitionMetadata",
                "partitionMetadataResponse",
                topic=name,
                metadata_auto_creation_enabled=True,
            )
            assert partitions.error == pb.TopicNotFound
            assert "Policies not found" in partitions.message
            found = await client.request(pb.BaseCommand.LOOKUP, "lookupTopic", "lookupTopicResponse", topic=name)
            assert (found.response, found.error) == (pb.CommandLookupTopicResponse.Failed, pb.MetadataError)
            for topic_name in (name, f"non-{name}"):
                refused = await client.request(
                    pb.BaseCommand.PRODUCER, "producer", "error", topic=topic_name, producer_id=0
                )
                assert refused.error == pb.TopicNotFound
            for root in ("/managed-ledgers", "/admin/partitioned-topics", "/admin/policies", "/namespace"):
                assert await broker.cluster.store.exists(f"{root}/{namespace}") is None

    run(main())


def test_a_topic_made_by_a_program_makes_its_namespace(broker_url, topic):
    async def main():
        name = f"persistent://public/made-{topic.rsplit('/', 1)[1]}/t"
        async with served(broker_url) as broker:
            await (await broker.cluster.open_topic(name, create=True)).close()
            client = await broker.connect()
            await client.producer(0, name)
            await client.producer(1, f"{name}-2")

    run(main())


def test_a_listener_by_name_is_refused_since_the_broker_announces_one_address(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            answer = await client.request(
                pb.BaseCommand.LOOKUP,
                "lookupTopic",
                "lookupTopicResponse",
                topic=topic,
                advertised_listener_name="external",
            )
            assert (answer.response, answer.error) == (pb.CommandLookupTopicResponse.Failed, pb.NotAllowedError)
            assert "'external'" in answer.message

    run(main())


@pytest.mark.parametrize(
    ("mode", "wanted"), [("PERSISTENT", ["kept"]), ("NON_PERSISTENT", ["live"]), ("ALL", ["live", "kept"])]
)
def test_a_client_chooses_between_stored_topics_and_those_in_use(broker_url, namespace, mode, wanted):
    async def main():
        names = {"kept": f"persistent://{namespace}/kept", "live": f"non-persistent://{namespace}/live"}
        async with served(broker_url) as broker:
            client = await broker.connect()
            for number, name in enumerate([*names.values(), f"non-persistent://{namespace}/unused"]):
                await client.producer(number, name)
            await client.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=2)
            ask = {"namespace": namespace, "mode": mode}
            for fields in ({}, {"topics_pattern": f"{namespace}/.*"}):
                found = await client.request(
                    GET, "getTopicsOfNamespace", "getTopicsOfNamespaceResponse", **ask, **fields
                )
                assert list(found.topics) == [names[each] for each in wanted]

    run(main())


def test_a_topic_that_is_not_stored_becomes_partitioned_by_its_record_alone(broker_url, topic):
    live = topic.replace("persistent", "non-persistent")
    settings = ("allowAutoTopicCreationType=partitioned", "defaultNumPartitions=2")

    async def main():
        async with served(broker_url, *settings) as broker:
            client, store = await broker.connect(), broker.cluster.store

            async def partitions(name, **fields):
                kind, answer = pb.BaseCommand.PARTITIONED_METADATA, "partitionMetadataResponse"
                return (await client.request(kind, "partitionMetadata", answer, topic=name, **fields)).partitions

            assert await partitions(live, metadata_auto_creation_enabled=False) == 0
            assert await partitions(live) == 2
            path = f"/admin/partitioned-topics/public/default/non-persistent/{live.rpartition('/')[2]}"
            assert (await store.get(path)).data.startswith(b'{"partitions":2')
            assert await store.exists("/managed-ledgers/public/default/non-persistent") is None
            assert await partitions(f"{live}-partition-1") == 0
            await client.producer(0, f"{live}-partition-1")
            assert await client.publish_all(b"one")

    run(main())


def test_lookups_beyond_those_that_may_wait_are_refused_and_can_be_tried_again(broker_url, topic):
    requests = (
        (pb.BaseCommand.LOOKUP, "lookupTopic", "lookupTopicResponse", {"topic": topic}),
        (pb.BaseCommand.PARTITIONED_METADATA, "partitionMetadata", "partitionMetadataResponse", {"topic": topic}),
        (GET, "getTopicsOfNamespace", "error", {"namespace": "public/default"}),
    )

    async def main():
        async with served(broker_url, "maxConcurrentLookupRequest=1") as broker:
            client = await broker.connect()
            for kind, field, answer, fields in requests:
                broker.broker.pending_lookups = 1
                assert (await client.request(kind, field, answer, **fields)).error == pb.TooManyRequests
                broker.broker.pending_lookups = 0
                await client.request(kind, field, answer.replace("error", "getTopicsOfNamespaceResponse"), **fields)
                assert broker.broker.pending_lookups == 0

    run(main())


@pytest.mark.parametrize("create", [True, False])
def test_clients_that_are_to_use_transactions_are_told_that_there_are_none(broker_url, create):
    assignment = "persistent://pulsar/system/transaction_coordinator_assign"

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            asked = pb.BaseCommand.PARTITIONED_METADATA, "partitionMetadata", "partitionMetadataResponse"
            found = await client.request(*asked, topic=assignment, metadata_auto_creation_enabled=create)
            assert (found.response, found.partitions) == (pb.CommandPartitionedTopicMetadataResponse.Success, 0)
            looked = await client.request(
                pb.BaseCommand.LOOKUP, "lookupTopic", "lookupTopicResponse", topic=f"{assignment}-partition-0"
            )
            assert (looked.response, looked.error) == (pb.CommandLookupTopicResponse.Failed, pb.NotAllowedError)
            assert looked.message == NO_TRANSACTIONS

    run(main())
