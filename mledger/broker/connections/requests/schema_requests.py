"""Schemas: asked for by clients, and registered without a producer."""

from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.protocol import answers
from mledger.broker.refusals import refusal_of
from mledger.broker.schemas.topic_schema import schema_of, version_number, wire_schema
from mledger.broker.security.permissions import TopicOperation
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb


async def get_schema(connection: BrokerConnection, command: pb.CommandGetSchema) -> None:
    """Send a version of a topic's schema, or the latest."""
    request_id, number = command.request_id, None
    if command.HasField("schema_version"):
        number = version_number(command.schema_version)
        if number is None:
            text = f"{command.schema_version.hex()!r} is no schema version: it has 8 bytes"
            connection.write(answers.schema_failed(request_id, pb.IncompatibleSchema, text))
            return
    try:
        topic = TopicName.parse_served(command.topic)
        await connection.allow(TopicOperation.LOOKUP, topic)
        found = await connection.broker.schemas.version(topic, number)
    except MledgerError as error:
        refusal = refusal_of(error)
        connection.write(answers.schema_failed(request_id, refusal.code, str(refusal)))
        return
    if found is None:
        which = "schema" if number is None else f"version {number} of a schema"
        connection.write(answers.schema_failed(request_id, pb.TopicNotFound, f"{topic} has no {which}"))
        return
    schema = wire_schema(found.schema, topic.partitioned.local_name)
    connection.write(answers.schema_found(request_id, schema, found.wire))


async def get_or_create_schema(connection: BrokerConnection, command: pb.CommandGetOrCreateSchema) -> None:
    """Register a schema with a topic that exists, and send its version."""
    broker = connection.broker
    try:
        topic = TopicName.parse_served(command.topic)
        await connection.allow(TopicOperation.PRODUCE, topic)
        await broker.topics.topic(topic, create=False)
        version = await broker.schemas.of_producer(topic, schema_of(command.schema))
    except MledgerError as error:
        refusal = refusal_of(error)
        connection.write(answers.schema_not_stored(command.request_id, refusal.code, str(refusal)))
        return
    connection.write(answers.schema_stored(command.request_id, version))
