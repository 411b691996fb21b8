"""Policies of how clients use topics: what is stored, and what is refused with Pulsar's status."""

import pytest

from mledger.broker.admin_rest.namespaces.usage_policies import (
    checked_auto_subscriptions,
    checked_auto_topics,
    checked_types,
)
from mledger.broker.admin_rest.refusals import AdminRefusal


@pytest.mark.parametrize(
    ("given", "kind", "partitions"),
    [
        ({"allowAutoTopicCreation": True, "topicType": "non-partitioned"}, "non-partitioned", None),
        ({"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}, "partitioned", 2),
        ({"allowAutoTopicCreation": False, "topicType": "anything"}, "anything", None),
        ({"allowAutoTopicCreation": False, "unknown": 1}, None, None),
    ],
)
def test_how_topics_are_created_is_stored_with_all_of_pulsars_fields(given, kind, partitions):
    expected = {"allowAutoTopicCreation": given["allowAutoTopicCreation"], "topicType": kind}
    assert checked_auto_topics(given) == expected | {"defaultNumPartitions": partitions}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"topicType": "other"}, "Unknown topic type [other]"),
        ({}, "Unknown topic type [null]"),
        ({"topicType": "partitioned"}, "cannot be null when the type is partitioned"),
        ({"topicType": "partitioned", "defaultNumPartitions": 0}, "cannot be less than 1"),
        ({"topicType": "non-partitioned", "defaultNumPartitions": 2}, "is not allowed to be set"),
    ],
)
def test_a_way_to_create_topics_that_contradicts_itself_is_refused(given, why):
    with pytest.raises(AdminRefusal) as refusal:
        checked_auto_topics({"allowAutoTopicCreation": True, **given})
    assert (refusal.value.status, why in str(refusal.value)) == (412, True)


@pytest.mark.parametrize("check", [checked_auto_topics, checked_auto_subscriptions])
def test_nothing_unsets_a_policy_and_another_type_is_refused(check):
    assert check(None) is None
    with pytest.raises(AdminRefusal):
        check([1])


def test_types_of_subscriptions_are_those_of_pulsar():
    assert checked_types(["Shared", "Key_Shared", "Shared"]) == ["Shared", "Key_Shared"]
    with pytest.raises(AdminRefusal, match="'shared' is no type"):
        checked_types(["shared"])
