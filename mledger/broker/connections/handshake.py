"""The commands of a connection itself: connect, keep-alive."""

from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.protocol import answers
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.protocol.versions import features_of
from mledger.pb import PulsarApi_pb2 as pb


def connect(connection: BrokerConnection, command: pb.CommandConnect) -> None:
    """Greet the client: both sides use the older of their protocol versions."""
    if connection.connected:
        raise ProtocolError("a second CONNECT")
    connection.connected = True
    connection.client_version = command.client_version
    connection.features = features_of(command)
    most = connection.broker.max_message_size
    settings = connection.broker.settings
    watchers = settings.topic_watchers and settings.evaluate_patterns
    connection.write(answers.connected(connection.features, most, topic_watchers=watchers))


def ping(connection: BrokerConnection, command: pb.CommandPing) -> None:
    """Answer a client that wants to know whether the broker lives."""
    connection.write(answers.PONG)


def pong(connection: BrokerConnection, command: pb.CommandPong) -> None:
    """Nothing to do: any bytes show that the client lives."""
