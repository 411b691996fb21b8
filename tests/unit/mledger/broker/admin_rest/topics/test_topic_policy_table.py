"""Policies of topics, between JSON and the fields of a record."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.topic_policy_table import (
    TOPIC_POLICIES,
    plan_subscription_changes,
    plan_subscription_rate,
    plan_topic_changes,
    plan_topic_quotas,
    plan_topic_value,
    shown_quotas,
)
from mledger.metastore.cluster.policies import Retention
from mledger.metastore.cluster.service_policies import QuotaKind

BY_PATH = {policy.path: policy for policy in TOPIC_POLICIES}
QUOTA = {"limit": 2 << 20, "limitSize": 2 << 20, "limitTime": -1, "policy": "producer_exception"}


def retention(size_mb):
    """Retention as JSON."""
    return {"retentionTimeInMinutes": 1, "retentionSizeInMB": size_mb}


def test_a_policy_of_several_fields_is_one_value():
    policy = BY_PATH["delayedDelivery"]
    value = {"active": True, "tickTime": 2000, "maxDeliveryDelayInMillis": 0}
    changes = plan_topic_changes(policy, {}, value)
    assert changes == {
        "delayedDeliveryEnabled": True,
        "delayedDeliveryTickTimeMillis": 2000,
        "delayedDeliveryMaxDelayInMillis": 0,
    }
    assert plan_topic_value(policy, changes) == value
    removed = plan_topic_changes(policy, changes, None)
    assert set(removed) == set(changes)
    assert plan_topic_value(policy, removed) is None
    assert plan_topic_value(policy, {}) is None


def test_fields_without_a_value_are_not_shown():
    found = {"persistence": {"bookkeeperEnsemble": 1, "managedLedgerStorageClassName": None}}
    assert plan_topic_value(BY_PATH["persistence"], found) == {"bookkeeperEnsemble": 1}
    assert shown_quotas({"message_age": {"limit": 0, "limitSize": None}}) == {"message_age": {"limit": 0}}


def test_subscriptions_have_rates_of_their_own():
    rate, others = {"dispatchThrottlingRateInMsg": 5}, {"b": {"dispatchRate": {"dispatchThrottlingRateInMsg": 9}}}
    for found in ({}, {"subscriptionPolicies": None}, {"subscriptionPolicies": {"a": None}}):
        assert plan_subscription_rate(found, "a") is None
        assert plan_subscription_changes(found, "a", rate) == {"subscriptionPolicies": {"a": {"dispatchRate": rate}}}
        assert plan_subscription_changes(found, "a", None) == {"subscriptionPolicies": {}}
    changed = plan_subscription_changes({"subscriptionPolicies": others}, "a", rate)
    assert plan_subscription_rate(changed, "a") == rate
    assert plan_subscription_changes(changed, "a", None) == {"subscriptionPolicies": others}
    unknown = {"subscriptionPolicies": {"a": {"dispatchRate": rate, "later": 1}}}
    assert plan_subscription_changes(unknown, "a", None) == {"subscriptionPolicies": {"a": {"later": 1}}}


def test_a_backlog_may_not_be_larger_than_what_retention_keeps():
    policy = BY_PATH["retention"]
    quotas = plan_topic_quotas({}, QuotaKind.SIZE, QUOTA, None)
    assert plan_topic_changes(policy, quotas, retention(3)) == {"retentionPolicies": retention(3)}
    assert plan_topic_changes(policy, quotas, retention(-1))
    for call in (
        lambda: plan_topic_changes(policy, quotas, retention(2)),
        lambda: plan_topic_quotas({"retentionPolicies": retention(1)}, QuotaKind.SIZE, QUOTA, Retention(1, 9)),
        lambda: plan_topic_quotas({}, QuotaKind.SIZE, QUOTA, Retention(1, 1)),
    ):
        with pytest.raises(AdminRefusal) as refused:
            call()
        assert refused.value.status == 412
    own = {"retentionPolicies": retention(9)}
    assert plan_topic_quotas(own, QuotaKind.SIZE, QUOTA, Retention(1, 1)) == {
        "backLogQuotaMap": {"destination_storage": QUOTA}
    }


def test_quotas_are_set_and_removed_one_by_one():
    found = plan_topic_quotas({}, QuotaKind.SIZE, QUOTA, None)
    found = plan_topic_quotas(found, QuotaKind.AGE, QUOTA, Retention(1, 1))
    assert set(found["backLogQuotaMap"]) == {"destination_storage", "message_age"}
    assert set(plan_topic_quotas(found, QuotaKind.SIZE, None, None)["backLogQuotaMap"]) == {"message_age"}
