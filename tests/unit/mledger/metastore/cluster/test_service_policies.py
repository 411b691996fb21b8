"""Policies of a broker's service, in a namespace's JSON and a topic's Avro record as Pulsar 4.2 writes them."""

import io
import json

import pytest
from fastavro import schemaless_reader, schemaless_writer

from mledger.admin.policies.policy_events import decode_schema
from mledger.messages.pulsar_message import decode_entry, messages
from mledger.metastore.cluster.policies import decode_namespace_policies
from mledger.metastore.cluster.service_policies import (
    MOST_RATE,
    NO_SERVICE_POLICIES,
    BacklogQuota,
    InactiveTopics,
    QuotaPolicy,
    ServicePolicies,
    ThrottleRate,
    merged,
    namespace_service_policies,
    topic_service_policies,
)
from tests.support.recordings.policies import EVENTS, RECORDED, SCHEMA

NAMESPACE = {
    "message_ttl_in_seconds": 3600,
    "deduplicationEnabled": True,
    "deduplicationSnapshotIntervalSeconds": 90,
    "backlog_quota_map": {
        "destination_storage": {"limit": 7, "limitSize": 1024, "limitTime": -1, "policy": "producer_exception"},
        "message_age": {"limit": -1, "limitTime": 60, "policy": "consumer_backlog_eviction"},
    },
    "max_producers_per_topic": 3,
    "max_consumers_per_topic": 4,
    "max_consumers_per_subscription": 5,
    "max_subscriptions_per_topic": 6,
    "max_unacked_messages_per_consumer": 7,
    "max_unacked_messages_per_subscription": 8,
    "delayed_delivery_policies": {"tickTime": 500, "active": True, "maxDeliveryDelayInMillis": 9000},
    "topicDispatchRate": {
        "here": {
            "dispatchThrottlingRateInMsg": 10,
            "dispatchThrottlingRateInByte": 2048,
            "relativeToPublishRate": True,
            "ratePeriodInSecond": 2,
        },
        "there": {"dispatchThrottlingRateInMsg": 99},
    },
    "subscriptionDispatchRate": {"here": {"dispatchThrottlingRateInMsg": 11, "dispatchThrottlingRateInByte": -1}},
    "publishMaxMessageRate": {"here": {"publishThrottlingRateInMsg": 12, "publishThrottlingRateInByte": 13}},
    "clusterSubscribeRate": {"here": {"subscribeThrottlingRatePerConsumer": 14, "ratePeriodInSecond": 30}},
    "persistence": {"managedLedgerMaxMarkDeleteRate": 2.5},
    "compaction_threshold": 4096,
    "inactive_topic_policies": {
        "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
        "maxInactiveDurationSeconds": 15,
        "deleteWhileInactive": True,
    },
    "subscription_expiration_time_minutes": 16,
    "subscription_types_enabled": ["Shared", "Failover"],
    "schema_compatibility_strategy": "FORWARD",
    "schema_validation_enforced": True,
    "encryption_required": True,
}
NEVER_DELETED = InactiveTopics(delete=False, mode="delete_when_no_subscriptions", after_s=0)
EVERYTHING = ServicePolicies(
    message_ttl_s=3600,
    size_quota=BacklogQuota(1024, -1, QuotaPolicy.PRODUCER_EXCEPTION),
    age_quota=BacklogQuota(-1, 60, QuotaPolicy.CONSUMER_BACKLOG_EVICTION),
    deduplication=True,
    deduplication_snapshot_s=90,
    max_producers=3,
    max_consumers=4,
    max_consumers_per_subscription=5,
    max_subscriptions=6,
    max_unacked_per_consumer=7,
    max_unacked_per_subscription=8,
    delayed_delivery=True,
    delayed_delivery_tick_ms=500,
    delayed_delivery_max_ms=9000,
    dispatch_rate=ThrottleRate(10, 2048, 2, True),
    subscription_dispatch_rate=ThrottleRate(11, -1),
    publish_rate=ThrottleRate(12, 13),
    subscribe_rate=ThrottleRate(14, period_s=30),
    mark_delete_rate=2.5,
    compaction_threshold=4096,
    inactive_topics=InactiveTopics(True, "delete_when_subscriptions_caught_up", 15),
    subscription_expiration_minutes=16,
    subscription_types=("Shared", "Failover"),
    schema_compatibility="FORWARD",
    schema_validation_enforced=True,
    encryption_required=True,
)


def test_every_policy_of_a_namespace_is_read():
    assert namespace_service_policies(NAMESPACE, "here") == EVERYTHING
    assert decode_namespace_policies(json.dumps(NAMESPACE).encode(), "/p", "here").service == EVERYTHING


def test_rates_are_those_of_the_cluster_or_of_the_only_one():
    there = namespace_service_policies(NAMESPACE, "there")
    assert there.dispatch_rate == ThrottleRate(99)
    assert there.publish_rate == ThrottleRate(12, 13)
    assert namespace_service_policies(NAMESPACE, "elsewhere").dispatch_rate is None


def test_what_a_broker_wrote_for_a_namespace_without_such_policies_sets_only_defaults():
    recorded = decode_namespace_policies(bytes.fromhex(RECORDED["namespace_policies_hex"]), "/p").service
    assert recorded == ServicePolicies(
        mark_delete_rate=1.5, schema_validation_enforced=False, encryption_required=False
    )


def test_a_topic_s_policies_are_read_from_the_broker_s_own_avro():
    schema = decode_schema(SCHEMA, "the schema")
    (message,) = messages(decode_entry(EVENTS[0]), "the first event")
    event = schemaless_reader(io.BytesIO(message.payload), schema, None)
    event["topicPoliciesEvent"]["policies"] |= {
        "messageTTLInSeconds": 3600,
        "deduplicationEnabled": True,
        "deduplicationSnapshotIntervalSeconds": 90,
        "backLogQuotaMap": NAMESPACE["backlog_quota_map"],
        "maxProducerPerTopic": 3,
        "maxConsumerPerTopic": 4,
        "maxConsumersPerSubscription": 5,
        "maxSubscriptionsPerTopic": 6,
        "maxUnackedMessagesOnConsumer": 7,
        "maxUnackedMessagesOnSubscription": 8,
        "maxMessageSize": 100,
        "delayedDeliveryEnabled": True,
        "delayedDeliveryTickTimeMillis": 500,
        "delayedDeliveryMaxDelayInMillis": 9000,
        "dispatchRate": NAMESPACE["topicDispatchRate"]["here"],
        "subscriptionDispatchRate": NAMESPACE["topicDispatchRate"]["here"],
        "subscriptionPolicies": {
            "s": {"dispatchRate": NAMESPACE["topicDispatchRate"]["here"]},
            "t": {"dispatchRate": None},
        },
        "publishRate": {"publishThrottlingRateInMsg": 12, "publishThrottlingRateInByte": 13},
        "compactionThreshold": 4096,
        "inactiveTopicPolicies": NAMESPACE["inactive_topic_policies"],
        "schemaCompatibilityStrategy": "FORWARD",
    }
    written = io.BytesIO()
    schemaless_writer(written, schema, event)
    written.seek(0)
    found = topic_service_policies(schemaless_reader(written, schema, None)["topicPoliciesEvent"]["policies"])
    for name in ("message_ttl_s", "size_quota", "age_quota", "deduplication", "max_unacked_per_subscription"):
        assert getattr(found, name) == getattr(EVERYTHING, name)
    for name in ("delayed_delivery_max_ms", "dispatch_rate", "publish_rate", "inactive_topics", "schema_compatibility"):
        assert getattr(found, name) == getattr(EVERYTHING, name)
    assert found.dispatch_rate_by_subscription == (("s", EVERYTHING.dispatch_rate),)
    assert (found.max_message_size, found.subscription_types, found.encryption_required) == (100, None, None)


@pytest.mark.parametrize(
    "damaged",
    [
        {"deduplicationSnapshotIntervalSeconds": "soon", "max_producers_per_topic": True},
        {"topicDispatchRate": [1], "subscription_types_enabled": "Shared", "delayed_delivery_policies": 3},
        {"delayed_delivery_policies": {"tickTime": 10**400}, "max_producers_per_topic": 1 << 63},
        {"persistence": {"managedLedgerMaxMarkDeleteRate": float("nan")}},
    ],
)
def test_a_value_of_another_type_counts_as_not_set_and_hides_no_other(damaged):
    assert namespace_service_policies(damaged) == NO_SERVICE_POLICIES
    assert namespace_service_policies(damaged | {"deduplicationEnabled": False}).deduplication is False


@pytest.mark.parametrize(
    ("damaged", "found"),
    [
        ({"message_ttl_in_seconds": "3600"}, {"message_ttl_s": 0}),
        ({"backlog_quota_map": {"message_age": {"policy": "of a later version"}}}, {"age_quota": BacklogQuota()}),
        ({"backlog_quota_map": {"destination_storage": 1 << 40}}, {"size_quota": BacklogQuota()}),
        ({"inactive_topic_policies": {"deleteWhileInactive": "false"}}, {"inactive_topics": NEVER_DELETED}),
        (
            {"inactive_topic_policies": {"deleteWhileInactive": True, "maxInactiveDurationSeconds": "86400"}},
            {"inactive_topics": NEVER_DELETED},
        ),
        ({"inactive_topic_policies": "never"}, {"inactive_topics": NEVER_DELETED}),
    ],
)
def test_nothing_goes_by_the_brokers_setting_where_a_policy_of_another_type_may_keep_it(damaged, found):
    assert namespace_service_policies(damaged) == ServicePolicies(**found)


@pytest.mark.parametrize("nothing", [None, {}])
def test_policies_that_are_not_set_leave_it_to_the_broker(nothing):
    of_kind = {"destination_storage": nothing, "message_age": nothing}
    policies = {"message_ttl_in_seconds": None, "backlog_quota_map": of_kind, "inactive_topic_policies": nothing}
    assert namespace_service_policies(policies) == NO_SERVICE_POLICIES


@pytest.mark.parametrize("rate", [5e9, float("inf"), 10**400])
def test_a_rate_of_writing_cursors_above_the_largest_is_the_largest(rate):
    """No topic of the namespace could be opened with it."""
    found = {"persistence": {"managedLedgerMaxMarkDeleteRate": rate}}
    assert namespace_service_policies(found).mark_delete_rate == MOST_RATE


def test_a_rate_of_more_bits_is_no_rate():
    found = {"topicDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 10**400, "ratePeriodInSecond": 2}}}
    assert namespace_service_policies(found).dispatch_rate == ThrottleRate(-1, -1, 2)


def test_of_each_policy_the_nearest_level_that_sets_it_is_in_force():
    topic = ServicePolicies(message_ttl_s=0, deduplication=False)
    every = ServicePolicies(message_ttl_s=5, max_producers=1)
    namespace = ServicePolicies(message_ttl_s=7, max_producers=2, max_consumers=3)
    assert merged(topic, every, namespace) == ServicePolicies(
        message_ttl_s=0, deduplication=False, max_producers=1, max_consumers=3
    )


def test_of_each_subscription_the_rate_of_the_nearest_level_is_in_force():
    slow, fast = ThrottleRate(1), ThrottleRate(9)
    topic = ServicePolicies(dispatch_rate_by_subscription=(("a", slow),))
    every = ServicePolicies(dispatch_rate_by_subscription=(("a", fast), ("b", fast)))
    assert merged(topic, every).dispatch_rate_by_subscription == (("a", slow), ("b", fast))
    assert merged(topic, ServicePolicies(max_producers=1)).dispatch_rate_by_subscription == (("a", slow),)
    assert (
        merged(ServicePolicies(max_consumers=1), ServicePolicies(max_producers=1)).dispatch_rate_by_subscription is None
    )
