"""The retention in force: the topic's, else its namespace's, else the default (M10)."""

import pytest

from mledger.config import ManagedLedgerConfig
from mledger.ledgers.retention import (
    RetentionInForce,
    RetentionOrigin,
    TopicPolicies,
    persistence_in_force,
    retention_in_force,
    retention_warnings,
)
from mledger.metastore.cluster.policies import Persistence, Retention, StoragePolicies

DEFAULT = ManagedLedgerConfig(retention_time_ms=7_000, retention_size_in_mb=8)
TOPIC, GLOBAL, NAMESPACE = (StoragePolicies(Retention(minutes, minutes)) for minutes in (1, 2, 3))
NONE = StoragePolicies()


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (TopicPolicies(TOPIC, GLOBAL, NAMESPACE), RetentionInForce(60_000, 1, RetentionOrigin.TOPIC)),
        (TopicPolicies(NONE, GLOBAL, NAMESPACE), RetentionInForce(120_000, 2, RetentionOrigin.TOPIC_GLOBAL)),
        (TopicPolicies(NONE, NONE, NAMESPACE), RetentionInForce(180_000, 3, RetentionOrigin.NAMESPACE)),
        (TopicPolicies(), RetentionInForce(7_000, 8, RetentionOrigin.DEFAULT)),
    ],
)
def test_the_nearest_policy_wins_and_no_configuration_shortens_it(policies, expected) -> None:
    assert retention_in_force(policies, DEFAULT) == expected


def test_a_topic_s_policy_may_keep_less_than_its_namespace_s() -> None:
    policies = TopicPolicies(topic=StoragePolicies(Retention(0, 0)), namespace=StoragePolicies(Retention(-1, -1)))
    assert retention_in_force(policies, DEFAULT).retention_size == 0


def test_no_limit_stays_no_limit() -> None:
    found = retention_in_force(TopicPolicies(namespace=StoragePolicies(Retention(-1, -1))), DEFAULT)
    assert (found.retention_time_ms, found.retention_size) == (-1, -1)


def test_a_policy_without_retention_leaves_it_to_the_next() -> None:
    quorums = StoragePolicies(persistence=Persistence(3, 3, 2))
    policies = TopicPolicies(topic=quorums, namespace=NAMESPACE)
    assert retention_in_force(policies, DEFAULT).origin is RetentionOrigin.NAMESPACE
    assert persistence_in_force(policies) == Persistence(3, 3, 2)
    assert persistence_in_force(TopicPolicies(namespace=NAMESPACE)) is None


def test_a_policy_with_one_limit_of_zero_is_reported_as_without_effect() -> None:
    (said,) = retention_warnings(RetentionInForce(60_000, 0, RetentionOrigin.NAMESPACE))
    assert "the namespace's policy has no effect: a size of 0 keeps nothing" in said
    assert retention_warnings(RetentionInForce(0, 0, RetentionOrigin.NAMESPACE)) == ()
    assert retention_warnings(RetentionInForce(60_000, -1, RetentionOrigin.NAMESPACE)) == ()
