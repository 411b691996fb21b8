"""The policies of a namespace that this broker follows: their paths, their fields, and what is valid. No I/O."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from mledger.broker.admin_rest.body_checks import (
    MAX_INT,
    MAX_LONG,
    Check,
    boolean,
    count,
    known_fields,
    number,
    number_of,
    unless_null,
)
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.usage_policies import (
    checked_auto_subscriptions,
    checked_auto_topics,
    checked_inactive_topics,
    checked_subscribe_rate,
    checked_types,
)
from mledger.broker.admin_rest.refusals import bad_request, precondition
from mledger.broker.settings import SCHEMA_STRATEGIES
from mledger.metastore.cluster.service_policies import QuotaKind, QuotaPolicy

MIB = 1 << 20
UNDEFINED = "UNDEFINED"
"""The strategy of schemas that leaves it to the broker."""
_LONGS = (
    "limit",
    "limitSize",
    "retentionSizeInMB",
    "dispatchThrottlingRateInByte",
    "publishThrottlingRateInByte",
    "tickTime",
    "maxDeliveryDelayInMillis",
)
"""The fields of policies that have 64 bits in Java; other integers have 32."""


class NamespacePolicy(Struct, frozen=True):
    """One policy: `path` below its namespace, `field` in the node, how it is set, and what unset ones show.

    With `per_cluster` the field is an object with a value for each cluster; `also` are fields that Pulsar keeps equal.
    With `required` it needs a body, as where Java has a primitive type; else none unsets it.
    """

    path: str
    field: str
    check: Check
    setter: str = "POST"
    removable: bool = True
    unset: Any = None
    per_cluster: bool = False
    also: tuple[str, ...] = ()
    required: bool = False


def plan_value(policy: NamespacePolicy, policies: Mapping[str, Any], cluster: str) -> Any:
    """The value in these policies."""
    found = policies.get(policy.field)
    if policy.per_cluster:
        found = (found or {}).get(cluster)
    if isinstance(found, Mapping):
        return {name: value for name, value in found.items() if value is not None}
    return policy.unset if found is None else found


def plan_set(policy: NamespacePolicy, policies: JsonObject, value: Any, cluster: str) -> JsonObject:
    """The policies with this value; None removes it. AdminRefusal if it contradicts another policy."""
    changed = dict(policies)
    if policy.per_cluster:
        for field in (policy.field, *policy.also):
            of_clusters = dict(changed.get(field) or {})
            of_clusters.pop(cluster, None)
            changed[field] = of_clusters if value is None else of_clusters | {cluster: value}
    elif value is None:
        changed.pop(policy.field, None)
    else:
        changed[policy.field] = value
    if policy.field == "retention_policies":
        check_quota(changed, precondition("Retention Quota must exceed configured backlog quota for namespace."))
    return changed


def plan_quota(policies: JsonObject, kind: QuotaKind, value: JsonObject | None) -> JsonObject:
    """The policies with this backlog quota; None removes it. AdminRefusal if retention keeps less."""
    quotas = dict(policies.get("backlog_quota_map") or {})
    quotas.pop(kind.value, None)
    changed = policies | {"backlog_quota_map": quotas if value is None else quotas | {kind.value: value}}
    if value is not None:
        check_quota(changed, precondition(_OVER_RETENTION))
    return changed


def check_quota(policies: Mapping[str, Any], refusal: Exception) -> None:
    """Raise `refusal` if the backlog may become larger than what retention keeps."""
    retention = policies.get("retention_policies")
    quota = (policies.get("backlog_quota_map") or {}).get(QuotaKind.SIZE.value)
    if retention and quota and 0 < retention["retentionSizeInMB"] * MIB <= (quota.get("limitSize") or -1):
        raise refusal


_OVER_RETENTION = (
    "Backlog Quota exceeds configured retention quota for namespace. Please increase retention quota and retry"
)


def quota_kind(name: str) -> QuotaKind:
    """The kind of quota of this name. AdminRefusal."""
    try:
        return QuotaKind(name)
    except ValueError:
        raise bad_request(f"backlogQuotaType is one of {', '.join(kind.value for kind in QuotaKind)}") from None


def checked_quota(value: Any, what: str) -> JsonObject:
    """A backlog quota as it is stored."""
    fields = {"limitSize": 0, "limitTime": 0, "limit": 0, "policy": ""}
    found = known_fields(value, "a backlog quota", fields, _LONGS)
    if found["policy"] not in [policy.value for policy in QuotaPolicy]:
        raise bad_request(
            f"Set {what} backlog quota failed because the data validation failed. the attribute policy cannot be null"
        )
    size = found["limitSize"] or found["limit"]
    return {"limit": size, "limitSize": size, "limitTime": found["limitTime"], "policy": found["policy"]}


def checked_retention(value: Any) -> JsonObject | None:
    """Retention as it is stored; nothing unsets it."""
    if value is None:
        return None
    found = known_fields(value, "retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}, _LONGS)
    minutes, size = found["retentionTimeInMinutes"], found["retentionSizeInMB"]
    for what, limit in (("time", minutes), ("size", size)):
        if limit < -1:
            raise bad_request(f"Invalid retention policy: {what} limit must be >= -1")
    if (minutes == 0) != (size == 0):
        raise bad_request(
            "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of the limits has "
            "a non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable retention both "
            "limits must be set to 0."
        )
    return found


def checked_persistence(value: Any) -> JsonObject:
    """Quorums as they are stored."""
    fields: JsonObject = {
        "bookkeeperEnsemble": 2,
        "bookkeeperWriteQuorum": 2,
        "bookkeeperAckQuorum": 2,
        "managedLedgerMaxMarkDeleteRate": -1.0,
    }
    found = known_fields(value, "persistence", fields)
    ensemble, write, ack = (found[f"bookkeeper{name}"] for name in ("Ensemble", "WriteQuorum", "AckQuorum"))
    if not ensemble >= write >= ack > 0:
        raise bad_request(f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})")
    return found


def checked_ttl(value: Any) -> int | None:
    """Seconds until messages expire; nothing unsets it."""
    if value in (None, ""):
        return None
    seconds = number_of(value, "the message TTL", low=-MAX_INT - 1)
    if seconds < 0:
        raise precondition("Invalid value for message TTL, message TTL must >= 0")
    return seconds


def checked_strategy(value: Any) -> str:
    """A strategy of schemas by Pulsar's name; nothing is that of the broker."""
    if value in (None, ""):
        return UNDEFINED
    if value not in SCHEMA_STRATEGIES:
        raise bad_request(
            f"{value!r} is not a schema compatibility strategy: use one of {', '.join(SCHEMA_STRATEGIES)}"
        )
    return str(value)


def _fields(what: str, **defaults: Any) -> Check:
    return unless_null(partial(_record, what, defaults))


def _record(what: str, defaults: Mapping[str, Any], value: Any) -> JsonObject:
    return known_fields(value, what, defaults, _LONGS)


DISPATCH_RATE = _fields(
    "a dispatch rate",
    dispatchThrottlingRateInMsg=0,
    dispatchThrottlingRateInByte=0,
    relativeToPublishRate=False,
    ratePeriodInSecond=0,
)
PUBLISH_RATE = _fields("a publish rate", publishThrottlingRateInMsg=-1, publishThrottlingRateInByte=-1)
DELAYED_DELIVERY = _fields("delayed delivery", tickTime=0, active=False, maxDeliveryDelayInMillis=0)


def _limit(path: str, field: str) -> NamespacePolicy:
    return NamespacePolicy(path, field, number(path), required=True)


POLICIES: tuple[NamespacePolicy, ...] = (
    NamespacePolicy("retention", "retention_policies", checked_retention),
    NamespacePolicy("messageTTL", "message_ttl_in_seconds", lambda value: checked_ttl(value) or 0, required=True),
    NamespacePolicy("persistence", "persistence", checked_persistence),
    NamespacePolicy("deduplication", "deduplicationEnabled", boolean("deduplication"), required=True),
    NamespacePolicy(
        "deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", count("deduplicationSnapshotInterval")
    ),
    NamespacePolicy(
        "compactionThreshold",
        "compaction_threshold",
        number("compactionThreshold", most=MAX_LONG),
        setter="PUT",
        required=True,
    ),
    NamespacePolicy(
        "schemaCompatibilityStrategy",
        "schema_compatibility_strategy",
        checked_strategy,
        setter="PUT",
        removable=False,
        unset=UNDEFINED,
    ),
    NamespacePolicy(
        "schemaValidationEnforced",
        "schema_validation_enforced",
        boolean("schemaValidationEnforced"),
        removable=False,
        required=True,
        unset=False,
    ),
    NamespacePolicy(
        "isAllowAutoUpdateSchema",
        "is_allow_auto_update_schema",
        boolean("isAllowAutoUpdateSchema"),
        removable=False,
        required=True,
        unset=True,
    ),
    NamespacePolicy(
        "maxTopicsPerNamespace", "max_topics_per_namespace", number("maxTopicsPerNamespace"), unset=0, required=True
    ),
    _limit("maxProducersPerTopic", "max_producers_per_topic"),
    _limit("maxConsumersPerTopic", "max_consumers_per_topic"),
    _limit("maxConsumersPerSubscription", "max_consumers_per_subscription"),
    _limit("maxSubscriptionsPerTopic", "max_subscriptions_per_topic"),
    _limit("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer"),
    _limit("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription"),
    NamespacePolicy(
        "encryptionRequired",
        "encryption_required",
        boolean("encryptionRequired"),
        removable=False,
        unset=False,
        required=True,
    ),
    NamespacePolicy("delayedDelivery", "delayed_delivery_policies", DELAYED_DELIVERY),
    NamespacePolicy("publishRate", "publishMaxMessageRate", PUBLISH_RATE, per_cluster=True),
    NamespacePolicy(
        "dispatchRate", "topicDispatchRate", DISPATCH_RATE, per_cluster=True, also=("clusterDispatchRate",)
    ),
    NamespacePolicy("subscriptionDispatchRate", "subscriptionDispatchRate", DISPATCH_RATE, per_cluster=True),
    NamespacePolicy("autoTopicCreation", "autoTopicCreationOverride", checked_auto_topics),
    NamespacePolicy("autoSubscriptionCreation", "autoSubscriptionCreationOverride", checked_auto_subscriptions),
    NamespacePolicy("subscriptionTypesEnabled", "subscription_types_enabled", checked_types, unset=[]),
    NamespacePolicy("inactiveTopicPolicies", "inactive_topic_policies", checked_inactive_topics),
    NamespacePolicy("subscribeRate", "clusterSubscribeRate", checked_subscribe_rate, per_cluster=True),
)

NOT_FOLLOWED: tuple[str, ...] = (
    "allowedTopicPropertyKeysForMetrics",
    "clusterAntiAffinity",
    "dispatcherPauseOnAckStatePersistent",
    "entryFilters",
    "migration",
    "offloadDeletionLagMs",
    "offloadPolicies",
    "offloadThreshold",
    "offloadThresholdInSeconds",
    "removeOffloadPolicies",
    "replicatorDispatchRate",
    "resourcegroup",
    "schemaAutoUpdateCompatibilityStrategy",
    "subscriptionAuthMode",
    "subscriptionExpirationTime",
)
"""Pulsar's other policies: this broker would not follow them, so they are not set by it."""

Plan = Callable[[JsonObject], JsonObject]
