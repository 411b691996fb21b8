"""Pulsar's node of a partitioned topic: JSON, `{"partitions":4,"deleted":false}`, and properties if it has any."""

import json

from msgspec import Struct

from mledger.metastore.errors import RecordError

MOST_PARTITIONS = 100_000
"""Of a topic: more than a node of ZooKeeper can have as children, each of which is looked at."""


class PartitionedTopic(Struct, frozen=True):
    """How many partitions a topic has; `deleted` while it is being deleted. `properties` is None if never given."""

    partitions: int
    deleted: bool = False
    properties: tuple[tuple[str, str], ...] | None = None
    unknown: tuple[tuple[str, str], ...] = ()  # fields of other versions, their values as JSON, written back


def decode_partitioned_topic(data: bytes, path: str = "") -> PartitionedTopic:
    """The record in `data`; fields that are not there have Pulsar's defaults. RecordError."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, dict):
            raise ValueError("it is not a JSON object")
        partitions, deleted = fields.pop("partitions", 0), fields.pop("deleted", False)
        properties = fields.pop("properties", None)
        if type(partitions) is not int or type(deleted) is not bool or partitions < 0:
            raise ValueError("partitions is not a count, or deleted is not a boolean")
        if partitions > MOST_PARTITIONS:
            raise ValueError(f"it says {partitions:,} partitions, and no topic has more than {MOST_PARTITIONS:,}")
        pairs = None if properties is None else tuple((key, _text(value)) for key, value in properties.items())
    except (ValueError, AttributeError, RecursionError) as error:
        raise RecordError(f"the partitioned topic's record at {path} cannot be read: {error}", path) from None
    unknown = tuple((key, json.dumps(value)) for key, value in fields.items())
    return PartitionedTopic(partitions, deleted, pairs, unknown)


def encode_partitioned_topic(record: PartitionedTopic) -> bytes:
    """The bytes that Pulsar 4.2 writes of it."""
    fields: dict[str, object] = {"partitions": record.partitions, "deleted": record.deleted}
    if record.properties is not None:
        fields["properties"] = dict(record.properties)
    fields |= {key: json.loads(value) for key, value in record.unknown}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the property's value {value!r} is not text")
    return value
