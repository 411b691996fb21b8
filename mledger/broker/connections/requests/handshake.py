"""The commands of a connection itself: connect, credentials, keep-alive."""

from collections.abc import Coroutine
from typing import Any

from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.connections.credential_renewal import CredentialRenewal
from mledger.broker.protocol import answers
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.protocol.versions import features_of
from mledger.broker.refusals import refusal_of
from mledger.broker.security.credentials import Credentials
from mledger.broker.security.principals import Principal, plan_renewal
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.pb import PulsarApi_pb2 as pb

log = get_logger(__name__)

RENEW = b"PulsarAuthRefresh"
"""The data of a challenge that asks for new credentials."""


def connect(connection: BrokerConnection, command: pb.CommandConnect) -> Coroutine[Any, Any, None] | None:
    """Greet the client once its credentials are checked: both sides use the older of their protocol versions."""
    if connection.connected or connection.connecting:
        raise ProtocolError("a second CONNECT")
    connection.client_version = command.client_version
    connection.features = features_of(command)
    if connection.broker.security.authenticator is None:
        _greet(connection)
        return None
    connection.connecting = True
    return _authenticate(connection, command)


async def _authenticate(connection: BrokerConnection, command: pb.CommandConnect) -> None:
    shown = Credentials(command.auth_method_name, command.auth_data, connection.certificate)
    original = None
    if command.HasField("original_auth_data"):
        original = Credentials(command.original_auth_method, command.original_auth_data.encode())
    security = connection.broker.security
    try:
        principal = await security.connect(shown, command.original_principal, original)
    except MledgerError as error:
        _refuse(connection, error)
        return
    finally:
        connection.connecting = False
    connection.principal = principal
    method = command.original_auth_method if principal.original_verified else command.auth_method_name
    connection.renewal = _renewal(connection, method, principal)
    _greet(connection)


def _renewal(connection: BrokerConnection, method: str, principal: Principal) -> CredentialRenewal:
    features = connection.features
    return CredentialRenewal(
        principal,
        connection.broker.security.settings.refresh_check_s,
        renews=features.renews_credentials,
        ask=lambda: connection.write(answers.auth_challenge(method, RENEW, features)),
        close=lambda: connection.close("its credentials have expired"),
    )


async def renew(connection: BrokerConnection, command: pb.CommandAuthResponse) -> None:
    """Take new credentials of the same role; others end the connection."""
    renewal, authenticator = connection.renewal, connection.broker.security.authenticator
    if renewal is None or authenticator is None or not renewal.asked:
        connection.close("AUTH_RESPONSE that nobody asked for")
        return
    shown = Credentials(command.response.auth_method_name, command.response.auth_data, connection.certificate)
    try:
        principal = plan_renewal(connection.principal, await authenticator.authenticate(shown))
    except MledgerError as error:
        _refuse(connection, error)
        return
    connection.principal = principal
    renewal.renewed(principal)


def _refuse(connection: BrokerConnection, error: MledgerError) -> None:
    log.warning("client_refused", client=connection.address, reason=error)
    connection.refuse(answers.UNASKED, refusal_of(error))
    connection.close("it is not authenticated")


def _greet(connection: BrokerConnection) -> None:
    connection.greeted()
    most = connection.broker.max_message_size
    settings = connection.broker.settings
    watchers = settings.topic_watchers and settings.evaluate_patterns
    connection.write(answers.connected(connection.features, most, topic_watchers=watchers))


def ping(connection: BrokerConnection, command: pb.CommandPing) -> None:
    """Answer a client that wants to know whether the broker lives."""
    connection.write(answers.PONG)


def pong(connection: BrokerConnection, command: pb.CommandPong) -> None:
    """Nothing to do: any bytes show that the client lives."""
