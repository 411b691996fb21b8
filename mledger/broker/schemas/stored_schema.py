"""Pulsar's records of schemas: a locator at /schemas/<tenant>/<namespace>/<topic>, and a ledger's entry a version."""

from mledger.broker.schemas.topic_schema import SchemaType, SchemaVersion, TopicSchema
from mledger.ledgers.orphans.references import SCHEMAS
from mledger.metastore.records.paths import TopicName, encode_name
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaEntry, SchemaIndexEntry, SchemaInfo, SchemaLocator
from mledger.metastore.records.position import Position
from mledger.metastore.records.protobuf import parse_binary, record_error

_EXTERNAL = 22


def schema_id_of(topic: TopicName) -> str:
    """The name under which the schema of a topic, and of its partitions, is kept."""
    return f"{topic.namespace_name}/{encode_name(topic.partitioned.local_name)}"


def locator_path(schema_id: str) -> str:
    """The locator's node."""
    return f"{SCHEMAS}/{schema_id}"


def decode_locator(data: bytes, path: str) -> SchemaLocator:
    """The locator in a node. RecordError."""
    return parse_binary(SchemaLocator, data, "schema's locator", path)


def plan_locator(old: SchemaLocator | None, position: Position, schema_hash: bytes) -> SchemaLocator:
    """The locator once a further version lies at `position`."""
    number = 0 if old is None else old.info.version + 1
    new = SchemaIndexEntry(version=number, hash=schema_hash)
    new.position.ledgerId, new.position.entryId = position
    return SchemaLocator(info=new, index=[*([] if old is None else old.index), new])


def encode_schema(schema_id: str, schema: TopicSchema, now_ms: int, user: str, locator: SchemaLocator | None) -> bytes:
    """The entry that stores a schema; `locator` has the versions before it."""
    info = SchemaInfo(
        schema_id=schema_id,
        user=user,
        type=_EXTERNAL if schema.type is SchemaType.EXTERNAL else schema.type + 1,
        schema=schema.data,
        timestamp=now_ms,
        deleted=schema.deleted,
        props=[SchemaInfo.KeyValuePair(key=key, value=value) for key, value in schema.properties.items()],
    )
    return SchemaEntry(schema_data=info.SerializeToString(), index=_before(locator, schema)).SerializeToString()


def _before(locator: SchemaLocator | None, schema: TopicSchema) -> list[SchemaIndexEntry]:
    """The index that Java writes: of the first version, one that leads nowhere."""
    if locator is not None:
        return list(locator.index)
    nowhere = SchemaIndexEntry(version=0, hash=schema.hash)
    nowhere.position.ledgerId = nowhere.position.entryId = -1
    return [nowhere]


def decode_stored(number: int, data: bytes, where: str) -> SchemaVersion:
    """The version in an entry of a schema's ledger. RecordError; `where` names the entry."""
    entry = parse_binary(SchemaEntry, data, "schema's entry", where)
    info = parse_binary(SchemaInfo, entry.schema_data, "schema", where)
    try:
        kind = SchemaType.EXTERNAL if info.type == _EXTERNAL else SchemaType(max(info.type - 1, 0))
    except ValueError:
        raise record_error("schema", where, f"its type {info.type} is unknown") from None
    properties = {pair.key: pair.value for pair in info.props}
    return SchemaVersion(number, TopicSchema(kind, info.schema, properties, info.deleted), info.timestamp)


def not_deleted(versions: list[SchemaVersion]) -> list[SchemaVersion]:
    """The versions after the last deletion."""
    deleted = [at for at, version in enumerate(versions) if version.schema.deleted]
    return versions[deleted[-1] + 1 :] if deleted else versions
