"""What creating a partitioned topic writes, and what it refuses, as Pulsar decides it."""

import pytest

from mledger.admin.partitions import (
    create_partitions,
    plan_create_partitioned,
    present_partitions,
    present_partitions_of,
)
from mledger.errors import TopicExists
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store
from tests.support.aio import run

TOPIC = TopicName("t", "n", "orders")


def plan(partitions, *, topic=TOPIC, exists=None, plain=False, present=()):
    return plan_create_partitioned(topic, PartitionedTopic(partitions), exists=exists, plain=plain, present=present)


def test_the_record_and_every_partition_are_created() -> None:
    assert plan(3).record == PartitionedTopic(3)
    assert plan(3).missing == (0, 1, 2)


def test_existing_partitions_are_kept() -> None:
    assert plan(4, present=[0, 2]).missing == (1, 3)


def test_of_a_topic_that_is_not_stored_only_the_record_is_created() -> None:
    live = plan(3, topic=TopicName.parse_served("non-persistent://t/n/live"))
    assert (live.record, live.missing) == (PartitionedTopic(3), ())


def test_a_partition_past_the_last_one_wanted_is_refused() -> None:
    with pytest.raises(TopicExists, match="at least 6 partitions"):
        plan(4, present=[5])


def test_an_existing_topic_is_refused_either_way() -> None:
    with pytest.raises(TopicExists, match="has 2 partitions"):
        plan(4, exists=PartitionedTopic(2))
    with pytest.raises(TopicExists, match="not partitioned"):
        plan(4, plain=True)


def test_a_partition_is_not_partitioned_again() -> None:
    with pytest.raises(InvalidName, match="orders as partitioned instead"):
        plan(2, topic=TOPIC.partition(1))


def test_a_partition_that_a_client_opens_meanwhile_counts_as_created() -> None:
    async def main():
        async with await open_store("memory:") as store:
            multi = store.multi

            async def later(operations):
                if operations[0].path == TOPIC.partition(0).managed_ledger_path:
                    store.multi = multi
                    await store.create(TOPIC.partition(1).managed_ledger_path)
                return await multi(operations)

            store.multi = later
            assert (await create_partitions(store, TOPIC, 3)).missing == (0, 2)
            assert await present_partitions(store, TOPIC) == [0, 1, 2]

    run(main())


def test_the_partitions_of_many_topics_are_found_by_listing_each_namespace_once() -> None:
    topics = [TopicName("t", namespace, f"{number}") for namespace in ("a", "b") for number in range(20)]

    async def main():
        async with await open_store("memory:") as store:
            for topic in topics:
                for index in range(int(topic.local_name) % 3):
                    await store.create(topic.partition(index).managed_ledger_path, parents=True)
            asked = []
            children_many = store.children_many

            async def counting(paths):
                asked.extend(paths)
                return await children_many(paths)

            store.children_many = counting
            return await present_partitions_of(store, topics), asked

    found, asked = run(main())
    assert found == {topic: list(range(int(topic.local_name) % 3)) for topic in topics}
    assert asked == ["/managed-ledgers/t/a/persistent", "/managed-ledgers/t/b/persistent"]
