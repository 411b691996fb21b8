"""A broker's settings by the keys of Pulsar's broker.conf (docs/reference/configuration.md)."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from mledger.metastore.runtime.settings import Settings, boolean, integer, number
from mledger.process_memory import process_memory

_MAX_INT = 2**31 - 1
_MAX_LONG = 2**63 - 1
_MIB = 1 << 20
_GIB = 1 << 30

SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
PARTITIONED = "partitioned"
TOPIC_TYPES = ("non-partitioned", PARTITIONED)
INACTIVE_MODES = ("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up")
ENTRY_METADATA = (
    "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor",
    "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor",
)
_TRACKERS = "org.apache.pulsar.broker.delayed."
BUCKETS = f"{_TRACKERS}BucketDelayedDeliveryTrackerFactory"
IN_MEMORY = f"{_TRACKERS}InMemoryDelayedDeliveryTrackerFactory"
SCHEMA_STRATEGIES = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What broker.conf says about serving clients; 0 means no limit unless said otherwise.

    Names of times end in their unit. `delete_idle_topics` is None where it is not set: topics that nobody uses are
    deleted then as if it were true, except those that are stored.
    """

    cluster_name: str = "standalone"
    advertised_address: str = ""
    bind_address: str = ""
    port: int = 6650

    default_bundles: int = 4
    report_check_s: float = 5.0
    longest_report_s: float = 900.0
    report_threshold_percent: int = 10
    auto_topic_creation: bool = True
    auto_topic_creation_type: str = "non-partitioned"
    default_partitions: int = 1
    auto_subscription_creation: bool = True
    persistent_topics: bool = True
    nonpersistent_topics: bool = True
    grants_in_advance: bool = False
    delete_idle_topics: bool | None = None
    idle_mode: str = INACTIVE_MODES[0]
    idle_check_s: float = 60.0
    idle_limit_s: float = 0.0
    rates_interval_s: float = 60.0
    consumer_metrics: bool = False
    producer_metrics: bool = False
    topic_load_timeout_s: float = 60.0
    topic_loads_at_once: int = 5000

    keep_alive_s: float = 30.0
    liveness_check_s: float = 5.0
    max_connections: int = 0
    max_connections_per_host: int = 0
    evaluate_patterns: bool = True
    topic_watchers: bool = True
    longest_pattern: int = 50
    lookups_at_once: int = 50_000

    publish_buffer_bytes: int = 256 * _MIB
    pending_publishes_per_connection: int = 1000
    unstored_messages_per_connection: int = 1000
    encryption_required: bool = False

    entry_metadata: tuple[str, ...] = ()
    expose_entry_metadata: bool = False

    schema_strategy: str = "FULL"
    clients_add_schemas: bool = True
    schemas_required: bool = False

    shutdown_timeout_s: float = 60.0

    bundle_messages_per_s: int = 30_000
    bundle_bytes_per_s: int = 100 << 20
    bundle_rate_tolerance_percent: int = 10

    max_topics_per_namespace: int = 0
    max_producers_per_topic: int = 0
    max_producers_per_topic_and_host: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_topic_and_host: int = 0
    longest_consumer_metadata: int = 1024
    max_consumers_per_subscription: int = 0
    max_subscriptions_per_topic: int = 0
    subscription_types: tuple[str, ...] = SUBSCRIPTION_TYPES
    key_shared_subscriptions: bool = True
    replicated_subscriptions: bool = True

    unacked_messages_per_consumer: int = 50_000
    unacked_messages_per_subscription: int = 200_000
    unacked_messages_per_broker: int = 0
    unacked_share_on_broker_blocked: float = 0.16

    read_batch_size: int = 100
    min_read_batch_size: int = 1
    read_bytes: int = 5 * _MIB
    read_ahead_bytes: int = 256 * _MIB
    round_robin_batch_size: int = 20
    failover_delay_s: float = 1.0
    failover_consistent_hashing: bool = False
    read_failure_pause_s: float = 15.0
    longest_read_failure_pause_s: float = 60.0
    consistent_hashing: bool = True
    consistent_hashing_points: int = 100
    look_ahead_per_consumer: int = 2_000
    look_ahead_per_subscription: int = 20_000
    delayed_delivery: bool = True
    delayed_delivery_tick_s: float = 1.0
    longest_delay_ms: int = 0
    delayed_tracker: str = BUCKETS
    delayed_bucket_indexes: int = 50_000
    delayed_segment_s: float = 300.0
    delayed_segment_indexes: int = 5_000
    delayed_buckets: int = -1

    deduplication: bool = False
    deduplication_producers: int = 10_000
    deduplication_entries_interval: int = 1000
    deduplication_snapshot_interval_s: float = 120.0
    deduplication_inactivity_s: float = 360 * 60.0

    ttl_s: float = 0.0
    expiry_check_s: float = 300.0
    without_expiry: tuple[str, ...] = ()  # subscriptions that keep their messages
    backlog_quota_check: bool = True
    backlog_quota_check_s: float = 60.0
    backlog_quota_bytes: int = -1
    backlog_quota_s: float = -1.0
    backlog_quota_policy: str = "producer_request_hold"
    precise_backlog_age: bool = False
    backlog_scan_entries: int = 10_000
    backlog_scan_s: float = 120.0
    compaction_check_s: float = 60.0
    compaction_threshold_bytes: int = 0
    compaction_keeps_keyless: bool = False
    delayed_delivery_strict: bool = False
    fixed_delay_lookahead: int = 50_000

    broker_publish_messages_per_s: int = 0
    broker_publish_bytes_per_s: int = 0
    publish_messages_per_s: int = 0
    publish_bytes_per_s: int = 0
    dispatch_messages_per_s: int = 0
    dispatch_bytes_per_s: int = 0
    dispatch_messages_per_s_and_topic: int = 0
    dispatch_bytes_per_s_and_topic: int = 0
    dispatch_messages_per_s_and_subscription: int = 0
    dispatch_bytes_per_s_and_subscription: int = 0
    subscribes_per_consumer: int = 0
    subscribe_period_s: int = 30
    throttle_without_backlog: bool = True
    throttle_entries: bool = False


class _BrokerKey(NamedTuple):
    """A key of broker.conf and the field it sets; a number is multiplied by `factor`."""

    key: str
    field: str
    factor: int = 1
    low: int = 0


KEYS = (
    _BrokerKey("clusterName", "cluster_name"),
    _BrokerKey("advertisedAddress", "advertised_address"),
    _BrokerKey("bindAddress", "bind_address"),
    _BrokerKey("brokerServicePort", "port"),
    _BrokerKey("defaultNumberOfNamespaceBundles", "default_bundles", low=1),
    _BrokerKey("loadBalancerReportUpdateMinIntervalMillis", "report_check_s", low=1),
    _BrokerKey("loadBalancerReportUpdateMaxIntervalMinutes", "longest_report_s", 60, 1),
    _BrokerKey("loadBalancerReportUpdateThresholdPercentage", "report_threshold_percent"),
    _BrokerKey("loadBalancerNamespaceBundleMaxMsgRate", "bundle_messages_per_s"),
    _BrokerKey("loadBalancerNamespaceBundleMaxBandwidthMbytes", "bundle_bytes_per_s", _MIB),
    _BrokerKey("flowOrQpsDifferenceThresholdPercentage", "bundle_rate_tolerance_percent"),
    _BrokerKey("allowAutoTopicCreation", "auto_topic_creation"),
    _BrokerKey("allowAutoTopicCreationType", "auto_topic_creation_type"),
    _BrokerKey("defaultNumPartitions", "default_partitions", low=1),
    _BrokerKey("allowAutoSubscriptionCreation", "auto_subscription_creation"),
    _BrokerKey("enablePersistentTopics", "persistent_topics"),
    _BrokerKey("enableNonPersistentTopics", "nonpersistent_topics"),
    _BrokerKey("allowAclChangesOnNonExistentTopics", "grants_in_advance"),
    _BrokerKey("brokerDeleteInactiveTopicsEnabled", "delete_idle_topics"),
    _BrokerKey("brokerDeleteInactiveTopicsMode", "idle_mode"),
    _BrokerKey("brokerDeleteInactiveTopicsFrequencySeconds", "idle_check_s", low=1),
    _BrokerKey("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", "idle_limit_s"),
    _BrokerKey("statsUpdateFrequencyInSecs", "rates_interval_s", low=1),
    _BrokerKey("exposeConsumerLevelMetricsInPrometheus", "consumer_metrics"),
    _BrokerKey("exposeProducerLevelMetricsInPrometheus", "producer_metrics"),
    _BrokerKey("topicLoadTimeoutSeconds", "topic_load_timeout_s", low=1),
    _BrokerKey("maxConcurrentTopicLoadRequest", "topic_loads_at_once", low=1),
    _BrokerKey("keepAliveIntervalSeconds", "keep_alive_s"),
    _BrokerKey("connectionLivenessCheckTimeoutMillis", "liveness_check_s"),
    _BrokerKey("brokerMaxConnections", "max_connections"),
    _BrokerKey("brokerMaxConnectionsPerIp", "max_connections_per_host"),
    _BrokerKey("enableBrokerSideSubscriptionPatternEvaluation", "evaluate_patterns"),
    _BrokerKey("enableBrokerTopicListWatcher", "topic_watchers"),
    _BrokerKey("subscriptionPatternMaxLength", "longest_pattern"),
    _BrokerKey("maxConcurrentLookupRequest", "lookups_at_once"),
    _BrokerKey("maxMessagePublishBufferSizeInMB", "publish_buffer_bytes", _MIB, -1),
    _BrokerKey("maxPendingPublishRequestsPerConnection", "pending_publishes_per_connection"),
    _BrokerKey("maxConcurrentNonPersistentMessagePerConnection", "unstored_messages_per_connection"),
    _BrokerKey("encryptionRequireOnProducer", "encryption_required"),
    _BrokerKey("brokerEntryMetadataInterceptors", "entry_metadata"),
    _BrokerKey("exposingBrokerEntryMetadataToClientEnabled", "expose_entry_metadata"),
    _BrokerKey("schemaCompatibilityStrategy", "schema_strategy"),
    _BrokerKey("isAllowAutoUpdateSchemaEnabled", "clients_add_schemas"),
    _BrokerKey("isSchemaValidationEnforced", "schemas_required"),
    _BrokerKey("brokerShutdownTimeoutMs", "shutdown_timeout_s", low=1),
    _BrokerKey("maxTopicsPerNamespace", "max_topics_per_namespace"),
    _BrokerKey("maxProducersPerTopic", "max_producers_per_topic"),
    _BrokerKey("maxSameAddressProducersPerTopic", "max_producers_per_topic_and_host"),
    _BrokerKey("maxConsumersPerTopic", "max_consumers_per_topic"),
    _BrokerKey("maxSameAddressConsumersPerTopic", "max_consumers_per_topic_and_host"),
    _BrokerKey("maxConsumerMetadataSize", "longest_consumer_metadata"),
    _BrokerKey("maxConsumersPerSubscription", "max_consumers_per_subscription"),
    _BrokerKey("maxSubscriptionsPerTopic", "max_subscriptions_per_topic"),
    _BrokerKey("subscriptionTypesEnabled", "subscription_types"),
    _BrokerKey("subscriptionKeySharedEnable", "key_shared_subscriptions"),
    _BrokerKey("enableReplicatedSubscriptions", "replicated_subscriptions"),
    _BrokerKey("maxUnackedMessagesPerConsumer", "unacked_messages_per_consumer"),
    _BrokerKey("maxUnackedMessagesPerSubscription", "unacked_messages_per_subscription"),
    _BrokerKey("maxUnackedMessagesPerBroker", "unacked_messages_per_broker"),
    _BrokerKey("maxUnackedMessagesPerSubscriptionOnBrokerBlocked", "unacked_share_on_broker_blocked"),
    _BrokerKey("dispatcherMaxReadBatchSize", "read_batch_size", low=1),
    _BrokerKey("dispatcherMinReadBatchSize", "min_read_batch_size", low=1),
    _BrokerKey("dispatcherMaxReadSizeBytes", "read_bytes", low=1),
    _BrokerKey("managedLedgerMaxReadsInFlightSizeInMB", "read_ahead_bytes", _MIB),
    _BrokerKey("dispatcherMaxRoundRobinBatchSize", "round_robin_batch_size", low=1),
    _BrokerKey("activeConsumerFailoverDelayTimeMillis", "failover_delay_s"),
    _BrokerKey("activeConsumerFailoverConsistentHashing", "failover_consistent_hashing"),
    _BrokerKey("dispatcherReadFailureBackoffInitialTimeInMs", "read_failure_pause_s"),
    _BrokerKey("dispatcherReadFailureBackoffMaxTimeInMs", "longest_read_failure_pause_s"),
    _BrokerKey("subscriptionKeySharedUseConsistentHashing", "consistent_hashing"),
    _BrokerKey("subscriptionKeySharedConsistentHashingReplicaPoints", "consistent_hashing_points", low=1),
    _BrokerKey("keySharedLookAheadMsgInReplayThresholdPerConsumer", "look_ahead_per_consumer"),
    _BrokerKey("keySharedLookAheadMsgInReplayThresholdPerSubscription", "look_ahead_per_subscription"),
    _BrokerKey("delayedDeliveryEnabled", "delayed_delivery"),
    _BrokerKey("delayedDeliveryTickTimeMillis", "delayed_delivery_tick_s", low=1),
    _BrokerKey("delayedDeliveryMaxDelayInMillis", "longest_delay_ms"),
    _BrokerKey("delayedDeliveryTrackerFactoryClassName", "delayed_tracker"),
    _BrokerKey("delayedDeliveryMinIndexCountPerBucket", "delayed_bucket_indexes", low=1),
    _BrokerKey("delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds", "delayed_segment_s", low=1),
    _BrokerKey("delayedDeliveryMaxIndexesPerBucketSnapshotSegment", "delayed_segment_indexes", low=-1),
    _BrokerKey("delayedDeliveryMaxNumBuckets", "delayed_buckets", low=-1),
    _BrokerKey("brokerDeduplicationEnabled", "deduplication"),
    _BrokerKey("brokerDeduplicationMaxNumberOfProducers", "deduplication_producers", low=1),
    _BrokerKey("brokerDeduplicationEntriesInterval", "deduplication_entries_interval", low=1),
    _BrokerKey("brokerDeduplicationSnapshotIntervalSeconds", "deduplication_snapshot_interval_s"),
    _BrokerKey("brokerDeduplicationProducerInactivityTimeoutMinutes", "deduplication_inactivity_s", 60),
    _BrokerKey("ttlDurationDefaultInSeconds", "ttl_s"),
    _BrokerKey("additionalSystemCursorNames", "without_expiry"),
    _BrokerKey("messageExpiryCheckIntervalInMinutes", "expiry_check_s", 60, 1),
    _BrokerKey("backlogQuotaCheckEnabled", "backlog_quota_check"),
    _BrokerKey("backlogQuotaCheckIntervalInSeconds", "backlog_quota_check_s", low=1),
    _BrokerKey("backlogQuotaDefaultLimitBytes", "backlog_quota_bytes", low=-1),
    _BrokerKey("backlogQuotaDefaultLimitSecond", "backlog_quota_s", low=-1),
    _BrokerKey("backlogQuotaDefaultRetentionPolicy", "backlog_quota_policy"),
    _BrokerKey("preciseTimeBasedBacklogQuotaCheck", "precise_backlog_age"),
    _BrokerKey("subscriptionBacklogScanMaxEntries", "backlog_scan_entries"),
    _BrokerKey("subscriptionBacklogScanMaxTimeMs", "backlog_scan_s"),
    _BrokerKey("brokerServiceCompactionMonitorIntervalInSeconds", "compaction_check_s", low=1),
    _BrokerKey("brokerServiceCompactionThresholdInBytes", "compaction_threshold_bytes"),
    _BrokerKey("topicCompactionRetainNullKey", "compaction_keeps_keyless"),
    _BrokerKey("isDelayedDeliveryDeliverAtTimeStrict", "delayed_delivery_strict"),
    _BrokerKey("delayedDeliveryFixedDelayDetectionLookahead", "fixed_delay_lookahead"),
    _BrokerKey("brokerPublisherThrottlingMaxMessageRate", "broker_publish_messages_per_s", low=-1),
    _BrokerKey("brokerPublisherThrottlingMaxByteRate", "broker_publish_bytes_per_s", low=-1),
    _BrokerKey("maxPublishRatePerTopicInMessages", "publish_messages_per_s", low=-1),
    _BrokerKey("maxPublishRatePerTopicInBytes", "publish_bytes_per_s", low=-1),
    _BrokerKey("dispatchThrottlingRateInMsg", "dispatch_messages_per_s", low=-1),
    _BrokerKey("dispatchThrottlingRateInByte", "dispatch_bytes_per_s", low=-1),
    _BrokerKey("dispatchThrottlingRatePerTopicInMsg", "dispatch_messages_per_s_and_topic", low=-1),
    _BrokerKey("dispatchThrottlingRatePerTopicInByte", "dispatch_bytes_per_s_and_topic", low=-1),
    _BrokerKey("dispatchThrottlingRatePerSubscriptionInMsg", "dispatch_messages_per_s_and_subscription", low=-1),
    _BrokerKey("dispatchThrottlingRatePerSubscriptionInByte", "dispatch_bytes_per_s_and_subscription", low=-1),
    _BrokerKey("subscribeThrottlingRatePerConsumer", "subscribes_per_consumer", low=-1),
    _BrokerKey("subscribeRatePeriodPerConsumerInSecond", "subscribe_period_s", low=1),
    _BrokerKey("dispatchThrottlingOnNonBacklogConsumerEnabled", "throttle_without_backlog"),
    _BrokerKey("dispatchThrottlingOnBatchMessageEnabled", "throttle_entries"),
)

MILLISECONDS = ("IntervalMillis", "TimeMillis", "TimeInMs", "TimeMs", "TimeoutMs", "TimeoutMillis")
"""How keys of times in milliseconds end; their fields are in seconds."""
_BUFFERS = ("publish_buffer_bytes", "read_ahead_bytes")
_CHOICES = {
    "auto_topic_creation_type": TOPIC_TYPES,
    "schema_strategy": SCHEMA_STRATEGIES,
    "delayed_tracker": (BUCKETS, IN_MEMORY),
    "idle_mode": INACTIVE_MODES,
}


def broker_settings(settings: Settings) -> BrokerSettings:
    """The broker's part of `settings`; takes its keys. InvalidSetting names the place, key and valid values."""
    defaults = {item.name: item.default for item in fields(BrokerSettings)}
    defaults |= plan_buffers(process_memory())
    values: dict[str, Any] = {each.field: _value(settings, each, defaults[each.field]) for each in KEYS}
    if (gibibytes := settings.take("backlogQuotaDefaultLimitGB", number(-1, _MAX_INT), -1.0)) > 0:
        values["backlog_quota_bytes"] = round(gibibytes * _GIB)
    if values["publish_buffer_bytes"] < 0:
        values["publish_buffer_bytes"] = defaults["publish_buffer_bytes"]
    return BrokerSettings(**values)


def plan_buffers(memory: int) -> dict[str, int]:
    """The default sizes of buffers in bytes, by their fields: an eighth of the memory each, where it is little."""
    return {name: min(getattr(BrokerSettings(), name), max(1, memory // 8 // _MIB) * _MIB) for name in _BUFFERS}


def _value(settings: Settings, key: _BrokerKey, default: Any) -> Any:
    if key.field in _CHOICES:
        return settings.take(key.key, lambda text: _choice(text, _CHOICES[key.field]), default)
    if isinstance(default, tuple):
        return settings.take(key.key, _LISTS[key.field], default)
    if isinstance(default, bool) or key.field == "delete_idle_topics":
        return settings.take(key.key, boolean, default)
    if isinstance(default, str):
        return settings.take(key.key, str, default)
    if key.field == "unacked_share_on_broker_blocked":
        return settings.take(key.key, number(0, 1), default)
    if key.key.endswith(MILLISECONDS):
        return settings.take(key.key, integer(key.low, _MAX_INT), round(default * 1000)) / 1000
    found = settings.take(key.key, integer(key.low, _MAX_LONG), None)
    if found is None:
        return default
    return type(default)(found * key.factor)


def _choice(text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ValueError(f"one of {', '.join(choices)} is needed")
    return text


def _of(choices: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """Reads a list of these."""

    def read(text: str) -> tuple[str, ...]:
        return tuple(_choice(each.strip(), choices) for each in text.split(",") if each.strip())

    return read


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for each in text.split(",") if (name := each.strip()))


_LISTS = {
    "subscription_types": _of(SUBSCRIPTION_TYPES),
    "entry_metadata": _of(ENTRY_METADATA),
    "without_expiry": _names,
}
