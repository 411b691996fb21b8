"""Schemas, which this broker does not keep yet: requests for them are refused in their own form."""

from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.protocol import answers
from mledger.pb import PulsarApi_pb2 as pb

NO_SCHEMAS = "this broker keeps no schemas"


def get_schema(connection: BrokerConnection, command: pb.CommandGetSchema) -> None:
    """Refuse to name a topic's schema."""
    connection.write(answers.schema_failed(command.request_id, pb.NotAllowedError, NO_SCHEMAS))


def get_or_create_schema(connection: BrokerConnection, command: pb.CommandGetOrCreateSchema) -> None:
    """Refuse to store a schema."""
    connection.write(answers.schema_not_stored(command.request_id, pb.NotAllowedError, NO_SCHEMAS))
