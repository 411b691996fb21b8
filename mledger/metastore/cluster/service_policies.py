"""The parts of Pulsar's policies that concern a broker's service: expiry, quotas, limits, rates, delivery.

A namespace's policies are JSON, a topic's are Avro; the names of their fields differ. A value of
another type than Pulsar's counts as not set, so that it does not hide the others. So does a number of more bits.
Where it decides what expires, is evicted or is deleted, nothing is: the broker's own setting may keep less.
"""

import enum
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

Found = Mapping[str, Any]
_LONGS = 1 << 63
MOST_RATE = (1 << 31) - 1
"""Of writes of a cursor's state, in a second. Pulsar takes any number; a larger one limits nothing either."""


class QuotaKind(enum.Enum):
    """What a backlog quota limits, by Pulsar's names."""

    SIZE = "destination_storage"
    AGE = "message_age"


class QuotaPolicy(enum.Enum):
    """What happens when a backlog quota is exceeded, by Pulsar's names."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


class BacklogQuota(Struct, frozen=True):
    """Limits of a backlog in bytes and in seconds, -1 for none, and what happens above them."""

    limit_bytes: int = -1
    limit_s: int = -1
    policy: QuotaPolicy = QuotaPolicy.PRODUCER_REQUEST_HOLD


class ThrottleRate(Struct, frozen=True):
    """At most so many messages and bytes in a period; -1, or a number below 1, is no limit."""

    messages: int = -1
    bytes: int = -1
    period_s: int = 1
    relative_to_publish: bool = False


class AutoTopicCreation(Struct, frozen=True):
    """Whether clients create topics by using them, and with how many partitions; 0: not partitioned."""

    allowed: bool
    partitions: int = 0


class InactiveTopics(Struct, frozen=True):
    """Whether a topic without use is deleted, in which mode (Pulsar's name), and after how many seconds."""

    delete: bool
    mode: str
    after_s: int


class ServicePolicies(Struct, frozen=True):
    """The policies of a namespace or a topic; None where it has none of its own. Times end in their unit."""

    message_ttl_s: int | None = None
    size_quota: BacklogQuota | None = None
    age_quota: BacklogQuota | None = None
    deduplication: bool | None = None
    deduplication_snapshot_s: int | None = None
    max_topics: int | None = None
    max_producers: int | None = None
    max_consumers: int | None = None
    max_consumers_per_subscription: int | None = None
    max_subscriptions: int | None = None
    max_unacked_per_consumer: int | None = None
    max_unacked_per_subscription: int | None = None
    max_message_size: int | None = None
    delayed_delivery: bool | None = None
    delayed_delivery_tick_ms: int | None = None
    delayed_delivery_max_ms: int | None = None
    dispatch_rate: ThrottleRate | None = None
    subscription_dispatch_rate: ThrottleRate | None = None
    dispatch_rate_by_subscription: tuple[tuple[str, ThrottleRate], ...] | None = None
    publish_rate: ThrottleRate | None = None
    subscribe_rate: ThrottleRate | None = None
    mark_delete_rate: float | None = None
    compaction_threshold: int | None = None
    inactive_topics: InactiveTopics | None = None
    subscription_expiration_minutes: int | None = None
    subscription_types: tuple[str, ...] | None = None
    auto_topic_creation: AutoTopicCreation | None = None
    auto_subscription_creation: bool | None = None
    schema_compatibility: str | None = None
    schema_validation_enforced: bool | None = None
    encryption_required: bool | None = None


NO_SERVICE_POLICIES = ServicePolicies()

_PLAIN: tuple[tuple[str, str | None, str | None, type], ...] = (
    ("message_ttl_s", "message_ttl_in_seconds", "messageTTLInSeconds", int),
    ("deduplication", "deduplicationEnabled", "deduplicationEnabled", bool),
    ("deduplication_snapshot_s", "deduplicationSnapshotIntervalSeconds", "deduplicationSnapshotIntervalSeconds", int),
    ("max_topics", "max_topics_per_namespace", None, int),
    ("max_producers", "max_producers_per_topic", "maxProducerPerTopic", int),
    ("max_consumers", "max_consumers_per_topic", "maxConsumerPerTopic", int),
    ("max_consumers_per_subscription", "max_consumers_per_subscription", "maxConsumersPerSubscription", int),
    ("max_subscriptions", "max_subscriptions_per_topic", "maxSubscriptionsPerTopic", int),
    ("max_unacked_per_consumer", "max_unacked_messages_per_consumer", "maxUnackedMessagesOnConsumer", int),
    ("max_unacked_per_subscription", "max_unacked_messages_per_subscription", "maxUnackedMessagesOnSubscription", int),
    ("max_message_size", None, "maxMessageSize", int),
    ("delayed_delivery", None, "delayedDeliveryEnabled", bool),
    ("delayed_delivery_tick_ms", None, "delayedDeliveryTickTimeMillis", int),
    ("delayed_delivery_max_ms", None, "delayedDeliveryMaxDelayInMillis", int),
    ("compaction_threshold", "compaction_threshold", "compactionThreshold", int),
    (
        "subscription_expiration_minutes",
        "subscription_expiration_time_minutes",
        "subscriptionExpirationTimeInMinutes",
        int,
    ),
    ("schema_validation_enforced", "schema_validation_enforced", "schemaValidationEnforced", bool),
    ("encryption_required", "encryption_required", None, bool),
)
"""Each plain field, its names in a namespace's and in a topic's policies, and its type."""


def merged(*levels: ServicePolicies) -> ServicePolicies:
    """The policies in force: of each field and subscription's rate the first that a level sets, nearest first."""
    none = NO_SERVICE_POLICIES
    setting = [level for level in levels if level is not none and level != none]  # most are the same object
    if len(setting) < 2:
        return setting[0] if setting else NO_SERVICE_POLICIES
    chosen: dict[str, Any] = {}
    for name in ServicePolicies.__struct_fields__:
        values = (getattr(level, name) for level in setting)
        chosen[name] = next((value for value in values if value is not None), None)
    rates = [level.dispatch_rate_by_subscription for level in reversed(setting)]
    chosen["dispatch_rate_by_subscription"] = _by_subscription(
        {name: rate for each in rates for name, rate in each or ()}
    )
    return ServicePolicies(**chosen)


def namespace_service_policies(found: Found, cluster: str = "") -> ServicePolicies:
    """The policies in a namespace's JSON; rates are those of `cluster`, or of the only one that has some."""
    delayed = _record(found.get("delayed_delivery_policies"))
    values = {field: _of_type(found.get(key), kind) for field, key, _, kind in _PLAIN if key is not None}
    return ServicePolicies(
        **values
        | _common(found, "backlog_quota_map", "schema_compatibility_strategy", "subscription_types_enabled")
        | {
            "message_ttl_s": _ttl_s(found.get("message_ttl_in_seconds")),
            "delayed_delivery": _of_type(delayed.get("active"), bool),
            "delayed_delivery_tick_ms": _of_type(delayed.get("tickTime"), int),
            "delayed_delivery_max_ms": _of_type(delayed.get("maxDeliveryDelayInMillis"), int),
            "dispatch_rate": _dispatch_rate(_of_cluster(found.get("topicDispatchRate"), cluster)),
            "subscription_dispatch_rate": _dispatch_rate(_of_cluster(found.get("subscriptionDispatchRate"), cluster)),
            "publish_rate": _publish_rate(_of_cluster(found.get("publishMaxMessageRate"), cluster)),
            "subscribe_rate": _subscribe_rate(_of_cluster(found.get("clusterSubscribeRate"), cluster)),
            "inactive_topics": _inactive(found.get("inactive_topic_policies")),
            "auto_topic_creation": _auto_topics(found.get("autoTopicCreationOverride")),
        }
    )


def topic_service_policies(found: Found) -> ServicePolicies:
    """The policies in the Avro record of a topic."""
    values = {field: _of_type(found.get(key), kind) for field, _, key, kind in _PLAIN if key is not None}
    return ServicePolicies(
        **values
        | _common(found, "backLogQuotaMap", "schemaCompatibilityStrategy", "subscriptionTypesEnabled")
        | {
            "dispatch_rate": _dispatch_rate(found.get("dispatchRate")),
            "subscription_dispatch_rate": _dispatch_rate(found.get("subscriptionDispatchRate")),
            "dispatch_rate_by_subscription": _subscription_rates(found.get("subscriptionPolicies")),
            "publish_rate": _publish_rate(found.get("publishRate")),
            "subscribe_rate": _subscribe_rate(found.get("subscribeRate")),
            "inactive_topics": _inactive(found.get("inactiveTopicPolicies")),
        }
    )


def _common(found: Found, quotas: str, compatibility: str, types: str) -> dict[str, Any]:
    """What both forms have in the same shape, under these names."""
    of_kind = _record(found.get(quotas))
    strategy = _of_type(found.get(compatibility), str)
    given = found.get(types)
    names = tuple(each for each in given if isinstance(each, str)) if isinstance(given, list) else ()
    auto = _record(found.get("autoSubscriptionCreationOverride"))
    rate = _record(found.get("persistence")).get("managedLedgerMaxMarkDeleteRate")
    return {
        "size_quota": _quota(of_kind.get(QuotaKind.SIZE.value)),
        "age_quota": _quota(of_kind.get(QuotaKind.AGE.value)),
        "schema_compatibility": None if strategy == "UNDEFINED" else strategy,
        "subscription_types": names or None,
        "auto_subscription_creation": _of_type(auto.get("allowAutoSubscriptionCreation"), bool),
        "mark_delete_rate": _rate(rate),
    }


def _rate(value: Any) -> float | None:
    return float(min(value, MOST_RATE)) if isinstance(value, int | float) and value >= 0 else None


def _of_type(value: Any, kind: type) -> Any:
    is_larger = isinstance(value, int) and not -_LONGS <= value < _LONGS
    return value if type(value) is kind and not is_larger else None


def _record(value: Any) -> Found:
    return value if isinstance(value, Mapping) else {}


def _of_cluster(value: Any, cluster: str) -> Any:
    by_cluster = _record(value)
    if cluster in by_cluster or len(by_cluster) != 1:
        return by_cluster.get(cluster)
    return next(iter(by_cluster.values()))


def _number(found: Found, key: str, default: int) -> int:
    value = _of_type(found.get(key), int)
    return default if value is None else int(value)


def _ttl_s(value: Any) -> int | None:
    return None if value is None else _of_type(value, int) or 0


def _quota(value: Any) -> BacklogQuota | None:
    found = _record(value)
    if not found:
        return None if value is None or found is value else BacklogQuota()
    try:
        policy = QuotaPolicy(found.get("policy") or QuotaPolicy.PRODUCER_REQUEST_HOLD.value)
    except ValueError:
        return BacklogQuota()
    # brokers before 2.9 wrote `limit`, later ones write both
    size = _number(found, "limitSize", _number(found, "limit", -1))
    return BacklogQuota(size, _number(found, "limitTime", -1), policy)


def _dispatch_rate(value: Any) -> ThrottleRate | None:
    found = _record(value)
    if not found:
        return None
    return ThrottleRate(
        _number(found, "dispatchThrottlingRateInMsg", -1),
        _number(found, "dispatchThrottlingRateInByte", -1),
        _number(found, "ratePeriodInSecond", 1),
        bool(found.get("relativeToPublishRate")),
    )


def _subscription_rates(value: Any) -> tuple[tuple[str, ThrottleRate], ...] | None:
    """The rates of single subscriptions, by their names."""
    found = ((name, _dispatch_rate(_record(each).get("dispatchRate"))) for name, each in _record(value).items())
    return _by_subscription({str(name): rate for name, rate in found if rate is not None})


def _by_subscription(rates: Mapping[str, ThrottleRate]) -> tuple[tuple[str, ThrottleRate], ...] | None:
    return tuple(sorted(rates.items(), key=lambda each: each[0])) or None


def _publish_rate(value: Any) -> ThrottleRate | None:
    found = _record(value)
    if not found:
        return None
    return ThrottleRate(
        _number(found, "publishThrottlingRateInMsg", -1), _number(found, "publishThrottlingRateInByte", -1)
    )


def _subscribe_rate(value: Any) -> ThrottleRate | None:
    found = _record(value)
    if not found:
        return None
    period_s = _number(found, "ratePeriodInSecond", 30)
    return ThrottleRate(_number(found, "subscribeThrottlingRatePerConsumer", -1), period_s=period_s)


def _auto_topics(value: Any) -> AutoTopicCreation | None:
    found = _record(value)
    if not found:
        return None
    partitioned = found.get("topicType") == "partitioned"
    partitions = max(1, _number(found, "defaultNumPartitions", 1)) if partitioned else 0
    return AutoTopicCreation(bool(found.get("allowAutoTopicCreation")), partitions)


def _inactive(value: Any) -> InactiveTopics | None:
    found = _record(value)
    if not found and (value is None or found is value):
        return None
    after_s = _of_type(found.get("maxInactiveDurationSeconds", 0), int)
    return InactiveTopics(
        found.get("deleteWhileInactive") is True and after_s is not None,
        _of_type(found.get("inactiveTopicDeleteMode"), str) or "delete_when_no_subscriptions",
        after_s or 0,
    )
