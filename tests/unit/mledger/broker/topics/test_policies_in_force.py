"""What holds for a topic: its policies, else the broker's settings."""

import pytest

from mledger.broker.settings import SUBSCRIPTION_TYPES, BrokerSettings
from mledger.broker.topics.policies_in_force import plan_largest_bytes, plan_rates, plan_settings
from mledger.config import MESSAGE_PADDING, ManagedLedgerConfig
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, ServicePolicies, ThrottleRate
from mledger.metastore.records.paths import TopicName

TOPIC = TopicName.parse("orders")


def test_without_policies_the_settings_hold():
    settings = BrokerSettings(deduplication=True, max_producers_per_topic=3, encryption_required=True)
    assert plan_settings(TOPIC, settings, NO_SERVICE_POLICIES) == settings


def test_policies_come_before_the_settings():
    settings = BrokerSettings(deduplication=True, max_producers_per_topic=3)
    policies = ServicePolicies(deduplication=False, max_producers=0, max_unacked_per_consumer=7, delayed_delivery=False)
    found = plan_settings(TOPIC, settings, policies)
    assert (found.deduplication, found.max_producers_per_topic) == (False, 0)
    assert (found.unacked_messages_per_consumer, found.delayed_delivery) == (7, False)


def test_the_policy_of_delays_has_their_tick_and_the_longest_one():
    policies = ServicePolicies(delayed_delivery_tick_ms=250, delayed_delivery_max_ms=9_000)
    found = plan_settings(TOPIC, BrokerSettings(), policies)
    assert (found.delayed_delivery_tick_s, found.longest_delay_ms) == (0.25, 9_000)
    least = plan_settings(TOPIC, BrokerSettings(), ServicePolicies(delayed_delivery_tick_ms=0))
    assert least.delayed_delivery_tick_s == 0.001


@pytest.mark.parametrize(
    ("topic", "policy", "largest"),
    [("orders", None, 0), ("orders", -1, 0), ("orders", 999, 999), ("orders", 1000, 0), ("__change_events", 999, 0)],
)
def test_a_policy_as_large_as_the_brokers_own_limit_sets_none(topic, policy, largest):
    config = ManagedLedgerConfig(max_message_size=1000 + MESSAGE_PADDING)
    assert plan_largest_bytes(TopicName.parse(topic), ServicePolicies(max_message_size=policy), config) == largest


def test_encryption_is_required_if_either_says_so():
    assert plan_settings(TOPIC, BrokerSettings(), ServicePolicies(encryption_required=True)).encryption_required
    strict = BrokerSettings(encryption_required=True)
    assert plan_settings(TOPIC, strict, ServicePolicies(encryption_required=False)).encryption_required


def test_brokers_use_their_own_topics_whatever_the_limits_of_clients_are():
    limits = {"max_producers": 1, "max_consumers": 1, "max_consumers_per_subscription": 1, "max_subscriptions": 1}
    settings = BrokerSettings(subscription_types=("Shared",), max_consumers_per_topic=2, deduplication=True)
    for policies in (NO_SERVICE_POLICIES, ServicePolicies(**limits, subscription_types=("Shared",))):
        found = plan_settings(TopicName.parse("__change_events"), settings, policies)
        assert found.subscription_types == SUBSCRIPTION_TYPES
        assert (found.max_producers_per_topic, found.max_consumers_per_topic) == (0, 0)
        assert (found.max_consumers_per_subscription, found.max_subscriptions_per_topic) == (0, 0)
        assert not found.deduplication


def test_a_subscription_s_own_rate_counts_if_it_has_a_number():
    own = (("a", ThrottleRate(7, -1)), ("b", ThrottleRate(-1, 9)), ("c", ThrottleRate(0, -1)))
    found = plan_rates(BrokerSettings(), ServicePolicies(dispatch_rate_by_subscription=own))
    assert found.by_subscription == {"a": ThrottleRate(7, -1), "b": ThrottleRate(-1, 9)}


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
