"""A topic's schema, and its form on the wire."""

import dataclasses
import enum
import hashlib
from collections.abc import Mapping

from msgspec import Struct, field

from mledger.pb.PulsarApi_pb2 import KeyValue, Schema


class SchemaType(enum.IntEnum):
    """The types of the protocol, with their numbers there."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22


class TopicSchema(Struct, frozen=True):
    """A schema as a client registered it. A deleted one ends the versions before it."""

    type: SchemaType
    data: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    deleted: bool = False

    @property
    def hash(self) -> bytes:
        """The hash by which a locator finds it."""
        return hashlib.sha256(self.data).digest()


@dataclasses.dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a topic's schema; versions count from 0 on."""

    number: int
    schema: TopicSchema
    stored_ms: int = dataclasses.field(default=0, compare=False)
    """When it was stored, in ms since 1970."""

    @property
    def wire(self) -> bytes:
        """The version as messages and answers name it."""
        return version_bytes(self.number)


def version_bytes(number: int) -> bytes:
    """A version's 8 bytes."""
    return number.to_bytes(8, "big", signed=True)


def version_number(wire: bytes) -> int | None:
    """The version that a client names by 8 bytes (old clients sent more), None if they are fewer."""
    return int.from_bytes(wire[:8], "big", signed=True) if len(wire) >= 8 else None


def schema_of(wire: Schema) -> TopicSchema | None:
    """The schema that a client sends, None for consumers that take any.

    Most clients send none for bytes, but the official Go client sends one of type NONE, which is kept like any other.
    """
    kind = SchemaType(wire.type)
    if kind is SchemaType.AUTO_CONSUME:
        return None
    return TopicSchema(kind, wire.schema_data, {pair.key: pair.value for pair in wire.properties})


def wire_schema(schema: TopicSchema, name: str) -> Schema:
    """The schema as clients get it; `name` is the topic's."""
    properties = [KeyValue(key=key, value=value) for key, value in schema.properties.items()]
    return Schema(
        name=name, schema_data=schema.data, type=Schema.Type.ValueType(int(schema.type)), properties=properties
    )
