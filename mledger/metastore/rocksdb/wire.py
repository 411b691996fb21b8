"""The protocol of the socket: frames in, frames out, and values as messages. No I/O.

A frame is a 4-byte big-endian length and a message of proto/MetadataStore.proto. A frame longer than the limit for
requests, or that for answers, is refused before it is read.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from mledger.metastore.errors import (
    BadVersion,
    InvalidName,
    MetadataAccessDenied,
    MetadataError,
    NoChildrenForEphemerals,
    NodeExists,
    NodeNotEmpty,
    NodeNotFound,
    NodeTooLarge,
)
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.store import Check, Create, Delete, NodeChange, Operation, Put, Result, Stat

PROTOCOL = 1
MAX_FRAME = 16 << 20
"""The most bytes of a request: enough for MAX_REQUEST_BYTES in the smallest operations."""
MAX_ANSWER = 64 << 20
"""The most bytes of an answer: enough for the names of a million children. A server sends none that is larger."""

_LENGTH = struct.Struct(">I")

M = TypeVar("M", bound=Message)

_CHANGES = {
    NodeChange.CREATED: pb.Event.CREATED,
    NodeChange.CHANGED: pb.Event.CHANGED,
    NodeChange.DELETED: pb.Event.DELETED,
    NodeChange.CHILDREN: pb.Event.CHILDREN,
}
_CHANGES_BACK = {code: change for change, code in _CHANGES.items()}

_ERRORS: dict[type[MetadataError], "pb.Refused.Why.ValueType"] = {
    NodeNotFound: pb.Refused.NODE_NOT_FOUND,
    NodeExists: pb.Refused.NODE_EXISTS,
    NodeNotEmpty: pb.Refused.NODE_NOT_EMPTY,
    BadVersion: pb.Refused.BAD_VERSION,
    NoChildrenForEphemerals: pb.Refused.NO_CHILDREN_FOR_EPHEMERALS,
    NodeTooLarge: pb.Refused.NODE_TOO_LARGE,
    InvalidName: pb.Refused.INVALID_NAME,
    MetadataAccessDenied: pb.Refused.ACCESS_DENIED,
}
_ERRORS_BACK = {code: kind for kind, code in _ERRORS.items()}


class WireError(Exception):
    """Bytes that do not follow this protocol; the connection is unusable."""


def frame(message: Message) -> bytes:
    """`message` as it goes over the socket."""
    body = message.SerializeToString()
    return _LENGTH.pack(len(body)) + body


class Frames(Generic[M]):
    """Splits received bytes into messages of one type."""

    def __init__(self, message_type: type[M], most: int = MAX_FRAME) -> None:
        """Expect messages of `message_type`, each of at most `most` bytes."""
        self._type, self._most = message_type, most
        self._chunks: list[bytes] = []
        self._held = self._wanted = 0

    def feed(self, data: bytes) -> Iterator[M]:
        """Yield the messages that `data` completes. WireError for a malformed message, or one over the limit."""
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return
        data = b"".join(self._chunks)
        at = self._wanted = 0
        while at + _LENGTH.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            if length > self._most:
                raise WireError(f"a frame of {length} bytes, over the limit of {self._most}")
            end = at + _LENGTH.size + length
            if end > len(data):
                self._wanted = end - at
                break
            message = self._type()
            try:
                message.ParseFromString(data[at + _LENGTH.size : end])
            except DecodeError as error:
                raise WireError(f"a frame of {length} bytes is not a {self._type.__name__}") from error
            at = end
            yield message
        self._chunks, self._held = [data[at:]], len(data) - at


def write_of(operations: Sequence[Operation], *, with_parents: bool = False) -> pb.Request:
    """The request to carry out `operations`."""
    request = pb.Request()
    request.write.with_parents = with_parents
    add = request.write.operations.add
    for operation in operations:
        match operation:
            case Create(path, data, ephemeral, sequential):
                add(kind=pb.Operation.CREATE, path=path, data=data, ephemeral=ephemeral, sequential=sequential)
            case Put(path, data, version):
                add(kind=pb.Operation.PUT, path=path, data=data, version=version)
            case Delete(path, version):
                add(kind=pb.Operation.DELETE, path=path, version=version)
            case Check(path, version):
                add(kind=pb.Operation.CHECK, path=path, version=version)
    return request


def operations_of(write: pb.Write) -> list[Operation]:
    """The operations in a request; WireError for an unknown kind."""
    return [_operation(message) for message in write.operations]


def _operation(message: pb.Operation) -> Operation:
    match message.kind:
        case pb.Operation.CREATE:
            return Create(message.path, message.data, message.ephemeral, message.sequential)
        case pb.Operation.PUT:
            return Put(message.path, message.data, message.version)
        case pb.Operation.DELETE:
            return Delete(message.path, message.version)
        case pb.Operation.CHECK:
            return Check(message.path, message.version)
    raise WireError(f"an operation of kind {message.kind}")


def fill_written(written: pb.Written, results: Sequence[Result]) -> None:
    """Put the results of operations into an answer."""
    written.SetInParent()
    for result in results:
        added = written.results.add()
        if isinstance(result, str):
            added.path = result
        elif result is not None:
            added.version = result


def results_of(written: pb.Written) -> list[Result]:
    """The results that an answer holds."""
    results: list[Result] = []
    for message in written.results:
        kind = message.WhichOneof("value")
        results.append(None if kind is None else message.path if kind == "path" else message.version)
    return results


def fill_stat(message: pb.Stat, stat: Stat) -> None:
    """Put a stat into an answer."""
    message.SetInParent()
    message.version, message.num_children = stat.version, stat.num_children
    message.created_ms, message.modified_ms = stat.created_ms, stat.modified_ms
    message.ephemeral_owner = stat.ephemeral_owner


def stat_of(message: pb.Stat) -> Stat:
    """The stat that an answer holds."""
    return Stat(message.version, message.created_ms, message.modified_ms, message.num_children, message.ephemeral_owner)


def fill_refused(refused: pb.Refused, error: MetadataError) -> None:
    """Put an error into an answer."""
    refused.why = _ERRORS.get(type(error), pb.Refused.OTHER)
    refused.message, refused.path = str(error), error.path


def error_of(refused: pb.Refused) -> MetadataError:
    """The error that an answer holds."""
    return _ERRORS_BACK.get(refused.why, MetadataError)(refused.message, refused.path)


def event_of(watch_id: int, change: NodeChange) -> bytes:
    """The frame that tells a watch of a change."""
    return frame(pb.Answer(event=pb.Event(watch_id=watch_id, change=_CHANGES[change])))


def change_of(event: pb.Event) -> NodeChange:
    """The change in an event; UNKNOWN, which means look again, for a kind that this program does not know."""
    return _CHANGES_BACK.get(event.change, NodeChange.UNKNOWN)
