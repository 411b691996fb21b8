"""The Avro schema of Pulsar's policy events, `PulsarEvent` of version 4.2, as its brokers register it. No I/O.

A broker that writes the first event of a namespace registers it; later ones write with the version that is there.
"""

import json
from typing import Any

Json = dict[str, Any]

_DATA = "org.apache.pulsar.common.policies.data"
_IMPLEMENTATIONS = f"{_DATA}.impl"
_SUBSCRIBE = "org.apache.pulsar.common.api.proto.CommandSubscribe"
_RATE = f"{_IMPLEMENTATIONS}.DispatchRateImpl"
_OFFLOAD_FIELDS = (
    ("fileSystemProfilePath", "string"),
    ("fileSystemURI", "string"),
    ("gcsManagedLedgerOffloadBucket", "string"),
    ("gcsManagedLedgerOffloadMaxBlockSizeInBytes", "int"),
    ("gcsManagedLedgerOffloadReadBufferSizeInBytes", "int"),
    ("gcsManagedLedgerOffloadRegion", "string"),
    ("gcsManagedLedgerOffloadServiceAccountKeyFile", "string"),
    ("managedLedgerExtraConfigurations", {"type": "map", "values": "string"}),
    ("managedLedgerOffloadBucket", "string"),
    ("managedLedgerOffloadDeletionLagInMillis", "long"),
    ("managedLedgerOffloadDriver", "string"),
    ("managedLedgerOffloadMaxBlockSizeInBytes", "int"),
    ("managedLedgerOffloadMaxThreads", "int"),
    ("managedLedgerOffloadPrefetchRounds", "int"),
    ("managedLedgerOffloadReadBufferSizeInBytes", "int"),
    ("managedLedgerOffloadReadThreads", "int"),
    ("managedLedgerOffloadRegion", "string"),
    ("managedLedgerOffloadServiceEndpoint", "string"),
    ("managedLedgerOffloadThresholdInBytes", "long"),
    ("managedLedgerOffloadThresholdInSeconds", "long"),
    (
        "managedLedgerOffloadedReadPriority",
        {"type": "enum", "name": "OffloadedReadPriority", "symbols": ["BOOKKEEPER_FIRST", "TIERED_STORAGE_FIRST"]},
    ),
    ("offloadersDirectory", "string"),
    ("s3ManagedLedgerOffloadBucket", "string"),
    ("s3ManagedLedgerOffloadCredentialId", "string"),
    ("s3ManagedLedgerOffloadCredentialSecret", "string"),
    ("s3ManagedLedgerOffloadMaxBlockSizeInBytes", "int"),
    ("s3ManagedLedgerOffloadReadBufferSizeInBytes", "int"),
    ("s3ManagedLedgerOffloadRegion", "string"),
    ("s3ManagedLedgerOffloadRole", "string"),
    ("s3ManagedLedgerOffloadRoleSessionName", "string"),
    ("s3ManagedLedgerOffloadServiceEndpoint", "string"),
)


def _record(name: str, fields: list[Json], namespace: str | None = None) -> Json:
    named = {"type": "record", "name": name}
    return named | ({"namespace": namespace} if namespace else {}) | {"fields": fields}


def _enum(name: str, symbols: str, namespace: str | None = None) -> Json:
    named = {"type": "enum", "name": name}
    return named | ({"namespace": namespace} if namespace else {}) | {"symbols": symbols.split()}


def _field(name: str, kind: Any) -> Json:
    """A field that always has a value."""
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> Json:
    """A field that may be null."""
    return {"name": name, "type": ["null", kind], "default": None}


def _array(items: Any, java: str) -> Json:
    return {"type": "array", "items": items, "java-class": f"java.util.{java}"}


def _quota() -> Json:
    actions = "producer_request_hold producer_exception consumer_backlog_eviction"
    policy = _enum("RetentionPolicy", actions, f"{_DATA}.BacklogQuota")
    fields = [_field("limit", "long"), _optional("limitSize", "long"), _field("limitTime", "int")]
    return _record("BacklogQuotaImpl", [*fields, _optional("policy", policy)], _IMPLEMENTATIONS)


def _dispatch_rate() -> Json:
    fields = [
        _field("dispatchThrottlingRateInByte", "long"),
        _field("dispatchThrottlingRateInMsg", "int"),
        _field("ratePeriodInSecond", "int"),
        _field("relativeToPublishRate", "boolean"),
    ]
    return _record("DispatchRateImpl", fields, _IMPLEMENTATIONS)


def _inactive_topics() -> Json:
    modes = _enum("InactiveTopicDeleteMode", "delete_when_no_subscriptions delete_when_subscriptions_caught_up")
    fields = [_field("deleteWhileInactive", "boolean"), _optional("inactiveTopicDeleteMode", modes)]
    return _record("InactiveTopicPolicies", [*fields, _field("maxInactiveDurationSeconds", "int")])


def _persistence() -> Json:
    sizes = [_field(f"bookkeeper{name}", "int") for name in ("AckQuorum", "Ensemble", "WriteQuorum")]
    rate = _field("managedLedgerMaxMarkDeleteRate", "double")
    return _record("PersistencePolicies", [*sizes, rate, _optional("managedLedgerStorageClassName", "string")])


def _strategy() -> Json:
    names = "UNDEFINED ALWAYS_INCOMPATIBLE ALWAYS_COMPATIBLE BACKWARD FORWARD FULL"
    return _enum("SchemaCompatibilityStrategy", f"{names} BACKWARD_TRANSITIVE FORWARD_TRANSITIVE FULL_TRANSITIVE")


def _policies() -> Json:
    """The policies of a topic, in the order of their names, which is that of their bytes."""
    created = _record(
        "AutoSubscriptionCreationOverrideImpl", [_field("allowAutoSubscriptionCreation", "boolean")], _IMPLEMENTATIONS
    )
    offload = [_optional(name, kind) for name, kind in _OFFLOAD_FIELDS]
    publish = [_field("publishThrottlingRateInByte", "long"), _field("publishThrottlingRateInMsg", "int")]
    retention = [_field("retentionSizeInMB", "long"), _field("retentionTimeInMinutes", "int")]
    subscribe = [_field("ratePeriodInSecond", "int"), _field("subscribeThrottlingRatePerConsumer", "int")]
    types = _enum("SubType", "Exclusive Shared Failover Key_Shared", _SUBSCRIBE)
    fields = [
        ("autoSubscriptionCreationOverride", created),
        ("backLogQuotaMap", {"type": "map", "values": _quota()}),
        ("compactionThreshold", "long"),
        ("deduplicationEnabled", "boolean"),
        ("deduplicationSnapshotIntervalSeconds", "int"),
        ("delayedDeliveryEnabled", "boolean"),
        ("delayedDeliveryMaxDelayInMillis", "long"),
        ("delayedDeliveryTickTimeMillis", "long"),
        ("dispatchRate", _dispatch_rate()),
        ("dispatcherPauseOnAckStatePersistentEnabled", "boolean"),
        ("entryFilters", _record("EntryFilters", [_optional("entryFilterNames", "string")])),
        ("inactiveTopicPolicies", _inactive_topics()),
        ("isGlobal", "boolean"),
        ("maxConsumerPerTopic", "int"),
        ("maxConsumersPerSubscription", "int"),
        ("maxMessageSize", "int"),
        ("maxProducerPerTopic", "int"),
        ("maxSubscriptionsPerTopic", "int"),
        ("maxUnackedMessagesOnConsumer", "int"),
        ("maxUnackedMessagesOnSubscription", "int"),
        ("messageTTLInSeconds", "int"),
        ("offloadPolicies", _record("OffloadPoliciesImpl", offload)),
        ("persistence", _persistence()),
        ("publishRate", _record("PublishRate", publish)),
        ("replicationClusters", _array("string", "List")),
        ("replicatorDispatchRate", _RATE),
        ("retentionPolicies", _record("RetentionPolicies", retention)),
        ("schemaCompatibilityStrategy", _strategy()),
        ("schemaValidationEnforced", "boolean"),
        ("shadowTopics", _array("string", "List")),
        ("subscribeRate", _record("SubscribeRate", subscribe)),
        ("subscriptionDispatchRate", _RATE),
        ("subscriptionExpirationTimeInMinutes", "int"),
        (
            "subscriptionPolicies",
            {"type": "map", "values": _record("SubscriptionPolicies", [_optional("dispatchRate", _RATE)])},
        ),
        ("subscriptionTypesEnabled", _array(types, "List")),
    ]
    return _record("TopicPolicies", [_optional(name, kind) for name, kind in fields], _DATA)


def _pulsar_event() -> Json:
    snapshots = " ".join(f"TRANSACTION_BUFFER_SNAPSHOT{suffix}" for suffix in ("", "_SEGMENTS", "_INDEXES"))
    change = [
        _optional("domain", "string"),
        _optional("namespace", "string"),
        _optional("policies", _policies()),
        _optional("tenant", "string"),
        _optional("topic", "string"),
    ]
    fields = [
        _optional("actionType", _enum("ActionType", "INSERT DELETE UPDATE NONE")),
        _optional("eventType", _enum("EventType", f"TOPIC_POLICY {snapshots}")),
        _optional("replicateTo", _array("string", "HashSet")),
        _optional("topicPoliciesEvent", _record("TopicPoliciesEvent", change)),
    ]
    return _record("PulsarEvent", fields, "org.apache.pulsar.common.events")


PULSAR_EVENT = json.dumps(_pulsar_event(), separators=(",", ":")).encode()
"""The schema's text, byte for byte as Java writes it."""

PULSAR_EVENT_PROPERTIES = {"__jsr310ConversionEnabled": "false", "__alwaysAllowNull": "true"}
"""The properties that Java registers it with."""
