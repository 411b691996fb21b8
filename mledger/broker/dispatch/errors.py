"""Errors of dispatchers; the protocol answers each by Pulsar's code of the same name."""

from mledger.metastore.errors import MledgerError


class DispatchError(MledgerError):
    """The base class of the errors of dispatchers."""


class ConsumerBusy(DispatchError):
    """The subscription is exclusive and has a consumer, or has as many as it may: close one, or share it (D2)."""


class ConsumerNotAssignable(DispatchError):
    """No key range can be assigned to the consumer: its ranges overlap those of another, or are not given (D2)."""
