"""What holds for a topic: its policies, else the broker's settings."""

import pytest

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.policies_in_force import plan_rates, plan_settings
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, ServicePolicies, ThrottleRate


def test_without_policies_the_settings_hold():
    settings = BrokerSettings(deduplication=True, max_producers_per_topic=3, encryption_required=True)
    assert plan_settings(settings, NO_SERVICE_POLICIES) == settings


def test_policies_come_before_the_settings():
    settings = BrokerSettings(deduplication=True, max_producers_per_topic=3)
    policies = ServicePolicies(deduplication=False, max_producers=0, max_unacked_per_consumer=7, delayed_delivery=False)
    found = plan_settings(settings, policies)
    assert (found.deduplication, found.max_producers_per_topic) == (False, 0)
    assert (found.unacked_messages_per_consumer, found.delayed_delivery) == (7, False)


def test_encryption_is_required_if_either_says_so():
    assert plan_settings(BrokerSettings(), ServicePolicies(encryption_required=True)).encryption_required
    strict = BrokerSettings(encryption_required=True)
    assert plan_settings(strict, ServicePolicies(encryption_required=False)).encryption_required


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, ThrottleRate(5, 0)),
        (ThrottleRate(-1, -1), ThrottleRate(5, 0)),
        (ThrottleRate(7, -1, 2), ThrottleRate(7, -1, 2)),
        (ThrottleRate(-1, 9), ThrottleRate(-1, 9)),
    ],
)
@pytest.mark.parametrize("kind", ["publish", "dispatch", "subscription"])
def test_a_rate_without_a_number_is_as_good_as_none(kind, policy, expected):
    settings = BrokerSettings(
        publish_messages_per_s=5, dispatch_messages_per_s_and_topic=5, dispatch_messages_per_s_and_subscription=5
    )
    name = {"publish": "publish_rate", "dispatch": "dispatch_rate", "subscription": "subscription_dispatch_rate"}[kind]
    assert getattr(plan_rates(settings, ServicePolicies(**{name: policy})), kind) == expected
