"""Which topics can be created."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.topic_resource import plan_new_topic
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from mledger.metastore.records.paths import TopicName

PLAIN = TopicName.parse("persistent://a/b/c")


@pytest.mark.parametrize(
    ("topic", "exists", "whole", "status"),
    [
        (PLAIN, True, None, 409),
        (PLAIN, False, PartitionedTopic(2), 409),
        (PLAIN.partition(0), False, None, 412),
        (PLAIN.partition(2), False, PartitionedTopic(2), 412),
        (PLAIN.partition(1), True, PartitionedTopic(2), 409),
        *((TopicName("a", "b", f"c-partition-{end}"), False, None, 412) for end in ("00", "+1", "-1", "9" * 19)),
    ],
)
def test_a_name_that_is_taken_or_of_a_partition_is_refused(topic, exists, whole, status):
    with pytest.raises(AdminRefusal) as caught:
        plan_new_topic(topic, exists=exists, whole=whole)
    assert caught.value.status == status


def test_a_new_name_and_a_missing_partition_can_be_created():
    plan_new_topic(PLAIN, exists=False, whole=None)
    plan_new_topic(PLAIN.partition(1), exists=False, whole=PartitionedTopic(2))
    plan_new_topic(TopicName("a", "b", "c-partition-x"), exists=False, whole=None)
