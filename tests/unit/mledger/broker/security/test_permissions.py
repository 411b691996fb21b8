"""What a role may do, by Pulsar's JSON."""

import json

import pytest

from mledger.broker.security.permissions import (
    Permissions,
    RoleRules,
    TopicOperation,
    decode_permissions,
    may_use_namespace,
    may_use_topic,
)
from mledger.cursors.compaction import COMPACTION
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName

TOPIC = TopicName.parse("persistent://shop/eu/orders-partition-1")
POLICIES = {
    "auth_policies": {
        "namespace_auth": {"writer": ["produce"], "reader": ["consume"], "team-*": ["consume"]},
        "destination_auth": {"persistent://shop/eu/orders": {"guest": ["consume"]}},
        "subscription_auth_roles": {"billing": ["reader"]},
    }
}
LOOKUP, PRODUCE, CONSUME = TopicOperation.LOOKUP, TopicOperation.PRODUCE, TopicOperation.CONSUME


def decoded(**more):
    return decode_permissions(json.dumps({"adminRoles": ["boss"]}).encode(), json.dumps(POLICIES | more).encode(), "/p")


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("writer", {LOOKUP, PRODUCE}),
        ("reader", {LOOKUP, CONSUME}),
        ("guest", {LOOKUP, CONSUME}),
        ("boss", {LOOKUP, PRODUCE, CONSUME}),
        ("root", {LOOKUP, PRODUCE, CONSUME}),
        ("team-a", set()),
        ("", set()),
    ],
)
def test_what_each_role_may_do(role, allowed):
    rules = RoleRules(frozenset({"root"}))
    assert {each for each in TopicOperation if may_use_topic(role, each, TOPIC, decoded(), rules)} == allowed


def test_wildcards_count_where_the_settings_say_so():
    assert may_use_topic("team-a", CONSUME, TOPIC, decoded(), RoleRules(wildcards=True))


def test_a_subscription_with_roles_of_its_own_is_for_these():
    assert may_use_topic("reader", CONSUME, TOPIC, decoded(), RoleRules(), "billing")
    assert not may_use_topic("guest", CONSUME, TOPIC, decoded(), RoleRules(), "billing")
    prefixed = decoded(subscription_auth_mode="Prefix")
    assert may_use_topic("guest", CONSUME, TOPIC, prefixed, RoleRules(), "guest-1")
    assert not may_use_topic("guest", CONSUME, TOPIC, prefixed, RoleRules(), "other")


def test_topics_of_the_namespace_are_listed_for_its_own_roles():
    assert [
        role for role in ("writer", "reader", "guest", "boss") if may_use_namespace(role, decoded(), RoleRules())
    ] == [
        "writer",
        "reader",
        "boss",
    ]


def test_without_policies_nothing_is_granted():
    assert decode_permissions(None, None, "/p") == Permissions()


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"auth_policies": 1}', b'{"auth_policies": {"namespace_auth": {"a": 1}}}']
)
def test_permissions_that_cannot_be_read_grant_nothing(data):
    with pytest.raises(RecordError):
        decode_permissions(None, data, "/p")


@pytest.mark.parametrize("name", ["__change_events", "__change_events-partition-0"])
def test_publishing_to_a_namespace_does_not_mean_writing_its_topics_policies(name):
    events = TopicName.parse(f"persistent://shop/eu/{name}")
    assert not may_use_topic("writer", PRODUCE, events, decoded(), RoleRules())
    assert may_use_topic("writer", LOOKUP, events, decoded(), RoleRules())
    assert may_use_topic("reader", CONSUME, events, decoded(), RoleRules())
    assert may_use_topic("boss", PRODUCE, events, decoded(), RoleRules())


def test_a_role_writes_topics_policies_if_that_very_topic_is_granted_to_it():
    granted = {"auth_policies": {"destination_auth": {"persistent://shop/eu/__change_events": {"broker": ["produce"]}}}}
    events = TopicName.parse("persistent://shop/eu/__change_events")
    assert may_use_topic("broker", PRODUCE, events, decoded(**granted), RoleRules())


@pytest.mark.parametrize("name", ["__change_events", "__change_events-partition-0", "__transaction_buffer_snapshot"])
def test_consuming_a_namespace_does_not_mean_deleting_what_its_system_topics_keep(name):
    events = TopicName.parse(f"persistent://shop/eu/{name}")
    assert not may_use_topic("reader", CONSUME, events, decoded(), RoleRules(), COMPACTION)
    assert may_use_topic("reader", CONSUME, TOPIC, decoded(), RoleRules(), COMPACTION)
    assert may_use_topic("boss", CONSUME, events, decoded(), RoleRules(), COMPACTION)


def test_a_role_compacts_a_system_topic_if_that_very_topic_is_granted_to_it():
    granted = {"auth_policies": {"destination_auth": {"persistent://shop/eu/__change_events": {"broker": ["consume"]}}}}
    events = TopicName.parse("persistent://shop/eu/__change_events")
    assert may_use_topic("broker", CONSUME, events, decoded(**granted), RoleRules(), COMPACTION)
