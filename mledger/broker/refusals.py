"""Refusals: errors that a broker answers with one of Pulsar's codes."""

from typing import TypeAlias

from mledger.bookie.errors import BookieError, EntryTooLarge
from mledger.broker.dispatch.consumer import ConsumerBusy, ConsumerNotAssignable
from mledger.broker.protocol.commands import Command
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.schemas.compatibility import IncompatibleSchema
from mledger.broker.security.errors import AuthenticationBusy, AuthenticationFailed, NotAuthorized
from mledger.errors import (
    CursorNotFound,
    CursorRecoveryFailed,
    InvalidPosition,
    InvalidProperties,
    ManagedLedgerClosed,
    ManagedLedgerFenced,
    NamespaceNotFound,
    OwnedElsewhere,
    TopicExists,
    TopicNotFound,
    TopicTerminated,
)
from mledger.metastore.errors import InvalidName, MetadataError, MledgerError
from mledger.pb import PulsarApi_pb2 as pb

Code: TypeAlias = "pb.ServerError.ValueType"

NO_TRANSACTIONS = "this broker has no transactions (transactionCoordinatorEnabled=false)"


class BrokerRefusal(MledgerError):
    """A client's request is refused; `code` is Pulsar's, by which the client knows whether to try again."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


_CODES: tuple[tuple[type[MledgerError] | tuple[type[MledgerError], ...], Code], ...] = (
    (ConsumerBusy, pb.ConsumerBusy),
    (ConsumerNotAssignable, pb.ConsumerAssignError),
    ((TopicNotFound, NamespaceNotFound), pb.TopicNotFound),
    (AuthenticationFailed, pb.AuthenticationError),
    (NotAuthorized, pb.AuthorizationError),
    (IncompatibleSchema, pb.IncompatibleSchema),
    (InvalidName, pb.InvalidTopicName),
    (TopicTerminated, pb.TopicTerminatedError),
    (CursorNotFound, pb.SubscriptionNotFound),
    ((ManagedLedgerFenced, ManagedLedgerClosed, OwnedElsewhere, CursorRecoveryFailed, TopicExists), pb.ServiceNotReady),
    (AuthenticationBusy, pb.ServiceNotReady),
    ((InvalidPosition, InvalidProperties, EntryTooLarge), pb.NotAllowedError),
    (MetadataError, pb.MetadataError),
    (BookieError, pb.PersistenceError),
)


def refusal_of(error: MledgerError) -> BrokerRefusal:
    """The refusal that answers a request which failed with `error`.

    What may succeed at another broker or a little later is ServiceNotReady: clients look the topic
    up again and retry.
    """
    if isinstance(error, BrokerRefusal):
        return error
    for kinds, code in _CODES:
        if isinstance(error, kinds):
            return BrokerRefusal(code, str(error))
    return BrokerRefusal(pb.UnknownError, str(error))


def refusal_of_unknown(command: Command) -> tuple[int, BrokerRefusal]:
    """The id of a request that this broker does not serve, or not if it is that long, and its refusal.

    Raises:
        ProtocolError: no client sends such a command.
    """
    request_id: int | None = getattr(command.body, "request_id", None)
    if request_id is None:
        raise ProtocolError(f"{command.name} is no command of clients")
    return request_id, BrokerRefusal(pb.NotAllowedError, command.excess or f"this broker does not serve {command.name}")
