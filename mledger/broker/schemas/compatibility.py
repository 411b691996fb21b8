"""Whether a new schema fits the ones that a topic has, by Pulsar's strategies.

Backward: with the new schema one reads what was written with the old ones; forward: the other way round; full: both.
A transitive strategy asks all versions, any other one the latest only.
"""

import enum
import json
from collections.abc import Sequence

from mledger.broker.schemas.avro_resolution import unreadable
from mledger.broker.schemas.avro_schema import (
    AvroSchemaNode,
    InvalidAvroSchema,
    check_defaults,
    parse_avro,
    same_avro,
)
from mledger.broker.schemas.topic_schema import SchemaType, SchemaVersion, TopicSchema
from mledger.metastore.errors import MledgerError


class IncompatibleSchema(MledgerError):
    """The schema does not fit the topic's, or is none; nothing was stored."""


class SchemaMissing(IncompatibleSchema):
    """The topic has no schema to compare with."""


class CompatibilityStrategy(enum.Enum):
    """Pulsar's strategies, under its names."""

    UNDEFINED = "UNDEFINED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """Whether all versions are asked."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def backward(self) -> bool:
        """Whether the new schema must read the old ones."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """Whether the old schemas must read the new one."""
        return self.value.startswith(("FORWARD", "FULL"))


_AVRO_NOTATION = (SchemaType.AVRO, SchemaType.JSON)
_PARSED_AS_AVRO = (*_AVRO_NOTATION, SchemaType.PROTOBUF)
_WITHOUT_DATA = (
    *range(SchemaType.BOOLEAN, SchemaType.KEY_VALUE),
    *range(SchemaType.INSTANT, SchemaType.PROTOBUF_NATIVE),
)
_STRING = (b"", b"null")
"""The data of a schema of type STRING: what Java's clients send, and Python's."""


def check_valid(schema: TopicSchema) -> None:
    """Raise IncompatibleSchema if the data is no schema of its type."""
    if schema.type in _PARSED_AS_AVRO:
        _avro(schema)
    elif schema.type is SchemaType.KEY_VALUE:
        for part in _key_and_value(schema):
            check_valid(part)
    elif schema.type is SchemaType.PROTOBUF_NATIVE:
        _root_message(schema)
    elif schema.type is SchemaType.STRING and schema.data not in _STRING:
        raise IncompatibleSchema("a schema of type STRING has no data, and this one has some")
    elif schema.type in _WITHOUT_DATA and schema.data:
        raise IncompatibleSchema(f"a schema of type {schema.type.name} has no data, and this one has some")


def check_compatible(existing: Sequence[TopicSchema], new: TopicSchema, strategy: CompatibilityStrategy) -> None:
    """Raise IncompatibleSchema unless `new` may follow `existing`, the topic's schemas in their order."""
    if strategy is CompatibilityStrategy.ALWAYS_COMPATIBLE:
        return
    if not existing:
        raise SchemaMissing("the topic has no schema")
    asked = existing if strategy.transitive else existing[-1:]
    for old in asked:
        if old.type is not new.type:
            raise IncompatibleSchema(f"the topic has a schema of type {old.type.name}, and this one is {new.type.name}")
    for old in reversed(asked):
        if old.data != new.data or strategy.transitive:
            _check(old, new, strategy)


def check_consumer(existing: Sequence[TopicSchema], schema: TopicSchema, strategy: CompatibilityStrategy) -> None:
    """Raise IncompatibleSchema unless a consumer with `schema` can read the topic.

    Strategies that do not ask all versions for this direction let it read the latest.
    """
    latest_only = (
        CompatibilityStrategy.BACKWARD,
        CompatibilityStrategy.FORWARD,
        CompatibilityStrategy.FORWARD_TRANSITIVE,
        CompatibilityStrategy.FULL,
    )
    if not existing:
        raise SchemaMissing("the topic has no schema to read with")
    if strategy in latest_only:
        check_compatible(existing[-1:], schema, CompatibilityStrategy.BACKWARD)
    else:
        for old in existing if strategy is not CompatibilityStrategy.ALWAYS_COMPATIBLE else ():
            check_compatible([old], schema, strategy)


def find_version(existing: Sequence[SchemaVersion], schema: TopicSchema) -> SchemaVersion | None:
    """The version that is the same schema: Avro's by meaning, others by their bytes."""
    for version in existing:
        old = version.schema
        if old.type is schema.type and (
            old.data == schema.data or (schema.type in _PARSED_AS_AVRO and same_avro(old.data, schema.data))
        ):
            return version
    return None


def _check(old: TopicSchema, new: TopicSchema, strategy: CompatibilityStrategy) -> None:
    if new.type in _AVRO_NOTATION:
        _check_avro(old, new, strategy)
    elif new.type is SchemaType.KEY_VALUE:
        for was, becomes, what in zip(_key_and_value(old), _key_and_value(new), ("key", "value"), strict=True):
            if was.type is not becomes.type:
                raise IncompatibleSchema(f"the {what}'s schema was {was.type.name}, and is {becomes.type.name} now")
            _check(was, becomes, strategy)
    elif new.type is SchemaType.PROTOBUF_NATIVE:
        _refuse_unknown(strategy)
        if _root_message(old) != _root_message(new):
            raise IncompatibleSchema(f"the root message was {_root_message(old)}, and is {_root_message(new)} now")
    elif strategy is CompatibilityStrategy.ALWAYS_INCOMPATIBLE:
        _refuse_unknown(strategy)


def _refuse_unknown(strategy: CompatibilityStrategy) -> None:
    if not (strategy.backward or strategy.forward):
        raise IncompatibleSchema(f"the schema compatibility strategy is {strategy.value}: no other schema is accepted")


def _check_avro(old: TopicSchema, new: TopicSchema, strategy: CompatibilityStrategy) -> None:
    was, becomes = _avro(old), _avro(new)
    try:
        check_defaults(was)
        check_defaults(becomes)
    except InvalidAvroSchema as error:
        raise IncompatibleSchema(str(error)) from None
    _refuse_unknown(strategy)
    if strategy.backward and (why := unreadable(was, becomes)):
        raise IncompatibleSchema(f"the schema cannot read what was written before ({strategy.value}): {why}")
    if strategy.forward and (why := unreadable(becomes, was)):
        raise IncompatibleSchema(f"the schema's messages cannot be read with the older one ({strategy.value}): {why}")


def _avro(schema: TopicSchema) -> AvroSchemaNode:
    try:
        return parse_avro(schema.data)
    except InvalidAvroSchema as error:
        raise IncompatibleSchema(f"a schema of type {schema.type.name} is not in Avro's notation: {error}") from None


def _root_message(schema: TopicSchema) -> str:
    try:
        name = json.loads(schema.data)["rootMessageTypeName"]
    except (ValueError, KeyError, TypeError, RecursionError):
        name = None
    if not isinstance(name, str):
        raise IncompatibleSchema("a schema of type PROTOBUF_NATIVE does not name its root message")
    return name


def _key_and_value(schema: TopicSchema) -> tuple[TopicSchema, TopicSchema]:
    """The schemas of a KEY_VALUE: each with its size before it, their types among the properties."""
    parts, at = [], 0
    for what in ("key", "value"):
        size = int.from_bytes(schema.data[at : at + 4], "big", signed=True)
        end = at + 4 + max(size, 0)
        if len(schema.data) < max(end, at + 4):
            raise IncompatibleSchema(f"a schema of type KEY_VALUE ends within its {what}'s schema")
        parts.append(TopicSchema(_type_of(schema, what), schema.data[at + 4 : end]))
        at = end
    return parts[0], parts[1]


def _type_of(schema: TopicSchema, what: str) -> SchemaType:
    name = schema.properties.get(f"{what}.schema.type", "BYTES")
    if name == "BYTES":
        return SchemaType.NONE
    try:
        return SchemaType[name]
    except KeyError:
        raise IncompatibleSchema(f"a schema of type KEY_VALUE has a {what} of type {name}, which is unknown") from None
