"""Topic-level policies, as events that Pulsar keeps in a namespace's `__change_events`; no I/O (M10).

An event's value is Avro, in the schema that the broker registered under the version that the message names. Its key is
the topic, prefixed with `__G__` for policies of all clusters; partitions share the policies of their topic. A message
without a value removes the policies of its key, and so does an event with the action DELETE.
"""

import enum
import io
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mledger.admin.policies.avro_limits import check_readable
from mledger.messages.pulsar_message import PulsarEntry, messages
from mledger.metastore.cluster.policies import NO_POLICIES, StoragePolicies, persistence_of, retention_of
from mledger.metastore.cluster.service_policies import topic_service_policies
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaEntry, SchemaInfo, SchemaLocator
from mledger.metastore.records.position import Position
from mledger.metastore.records.protobuf import parse_binary

GLOBAL_PREFIX = "__G__"
TOPIC_POLICY = "TOPIC_POLICY"
_WHAT = "topic policy event"
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading hostile bytes may raise."""

AvroSchema = Any
"""A schema as parsed by fastavro."""


class PolicyScope(enum.Enum):
    """The clusters that a topic's policies apply to."""

    LOCAL = "this cluster"
    GLOBAL = "all clusters"


class PolicyRecord(Struct, frozen=True):
    """A topic's policies: those that this version knows, and all `fields` of the event, as decoded."""

    policies: StoragePolicies = NO_POLICIES
    fields: Mapping[str, Any] = field(default_factory=dict)


NO_RECORD = PolicyRecord()


class PolicyTable:
    """The policies of a namespace's topics after the events applied so far."""

    def __init__(self, known: Mapping[tuple[str, PolicyScope], PolicyRecord] | None = None) -> None:
        self._policies = dict(known or {})

    def __eq__(self, other: object) -> bool:
        return self._policies == other._policies if isinstance(other, PolicyTable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def merge(self, other: "PolicyTable") -> None:
        """Add the policies of `other`; for topics in both, those of `other` win."""
        self._policies |= other._policies

    def copy(self) -> "PolicyTable":
        """A table with the same policies."""
        return PolicyTable(self._policies)

    def of(self, topic: TopicName, scope: PolicyScope) -> StoragePolicies:
        """The policies of `topic`, or of the topic that it is a partition of."""
        return self._policies.get((str(topic.partitioned), scope), NO_RECORD).policies

    def record(self, topic: TopicName, scope: PolicyScope) -> PolicyRecord | None:
        """All that is recorded of `topic`, or of the topic that it is a partition of; None without a record."""
        return self._policies.get((str(topic.partitioned), scope))

    def apply(self, entry: PulsarEntry, schema: AvroSchema, where: str) -> None:
        """Apply the events of `entry`, decoded by the `schema` that it names; `where` is for the RecordError."""
        if entry.marker:
            return
        for message in messages(entry, where):
            if message.null_value or not message.payload:
                self._policies.pop(_of_key(message.key, where), None)
            elif not message.compacted_out:
                self._take(message.payload, schema, where)

    def _take(self, value: bytes, schema: AvroSchema, where: str) -> None:
        from fastavro import schemaless_reader  # imported here because it is slow, and rarely needed

        try:
            event: Any = schemaless_reader(io.BytesIO(value), schema, None)
            if event["eventType"] != TOPIC_POLICY:
                return
            change = event["topicPoliciesEvent"]
            topic = TopicName(change["tenant"], change["namespace"], change["topic"], domain=change["domain"])
            found = change["policies"] or {}
            scope = PolicyScope.GLOBAL if found.get("isGlobal") else PolicyScope.LOCAL
            key = (str(topic.partitioned), scope)
            policies = StoragePolicies(
                retention_of(found.get("retentionPolicies")),
                persistence_of(found.get("persistence")),
                topic_service_policies(found),
            )
        except (*_UNREADABLE, EOFError, InvalidName) as error:
            raise RecordError(f"{where}: the {_WHAT} cannot be read: {error}", where) from error
        match event["actionType"]:
            case "DELETE":
                self._policies.pop(key, None)
            case "INSERT":
                self._policies.setdefault(key, PolicyRecord(policies, found))
            case _:
                self._policies[key] = PolicyRecord(policies, found)


def _of_key(key: str | None, where: str) -> tuple[str, PolicyScope]:
    """The topic and scope whose policies a message without a value removes; Java sends it for any topic it deletes."""
    if key is None:
        raise RecordError(f"{where}: a {_WHAT} without a value has no key", where)
    scope = PolicyScope.GLOBAL if key.startswith(GLOBAL_PREFIX) else PolicyScope.LOCAL
    try:
        return str(TopicName.parse_served(key.removeprefix(GLOBAL_PREFIX)).partitioned), scope
    except InvalidName as error:
        raise RecordError(f"{where}: the key of a {_WHAT} names no topic: {error}", where) from None


def schema_position(data: bytes, version: bytes, path: str) -> Position:
    """Where the schema of `version` (8 bytes, empty for the newest) is, from the locator at `path`. RecordError."""
    locator = parse_binary(SchemaLocator, data, "schema's locator", path)
    if not version:
        return Position(locator.info.position.ledgerId, locator.info.position.entryId)
    wanted = int.from_bytes(version, "big")
    for each in (locator.info, *locator.index):
        if each.version == wanted:
            return Position(each.position.ledgerId, each.position.entryId)
    raise RecordError(f"the schema at {path} has no version {wanted}, which a {_WHAT} names", path)


def decode_schema(data: bytes, where: str) -> AvroSchema:
    """The Avro schema in an entry of a schema's ledger. RecordError."""
    entry = parse_binary(SchemaEntry, data, "schema's entry", where)
    return parse_avro(parse_binary(SchemaInfo, entry.schema_data, "schema", where).schema, where)


def parse_avro(text: bytes | str, where: str) -> AvroSchema:
    """The Avro schema in a schema's text. RecordError, also if reading its values could take any effort."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    try:
        schema = parse_schema(json.loads(text))
        check_readable(schema, where)
    except (*_UNREADABLE, SchemaParseException, UnknownType) as error:
        raise RecordError(f"{where}: the schema is not an Avro schema: {error}", where) from error
    return schema
