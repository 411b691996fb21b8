"""What holds for a topic (`applied=true`): its own policy, its namespace's, else the broker's setting.

Pulsar has that for these policies only, and leaves the parameter out of account for others.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mledger.admin.policies.policy_events import PolicyScope
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_table import POLICIES, plan_value
from mledger.broker.admin_rest.requests import AdminCall
from mledger.broker.admin_rest.topics.topic_policy_table import TopicPolicy, plan_topic_value
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.settings import BrokerSettings
from mledger.cluster import Cluster
from mledger.config import ManagedLedgerConfig
from mledger.ledgers.retention import MINUTE_MS
from mledger.metastore.cluster.service_policies import QuotaKind

_OF_NAMESPACE = {policy.path: policy for policy in POLICIES}


class AppliedPolicy(Struct, frozen=True):
    """The path of the namespace's policy that holds where a topic has none, and the value of the broker's settings."""

    namespace: str
    default: Callable[[BrokerSettings, ManagedLedgerConfig], Any]


def _rate(messages: int, size: int) -> JsonObject:
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 1,
    }


def _retention(_: BrokerSettings, config: ManagedLedgerConfig) -> JsonObject:
    kept_ms = config.retention_time_ms
    return {
        "retentionTimeInMinutes": kept_ms // MINUTE_MS if kept_ms >= 0 else -1,
        "retentionSizeInMB": config.retention_size_in_mb,
    }


def _persistence(_: BrokerSettings, config: ManagedLedgerConfig) -> JsonObject:
    return {
        "bookkeeperEnsemble": config.ensemble_size,
        "bookkeeperWriteQuorum": config.write_quorum_size,
        "bookkeeperAckQuorum": config.ack_quorum_size,
        "managedLedgerMaxMarkDeleteRate": config.throttle_mark_delete,
    }


def _delayed(settings: BrokerSettings, _: ManagedLedgerConfig) -> JsonObject:
    tick_ms = round(settings.delayed_delivery_tick_s * 1000)
    return {
        "tickTime": tick_ms,
        "active": settings.delayed_delivery,
        "maxDeliveryDelayInMillis": settings.longest_delay_ms,
    }


def _inactive(settings: BrokerSettings, _: ManagedLedgerConfig) -> JsonObject:
    return {
        "inactiveTopicDeleteMode": settings.idle_mode,
        "maxInactiveDurationSeconds": round(settings.idle_limit_s or settings.idle_check_s),
        "deleteWhileInactive": settings.delete_idle_topics is True,
    }


def _subscribe_rate(settings: BrokerSettings, _: ManagedLedgerConfig) -> JsonObject:
    return {
        "subscribeThrottlingRatePerConsumer": settings.subscribes_per_consumer,
        "ratePeriodInSecond": settings.subscribe_period_s,
    }


APPLIED_POLICIES: Mapping[str, AppliedPolicy | None] = {
    "retention": AppliedPolicy("retention", _retention),
    "messageTTL": AppliedPolicy("messageTTL", lambda settings, _: round(settings.ttl_s)),
    "persistence": AppliedPolicy("persistence", _persistence),
    "deduplicationEnabled": AppliedPolicy("deduplication", lambda settings, _: settings.deduplication),
    "maxProducers": AppliedPolicy("maxProducersPerTopic", lambda settings, _: settings.max_producers_per_topic),
    "maxConsumers": AppliedPolicy("maxConsumersPerTopic", lambda settings, _: settings.max_consumers_per_topic),
    "maxUnackedMessagesOnConsumer": AppliedPolicy(
        "maxUnackedMessagesPerConsumer", lambda settings, _: settings.unacked_messages_per_consumer
    ),
    "maxUnackedMessagesOnSubscription": AppliedPolicy(
        "maxUnackedMessagesPerSubscription", lambda settings, _: settings.unacked_messages_per_subscription
    ),
    "delayedDelivery": AppliedPolicy("delayedDelivery", _delayed),
    "dispatchRate": AppliedPolicy(
        "dispatchRate",
        lambda settings, _: _rate(settings.dispatch_messages_per_s_and_topic, settings.dispatch_bytes_per_s_and_topic),
    ),
    "subscriptionDispatchRate": AppliedPolicy(
        "subscriptionDispatchRate",
        lambda settings, _: _rate(
            settings.dispatch_messages_per_s_and_subscription, settings.dispatch_bytes_per_s_and_subscription
        ),
    ),
    "compactionThreshold": AppliedPolicy(
        "compactionThreshold", lambda settings, _: settings.compaction_threshold_bytes
    ),
    "autoSubscriptionCreation": AppliedPolicy(
        "autoSubscriptionCreation",
        lambda settings, _: {"allowAutoSubscriptionCreation": settings.auto_subscription_creation},
    ),
    "inactiveTopicPolicies": AppliedPolicy("inactiveTopicPolicies", _inactive),
    "subscribeRate": AppliedPolicy("subscribeRate", _subscribe_rate),
    "schemaCompatibilityStrategy": None,
    "schemaValidationEnforced": None,
}
"""By the paths of topics' policies; None for those that are rules of schemas."""


class AppliedPolicies:
    """Finds what holds for topics of `cluster`, which `broker` serves."""

    def __init__(self, broker: ServedBroker, cluster: Cluster, nodes: PoliciesNodes) -> None:
        self._broker, self._cluster, self._nodes = broker, cluster, nodes

    async def value(self, policy: TopicPolicy, call: AdminCall, record: Mapping[str, Any]) -> Any:
        """The value of one of `APPLIED_POLICIES` for a topic with this record. MledgerError if it cannot be read."""
        applied = APPLIED_POLICIES[policy.path]
        if applied is None:
            rules = await self._broker.schemas.rules(call.topic)
            return rules.required if policy.unset is False else rules.strategy.value
        found = plan_topic_value(policy, record)
        if found is None:
            found = plan_topic_value(policy, await self.for_all_clusters(call))
        if found is None:
            namespace = await self._nodes.read(call.namespace)
            found = plan_value(_OF_NAMESPACE[applied.namespace], namespace, self._nodes.cluster)
        return applied.default(self._broker.settings, self._cluster.config) if found is None else found

    async def quotas(self, call: AdminCall) -> JsonObject:
        """The backlog quotas of a topic that has none of its own: its namespace's, else the broker's for each kind."""
        if found := (await self._nodes.read(call.namespace)).get("backlog_quota_map"):
            return dict(found)
        settings = self._broker.settings
        quota = {
            "limit": settings.backlog_quota_bytes,
            "limitSize": settings.backlog_quota_bytes,
            "limitTime": round(settings.backlog_quota_s),
            "policy": settings.backlog_quota_policy,
        }
        return {kind.value: quota for kind in QuotaKind}

    async def for_all_clusters(self, call: AdminCall) -> Mapping[str, Any]:
        """All fields of the record that holds where that of this cluster leaves something open."""
        topics = (await self._cluster.policies.of_namespace(call.topic)).topics
        record = topics.record(call.topic, PolicyScope.GLOBAL)
        return {} if record is None else record.fields
