"""Why requests of the admin REST API are refused: Pulsar's status for each error, and its JSON."""

import json
from http import HTTPStatus

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.schemas.compatibility import IncompatibleSchema, SchemaMissing
from mledger.broker.security.errors import AuthenticationBusy
from mledger.errors import (
    CursorExists,
    CursorNotFound,
    InvalidConfiguration,
    InvalidPosition,
    ManagedLedgerClosed,
    ManagedLedgerFenced,
    NamespaceNotFound,
    OwnedElsewhere,
    TopicExists,
    TopicNotFound,
    TopicTerminated,
)
from mledger.metastore.errors import BadVersion, InvalidName, MledgerError, NodeExists, StoreUnavailable
from mledger.pb import PulsarApi_pb2 as pb


class AdminRefusal(MledgerError):
    """A request of the admin API is refused with an HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


_STATUS: tuple[tuple[type[MledgerError] | tuple[type[MledgerError], ...], HTTPStatus], ...] = (
    ((TopicNotFound, CursorNotFound, NamespaceNotFound, SchemaMissing), HTTPStatus.NOT_FOUND),
    ((TopicExists, CursorExists, NodeExists, BadVersion, IncompatibleSchema), HTTPStatus.CONFLICT),
    ((InvalidName, InvalidPosition, InvalidConfiguration), HTTPStatus.PRECONDITION_FAILED),
    (TopicTerminated, HTTPStatus.METHOD_NOT_ALLOWED),
    ((StoreUnavailable, OwnedElsewhere, ManagedLedgerClosed, ManagedLedgerFenced), HTTPStatus.SERVICE_UNAVAILABLE),
    (AuthenticationBusy, HTTPStatus.SERVICE_UNAVAILABLE),
)
_OF_CODE = {
    pb.TopicNotFound: HTTPStatus.NOT_FOUND,
    pb.SubscriptionNotFound: HTTPStatus.NOT_FOUND,
    pb.InvalidTopicName: HTTPStatus.PRECONDITION_FAILED,
    pb.NotAllowedError: HTTPStatus.METHOD_NOT_ALLOWED,
    pb.ServiceNotReady: HTTPStatus.SERVICE_UNAVAILABLE,
    pb.ConsumerBusy: HTTPStatus.PRECONDITION_FAILED,
    pb.ProducerBusy: HTTPStatus.PRECONDITION_FAILED,
}


def plan_status(error: MledgerError) -> HTTPStatus:
    """The status that tells an admin client what an error means."""
    if isinstance(error, AdminRefusal):
        return error.status
    if isinstance(error, BrokerRefusal):
        return _OF_CODE.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)
    found = (status for kinds, status in _STATUS if isinstance(error, kinds))
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def refusal_body(reason: str) -> bytes:
    """An error as Pulsar's admin API gives it."""
    return json.dumps({"reason": reason}, separators=(",", ":")).encode()


def bad_request(reason: str) -> AdminRefusal:
    """The request itself is wrong."""
    return AdminRefusal(HTTPStatus.BAD_REQUEST, reason)


def not_found(reason: str) -> AdminRefusal:
    """There is no such thing."""
    return AdminRefusal(HTTPStatus.NOT_FOUND, reason)


def conflict(reason: str) -> AdminRefusal:
    """It exists already, or is in another state than the request expects."""
    return AdminRefusal(HTTPStatus.CONFLICT, reason)


def precondition(reason: str) -> AdminRefusal:
    """A value is not valid, or something has to be done before."""
    return AdminRefusal(HTTPStatus.PRECONDITION_FAILED, reason)


def not_allowed(reason: str) -> AdminRefusal:
    """Pulsar does not allow this of such a thing either."""
    return AdminRefusal(HTTPStatus.METHOD_NOT_ALLOWED, reason)


def not_built(what: str) -> AdminRefusal:
    """Pulsar has it, and this broker does not."""
    return AdminRefusal(HTTPStatus.NOT_IMPLEMENTED, f"this broker does not serve {what}")
