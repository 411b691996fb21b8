"""What holds for a topic: its policies, its namespace's, else the broker's settings. No I/O.

A rate without a positive number is as good as none, as in Pulsar: the broker's holds then.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mledger.admin.system_topics import is_for_brokers
from mledger.broker.settings import SUBSCRIPTION_TYPES, BrokerSettings
from mledger.config import MESSAGE_PADDING, ManagedLedgerConfig
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, ServicePolicies, ThrottleRate
from mledger.metastore.records.paths import TopicName

_FIELDS = (
    ("deduplication", "deduplication"),
    ("deduplication_snapshot_s", "deduplication_snapshot_interval_s"),
    ("max_producers", "max_producers_per_topic"),
    ("max_consumers", "max_consumers_per_topic"),
    ("max_consumers_per_subscription", "max_consumers_per_subscription"),
    ("max_subscriptions", "max_subscriptions_per_topic"),
    ("max_unacked_per_consumer", "unacked_messages_per_consumer"),
    ("max_unacked_per_subscription", "unacked_messages_per_subscription"),
    ("delayed_delivery", "delayed_delivery"),
    ("delayed_delivery_max_ms", "longest_delay_ms"),
    ("compaction_threshold", "compaction_threshold_bytes"),
    ("auto_subscription_creation", "auto_subscription_creation"),
    ("subscription_types", "subscription_types"),
)
"""Policies, and the settings that they replace."""
_NO_LIMITS: Mapping[str, Any] = {
    "max_producers_per_topic": 0,
    "max_producers_per_topic_and_host": 0,
    "max_consumers_per_topic": 0,
    "max_consumers_per_topic_and_host": 0,
    "max_consumers_per_subscription": 0,
    "max_subscriptions_per_topic": 0,
    "subscription_types": SUBSCRIPTION_TYPES,
    "deduplication": False,
}
"""What holds for topics of brokers, as in Pulsar: every broker of the cluster is a client of theirs.

Other topics are opened only once theirs are, which is not to wait for the recovery of sequence ids.
"""


class TopicRates(Struct, frozen=True):
    """How fast a topic takes and gives messages: published, dispatched in all, dispatched to each subscription.

    `subscribe` is how often each consumer may subscribe in a period, `by_subscription` are the rates of those
    subscriptions that have their own.
    """

    publish: ThrottleRate
    dispatch: ThrottleRate
    subscription: ThrottleRate
    subscribe: ThrottleRate
    by_subscription: Mapping[str, ThrottleRate] = field(default_factory=dict)


def plan_settings(topic: TopicName, settings: BrokerSettings, policies: ServicePolicies) -> BrokerSettings:
    """The broker's settings for a topic with these policies."""
    system = is_for_brokers(topic)
    if policies == NO_SERVICE_POLICIES and not system:
        return settings
    found = ((field, getattr(policies, policy)) for policy, field in _FIELDS)
    changes: dict[str, Any] = {field: value for field, value in found if value is not None}
    if policies.delayed_delivery_tick_ms is not None:
        changes["delayed_delivery_tick_s"] = max(1, policies.delayed_delivery_tick_ms) / 1000
    if policies.encryption_required:
        changes["encryption_required"] = True
    if system:
        changes.update(_NO_LIMITS)
    return dataclasses.replace(settings, **changes)


def plan_largest_bytes(topic: TopicName, policies: ServicePolicies, config: ManagedLedgerConfig) -> int:
    """How many bytes an entry of the topic may have by its policy; 0: as many as the broker takes.

    As in Pulsar, a policy that allows messages as large as the broker does sets no limit: an entry has metadata, too.
    """
    largest = max(0, policies.max_message_size or 0)
    return 0 if is_for_brokers(topic) or largest >= config.max_message_size - MESSAGE_PADDING else largest


def plan_encrypted(topic: TopicName, settings: BrokerSettings) -> bool:
    """Whether a topic with these settings takes encrypted messages only: brokers, which have no keys, write others."""
    return settings.encryption_required and not is_for_brokers(topic)


def plan_rates(settings: BrokerSettings, policies: ServicePolicies) -> TopicRates:
    """The rates of a topic with these policies."""
    return TopicRates(
        publish=_rate(policies.publish_rate, settings.publish_messages_per_s, settings.publish_bytes_per_s),
        dispatch=_rate(
            policies.dispatch_rate, settings.dispatch_messages_per_s_and_topic, settings.dispatch_bytes_per_s_and_topic
        ),
        subscription=_rate(
            policies.subscription_dispatch_rate,
            settings.dispatch_messages_per_s_and_subscription,
            settings.dispatch_bytes_per_s_and_subscription,
        ),
        subscribe=_rate(policies.subscribe_rate, settings.subscribes_per_consumer, 0, settings.subscribe_period_s),
        by_subscription={name: rate for name, rate in policies.dispatch_rate_by_subscription or () if _is_limit(rate)},
    )


def _rate(policy: ThrottleRate | None, messages: int, size: int, period_s: int = 1) -> ThrottleRate:
    if policy is not None and _is_limit(policy):
        return policy
    return ThrottleRate(messages, size, period_s)


def _is_limit(rate: ThrottleRate) -> bool:
    return rate.messages > 0 or rate.bytes > 0
