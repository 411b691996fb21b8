"""The policies of single topics that this broker follows: their paths, their fields, and what is valid. No I/O."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mledger.broker.admin_rest.body_checks import MAX_INT, MAX_LONG, Check, boolean, count, number
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.policy_table import (
    DELAYED_DELIVERY,
    DISPATCH_RATE,
    MIB,
    PUBLISH_RATE,
    UNDEFINED,
    checked_persistence,
    checked_retention,
    checked_strategy,
    checked_ttl,
)
from mledger.broker.admin_rest.namespaces.usage_policies import (
    checked_auto_subscriptions,
    checked_inactive_topics,
    checked_subscribe_rate,
    checked_types,
)
from mledger.broker.admin_rest.refusals import precondition
from mledger.metastore.cluster.policies import Retention
from mledger.metastore.cluster.service_policies import QuotaKind

QUOTAS = "backLogQuotaMap"
SUBSCRIPTIONS = "subscriptionPolicies"
RATE = "dispatchRate"
_RETENTION = "retentionPolicies"


class TopicPolicy(Struct, frozen=True):
    """One policy: `path` below its topic, `fields` in the record by those of its JSON, and how it is checked.

    A policy that is one value in the record has one field under no name. With `parameter` the value is in the query.
    Pulsar answers 204 to GET of some that are not set (`no_content`), and 200 without a body to that of others.
    With `required` it needs a body, as where Java has a primitive type; else none unsets it.
    `removed` is what the field of a single value has once it is not set any more, `unset` is what is shown then.
    """

    path: str
    fields: Mapping[str, str]
    check: Check
    parameter: str = ""
    no_content: bool = False
    removed: Any = None
    unset: Any = None
    setter: str = "POST"
    removable: bool = True
    required: bool = False


def plan_topic_value(policy: TopicPolicy, found: Mapping[str, Any]) -> Any:
    """The value in the fields of a record, None if it is not set."""
    if "" in policy.fields:
        value = found.get(policy.fields[""])
        if value is None:
            return policy.unset
        return {key: each for key, each in value.items() if each is not None} if isinstance(value, Mapping) else value
    values = {name: found.get(field) for name, field in policy.fields.items()}
    return None if all(value is None for value in values.values()) else values


def plan_topic_changes(policy: TopicPolicy, found: Mapping[str, Any], value: Any) -> JsonObject:
    """The fields of a record to set for this value; None removes it. AdminRefusal if it contradicts a quota."""
    if policy.fields.get("") == _RETENTION and value is not None:
        _check_quota(
            value["retentionSizeInMB"],
            (found.get(QUOTAS) or {}).get(QuotaKind.SIZE.value),
            "Retention Quota must exceed configured backlog quota for topic. Please increase retention quota and retry",
        )
    if "" in policy.fields:
        return {policy.fields[""]: policy.removed if value is None else value}
    return {field: None if value is None else value[name] for name, field in policy.fields.items()}


def plan_topic_quotas(
    found: Mapping[str, Any], kind: QuotaKind, value: JsonObject | None, namespace: Retention | None
) -> JsonObject:
    """The fields of a record with this backlog quota; None removes it. AdminRefusal if retention keeps less.

    Without a retention of its own the topic has that of its `namespace`.
    """
    quotas = {name: quota for name, quota in (found.get(QUOTAS) or {}).items() if name != kind.value}
    if value is None:
        return {QUOTAS: quotas}
    if kind is QuotaKind.SIZE:
        own = found.get(_RETENTION)
        kept = own["retentionSizeInMB"] if own else namespace.size_mb if namespace else 0
        why = "Backlog Quota exceeds configured retention quota for topic. Please increase retention quota and retry"
        _check_quota(kept, value, why)
    return {QUOTAS: quotas | {kind.value: value}}


def plan_subscription_rate(found: Mapping[str, Any], subscription: str) -> JsonObject | None:
    """The dispatch rate of one subscription in the fields of a record, None if it has none of its own."""
    value = ((found.get(SUBSCRIPTIONS) or {}).get(subscription) or {}).get(RATE)
    return None if value is None else dict(value)


def plan_subscription_changes(found: Mapping[str, Any], subscription: str, value: JsonObject | None) -> JsonObject:
    """The fields of a record to set for this dispatch rate of one subscription; None removes it."""
    others = dict(found.get(SUBSCRIPTIONS) or {})
    own = {name: each for name, each in (others.pop(subscription, None) or {}).items() if name != RATE}
    if value is not None:
        own[RATE] = value
    return {SUBSCRIPTIONS: others | ({subscription: own} if any(each is not None for each in own.values()) else {})}


def shown_quotas(found: Mapping[str, Any]) -> JsonObject:
    """The backlog quotas of a record, as JSON."""
    return {kind: {name: each for name, each in quota.items() if each is not None} for kind, quota in found.items()}


def _check_quota(kept_mb: int, quota: Mapping[str, Any] | None, why: str) -> None:
    if quota and 0 < kept_mb * MIB <= (quota.get("limitSize") or -1):
        raise precondition(why)


def _one(path: str, field: str, check: Check, parameter: str = "", *, no_content: bool = False) -> TopicPolicy:
    return TopicPolicy(path, {"": field}, check, parameter, no_content)


def _count(path: str, field: str) -> TopicPolicy:
    return _one(path, field, count(path))


def _limit(path: str, field: str, most: int = MAX_INT, *, no_content: bool = False) -> TopicPolicy:
    return TopicPolicy(path, {"": field}, number(path, most=most), no_content=no_content, required=True)


def checked_own_strategy(value: Any) -> str | None:
    """A strategy of schemas as it is stored; UNDEFINED unsets it, and so does nothing."""
    strategy = checked_strategy(value)
    return None if strategy == UNDEFINED else strategy


TOPIC_POLICIES: tuple[TopicPolicy, ...] = (
    _one("retention", _RETENTION, checked_retention),
    _one("messageTTL", "messageTTLInSeconds", checked_ttl, parameter="messageTTL"),
    _one("persistence", "persistence", checked_persistence),
    _one(
        "deduplicationEnabled",
        "deduplicationEnabled",
        lambda value: None if value in (None, "") else boolean("deduplicationEnabled")(value),
    ),
    _count("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds"),
    _limit("maxProducers", "maxProducerPerTopic"),
    _limit("maxConsumers", "maxConsumerPerTopic"),
    _limit("maxConsumersPerSubscription", "maxConsumersPerSubscription", no_content=True),
    _limit("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic", no_content=True),
    _count("maxUnackedMessagesOnConsumer", "maxUnackedMessagesOnConsumer"),
    _count("maxUnackedMessagesOnSubscription", "maxUnackedMessagesOnSubscription"),
    _one("publishRate", "publishRate", PUBLISH_RATE, no_content=True),
    _one("dispatchRate", "dispatchRate", DISPATCH_RATE),
    _one("subscriptionDispatchRate", "subscriptionDispatchRate", DISPATCH_RATE),
    _limit("compactionThreshold", "compactionThreshold", most=MAX_LONG),
    TopicPolicy(
        "delayedDelivery",
        {
            "active": "delayedDeliveryEnabled",
            "tickTime": "delayedDeliveryTickTimeMillis",
            "maxDeliveryDelayInMillis": "delayedDeliveryMaxDelayInMillis",
        },
        DELAYED_DELIVERY,
    ),
    _one("autoSubscriptionCreation", "autoSubscriptionCreationOverride", checked_auto_subscriptions),
    TopicPolicy("subscriptionTypesEnabled", {"": "subscriptionTypesEnabled"}, checked_types, removed=[]),
    _one("inactiveTopicPolicies", "inactiveTopicPolicies", checked_inactive_topics),
    _one("subscribeRate", "subscribeRate", checked_subscribe_rate),
    TopicPolicy("schemaCompatibilityStrategy", {"": "schemaCompatibilityStrategy"}, checked_own_strategy, setter="PUT"),
    TopicPolicy(
        "schemaValidationEnforced",
        {"": "schemaValidationEnforced"},
        boolean("schemaValidationEnforced"),
        unset=False,
        removable=False,
        required=True,
    ),
    _limit("maxMessageSize", "maxMessageSize", no_content=True),
)

TOPIC_POLICIES_NOT_FOLLOWED: tuple[str, ...] = (
    "dispatcherPauseOnAckStatePersistent",
    "entryFilters",
    "offloadPolicies",
    "replication",
    "replicatorDispatchRate",
    "shadowTopics",
    "subscriptionExpirationTime",
)
"""Pulsar's other policies of topics: this broker would not follow them, so they are not set by it."""
