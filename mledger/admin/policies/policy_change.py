"""Changes of topic-level policies: the events that record them, as Pulsar's brokers write them. No I/O (M10).

An event carries all policies of its topic, so a change begins with the record that is there and
keeps the fields that it does not set, those that this version does not know too.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from mledger.admin.policies.policy_events import GLOBAL_PREFIX, TOPIC_POLICY, AvroSchema, PolicyRecord, PolicyScope
from mledger.messages.pulsar_message import assemble_entry
from mledger.metastore.records.paths import TopicName
from mledger.pb.PulsarApi_pb2 import MessageMetadata

Fields = dict[str, Any]

_EMPTY: Fields = {"backLogQuotaMap": {}, "subscriptionPolicies": {}, "subscriptionTypesEnabled": []}
"""What Java writes where nothing is set."""
_UPDATE = "UPDATE"
_HASH_BITS = 0x7FFFFFFF


def plan_event(
    topic: TopicName, scope: PolicyScope, record: PolicyRecord | None, changes: Mapping[str, Any], cluster: str
) -> Fields:
    """The event that records `changes` of the topic's policies; None as a value removes a policy.

    An event of one cluster is for `cluster` only, where replication would carry it on.
    """
    kept = _EMPTY if record is None else record.fields
    return {
        "actionType": _UPDATE,
        "eventType": TOPIC_POLICY,
        "replicateTo": plan_clusters(scope, cluster) or None,
        "topicPoliciesEvent": {
            "domain": topic.domain,
            "tenant": topic.tenant,
            "namespace": topic.namespace,
            "topic": topic.partitioned.local_name,
            "policies": {**kept, **changes, "isGlobal": scope is PolicyScope.GLOBAL},
        },
    }


def plan_clusters(scope: PolicyScope, cluster: str) -> list[str]:
    """The clusters that an event is for, where replication would carry it on; none: all."""
    return [] if scope is PolicyScope.GLOBAL else [cluster]


def event_key(topic: TopicName, scope: PolicyScope) -> str:
    """The key of the topic's events, by which compaction keeps the last one."""
    return f"{GLOBAL_PREFIX if scope is PolicyScope.GLOBAL else ''}{topic.partitioned}"


def encode_event(event: Fields, schema: AvroSchema) -> bytes | None:
    """The event's value in `schema`; None if that has no place for something in it."""
    from fastavro import schemaless_reader, schemaless_writer  # imported here because it is slow, and rarely needed

    out = io.BytesIO()
    try:
        schemaless_writer(out, schema, event)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        return None
    value = out.getvalue()
    found = schemaless_reader(io.BytesIO(value), schema, None)
    return value if _without_nulls(found) == _without_nulls(event) else None


def plan_entry(
    value: bytes | None,
    key: str,
    schema_version: bytes,
    clusters: Sequence[str],
    *,
    producer: str,
    sequence_id: int,
    now_ms: int,
) -> bytes:
    """The entry that holds an event's value, by `producer`; without a value it removes the record of its key."""
    metadata = MessageMetadata(
        producer_name=producer,
        sequence_id=sequence_id,
        publish_time=now_ms,
        partition_key=key,
        partition_key_b64_encoded=False,
        replicate_to=clusters,
        uncompressed_size=len(value or b""),
        schema_version=schema_version,
    )
    if value is None:
        metadata.null_value = True
    return assemble_entry(metadata, value or b"")


def plan_partition(key: str, partitions: int) -> int:
    """The partition to which Java's clients send a message with this key."""
    found = 0
    units = key.encode("utf-16-be")
    for at in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return (found & _HASH_BITS) % partitions


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
