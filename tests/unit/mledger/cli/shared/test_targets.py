"""Which topics a command is about: one, its partitions, a namespace's, or all."""

import click
import pytest

from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import TopicSelection, find_targets
from mledger.errors import NamespaceNotFound, TopicNotFound
from mledger.metastore.records.partitioned_topic import PartitionedTopic, encode_partitioned_topic
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store
from tests.support.aio import run

ORDERS = TopicName.parse("public/default/orders")
SPLIT = TopicName.parse("public/default/split")
PARTITIONS = tuple(SPLIT.partition(index) for index in (0, 2))


def in_cluster(work):
    """The result of `work` in a cluster with a topic, a partitioned topic and some partitions, one too many."""

    async def main():
        async with await open_store("memory:") as store:
            for topic in (ORDERS, *PARTITIONS, SPLIT.partition(3)):
                await store.create(topic.managed_ledger_path, parents=True)
            await store.create(
                SPLIT.partitioned_topic_path, encode_partitioned_topic(PartitionedTopic(3)), parents=True
            )
            return await work(ReadOnlyCluster(store, BookKeeperReader(store)))

    return run(main())


def test_a_topic_is_a_target_by_itself():
    found = in_cluster(lambda cluster: find_targets(cluster, ORDERS))
    assert (found.named, found.partitioned, found.topics) == (ORDERS, None, (ORDERS,))
    assert found.managed_ledgers == (ORDERS.managed_ledger_name,)


def test_the_targets_of_a_partitioned_topic_are_its_existing_partitions_within_its_count():
    found = in_cluster(lambda cluster: find_targets(cluster, SPLIT))
    assert (found.partitioned, found.topics) == (PartitionedTopic(3), PARTITIONS)


def test_an_unknown_topic_is_not_found():
    with pytest.raises(TopicNotFound):
        in_cluster(lambda cluster: find_targets(cluster, TopicName.parse("public/default/none")))


@pytest.mark.parametrize(
    "arguments", [(None, None, False), ("orders", "public", False), ("orders", None, True), (None, "public", True)]
)
def test_exactly_one_of_topic_namespace_and_all_must_be_given(arguments):
    with pytest.raises(click.UsageError, match="--namespace"):
        TopicSelection.of(*arguments)


@pytest.mark.parametrize(
    ("arguments", "text", "topics"),
    [
        ((str(ORDERS), None, False), str(ORDERS), 1),
        ((str(SPLIT), None, False), str(SPLIT), 2),
        ((None, "public/default/", False), "public/default", 4),
        ((None, None, True), "all topics", 4),
    ],
)
def test_a_selection_names_and_finds_its_topics(arguments, text, topics):
    selection = TopicSelection.of(*arguments)
    assert str(selection) == text
    assert len(in_cluster(selection.topics)) == topics


@pytest.mark.parametrize("namespace", ["", "/", "//", "public/", "/default", "public//", "public//default"])
def test_a_namespace_with_an_empty_part_does_not_select_more_than_was_meant(namespace):
    with pytest.raises(click.UsageError, match="TENANT/NAMESPACE"):
        TopicSelection.of(None, namespace, False)


def test_an_unknown_namespace_is_not_found():
    with pytest.raises(NamespaceNotFound):
        in_cluster(TopicSelection.of(None, "nobody", False).topics)
