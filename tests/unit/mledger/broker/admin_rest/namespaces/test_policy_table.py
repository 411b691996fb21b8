"""Policies of a namespace: what is stored, what is shown, what is refused."""

import pytest

from mledger.broker.admin_rest.namespaces.policy_table import (
    NOT_FOLLOWED,
    POLICIES,
    checked_quota,
    plan_quota,
    plan_set,
    plan_value,
    quota_kind,
)
from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.metastore.cluster.policies import Retention, decode_namespace_policies, retention_of
from mledger.metastore.cluster.service_policies import (
    AutoTopicCreation,
    QuotaKind,
    ThrottleRate,
    namespace_service_policies,
)

BY_PATH = {policy.path: policy for policy in POLICIES}
VALUES = {
    "retention": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100},
    "messageTTL": 60,
    "persistence": {
        "bookkeeperEnsemble": 3,
        "bookkeeperWriteQuorum": 2,
        "bookkeeperAckQuorum": 2,
        "managedLedgerMaxMarkDeleteRate": 1.5,
    },
    "deduplication": True,
    "schemaCompatibilityStrategy": "FORWARD",
    "schemaValidationEnforced": True,
    "isAllowAutoUpdateSchema": False,
    "encryptionRequired": True,
    "delayedDelivery": {"tickTime": 2000, "active": True, "maxDeliveryDelayInMillis": 0},
    "publishRate": {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": 100},
    "dispatchRate": {
        "dispatchThrottlingRateInMsg": 10,
        "dispatchThrottlingRateInByte": 100,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    },
    "autoTopicCreation": {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
    "subscriptionTypesEnabled": ["Shared", "Failover"],
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": 2},
    "inactiveTopicPolicies": {"inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up"},
}


def value_for(policy):
    return VALUES.get(policy.path, VALUES["dispatchRate"] if policy.per_cluster else 7)


def status_of(check, *args):
    with pytest.raises(AdminRefusal) as caught:
        check(*args)
    return caught.value.status


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.path)
def test_a_policy_that_was_set_is_shown_until_it_is_removed(policy):
    value = policy.check(value_for(policy))
    found = plan_set(policy, {"other": 1}, value, "here")
    assert plan_value(policy, found, "here") == value
    assert found["other"] == 1
    assert plan_value(policy, plan_set(policy, found, None, "here"), "here") == policy.unset


def test_what_is_set_is_what_the_broker_reads():
    found = {}
    for policy in POLICIES:
        found = plan_set(policy, found, policy.check(value_for(policy)), "here")
    read = namespace_service_policies(found, "here")
    assert (read.message_ttl_s, read.deduplication, read.max_producers, read.encryption_required) == (60, True, 7, True)
    assert (read.publish_rate.messages, read.dispatch_rate.bytes) == (10, 100)
    assert (read.compaction_threshold, read.schema_compatibility, read.delayed_delivery) == (7, "FORWARD", True)
    assert (read.auto_topic_creation, read.auto_subscription_creation) == (AutoTopicCreation(True, 3), False)
    assert read.subscribe_rate == ThrottleRate(2, period_s=30)
    assert read.subscription_types == ("Shared", "Failover")
    assert retention_of(found["retention_policies"]) == Retention(10, 100)
    assert decode_namespace_policies(b'{"persistence": null}', "/x").persistence is None


def test_rates_of_other_clusters_stay():
    policy = BY_PATH["publishRate"]
    found = plan_set(policy, {policy.field: {"there": {"publishThrottlingRateInMsg": 1}}}, None, "here")
    assert found[policy.field] == {"there": {"publishThrottlingRateInMsg": 1}}


@pytest.mark.parametrize(
    ("path", "value", "status"),
    [
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 100}, 400),
        ("retention", {"retentionTimeInMinutes": -2, "retentionSizeInMB": 100}, 400),
        ("messageTTL", -1, 412),
        ("messageTTL", "soon", 400),
        ("persistence", {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 2}, 400),
        ("persistence", {"bookkeeperEnsemble": 0}, 400),
        ("deduplication", "on", 400),
        ("compactionThreshold", -1, 412),
        ("schemaCompatibilityStrategy", "NOTHING", 400),
        ("maxProducersPerTopic", -3, 412),
    ],
)
def test_what_is_not_valid_is_refused_with_pulsars_status(path, value, status):
    assert status_of(BY_PATH[path].check, value) == status


def test_a_backlog_may_not_be_larger_than_what_retention_keeps():
    quota = checked_quota({"limitSize": 2 << 20, "policy": "producer_exception"}, "a/b")
    with_quota = plan_quota({}, QuotaKind.SIZE, quota)
    small = BY_PATH["retention"].check({"retentionTimeInMinutes": 10, "retentionSizeInMB": 1})
    assert status_of(plan_set, BY_PATH["retention"], with_quota, small, "here") == 412
    with_retention = plan_set(BY_PATH["retention"], {}, small, "here")
    assert status_of(plan_quota, with_retention, QuotaKind.SIZE, quota) == 412
    assert plan_quota(with_retention, QuotaKind.AGE, quota)["backlog_quota_map"] == {"message_age": quota}
    assert plan_quota(with_quota, QuotaKind.SIZE, None)["backlog_quota_map"] == {}


def test_a_quota_needs_a_policy_and_a_kind_that_pulsar_has():
    assert status_of(checked_quota, {"limitTime": 3600}, "a/b") == 400
    assert status_of(quota_kind, "nothing") == 400
    assert quota_kind("message_age") is QuotaKind.AGE


def test_no_policy_is_both_followed_and_not():
    assert not set(NOT_FOLLOWED) & set(BY_PATH)


@pytest.mark.parametrize(
    "name", ["dispatchRate", "subscriptionDispatchRate", "publishRate", "subscribeRate", "delayedDelivery"]
)
def test_null_unsets_what_is_an_object(name):
    policy = next(each for each in POLICIES if each.path == name)
    assert policy.check(None) is None
    assert not policy.required
    assert status_of(policy.check, "") == 400


@pytest.mark.parametrize("policy", [each for each in POLICIES if each.required], ids=lambda policy: policy.path)
def test_null_is_zero_or_false_where_java_has_a_primitive_type(policy):
    assert policy.check(None) in (0, False)


def test_fields_that_are_left_out_have_the_values_of_java():
    checks = {policy.path: policy.check for policy in POLICIES}
    assert checks["dispatchRate"]({"dispatchThrottlingRateInMsg": 5}) == {
        "dispatchThrottlingRateInMsg": 5,
        "dispatchThrottlingRateInByte": 0,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 0,
    }
    assert checks["delayedDelivery"]({}) == {"tickTime": 0, "active": False, "maxDeliveryDelayInMillis": 0}
    assert checks["persistence"]({"bookkeeperEnsemble": 3})["bookkeeperAckQuorum"] == 2
    assert checks["schemaCompatibilityStrategy"](None) == "UNDEFINED"


def test_fields_without_a_value_are_not_shown():
    policy = next(each for each in POLICIES if each.path == "inactiveTopicPolicies")
    found = plan_set(policy, {}, policy.check({}), "here")
    assert plan_value(policy, found, "here") == {"maxInactiveDurationSeconds": 0, "deleteWhileInactive": False}
