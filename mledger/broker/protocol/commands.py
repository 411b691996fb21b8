"""Commands that clients send, from bytes."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from mledger.broker.protocol.errors import ProtocolError
from mledger.pb.PulsarApi_pb2 import BaseCommand

Type = BaseCommand.Type
_FIELDS = {number: BaseCommand.DESCRIPTOR.fields_by_number[number].name for number in Type.values()}
_MAY_BE_EMPTY = (Type.PING, Type.PONG)
_WITH_CREDENTIALS = ("CONNECT", "AUTH_RESPONSE")
"""Commands that errors do not quote."""
MOST_WITH_TEXT = 10_000
"""Of messages with text in one field of a command, such as properties: each is checked, which holds all connections."""


class Command(NamedTuple):
    """One command; `body` is the message that its type names, for example CommandSubscribe.

    `excess` says of what it has more than this broker takes; its text was not checked then.
    """

    type: "Type.ValueType"
    body: Message
    excess: str = ""

    @property
    def name(self) -> str:
        """The name of its type, for example SUBSCRIBE."""
        return Type.Name(self.type)


def decode_command(data: bytes) -> Command:
    """The command in `data`, a BaseCommand.

    Raises ProtocolError if it is cut off or malformed, lacks a field or has text that is not UTF-8, and for a type
    that Pulsar 4.2 does not have.
    """
    try:
        command = BaseCommand.FromString(data)
    except DecodeError:
        raise ProtocolError(f"a command of {len(data)} bytes cannot be read: they are not a BaseCommand") from None
    if not command.HasField("type"):
        raise ProtocolError(f"a command of {len(data)} bytes cannot be read: its type is missing or unknown")
    field = _FIELDS[command.type]
    name = Type.Name(command.type)
    body: Message = getattr(command, field)
    if not command.HasField(field) and command.type not in _MAY_BE_EMPTY:  # type: ignore[arg-type]
        raise ProtocolError(f"a command {name} cannot be read: it lacks {field}")
    if not body.IsInitialized():
        raise ProtocolError(f"a command {name} cannot be read: its {field} lacks a field")
    excess = _excess(body, name) if len(data) > MOST_WITH_TEXT else ""
    if not excess:
        _check_text(body, name)
    return Command(command.type, body, excess)


def _excess(message: Message, name: str) -> str:
    """Of what a command has more than `MOST_WITH_TEXT`; empty if of nothing."""
    for field, value in message.ListFields():
        if field.message_type is None or not _may_have_text(field.message_type):
            continue
        if isinstance(value, Message):
            if found := _excess(value, name):
                return found
        elif len(value) > MOST_WITH_TEXT:
            return f"a command {name} has {len(value):,} {field.name}: at most {MOST_WITH_TEXT:,} are served"
    return ""


def _check_text(message: Message, name: str) -> None:
    """Raise ProtocolError if a string in `message` is not UTF-8: protobuf gives its bytes then."""
    for field, value in message.ListFields():
        kind = field.message_type
        if field.type != FieldDescriptor.TYPE_STRING and (kind is None or not _may_have_text(kind)):
            continue
        for one in (value,) if isinstance(value, (str, bytes, Message)) else value:
            if isinstance(one, Message):
                _check_text(one, name)
            elif not isinstance(one, str):
                shown = "" if name in _WITH_CREDENTIALS else f" {one!r}"
                raise ProtocolError(f"a command {name} cannot be read: its {field.name}{shown} is not UTF-8")


@cache
def _may_have_text(kind: Descriptor) -> bool:
    """Whether messages of that kind have strings somewhere; those without, as ids, come by the thousand."""
    return any(field.type == FieldDescriptor.TYPE_STRING for each in _within(kind, set()) for field in each.fields)


def _within(kind: Descriptor, seen: set[str]) -> Iterator[Descriptor]:
    """The kind and those of the messages in it."""
    if kind.full_name not in seen:
        seen.add(kind.full_name)
        yield kind
        for field in kind.fields:
            if field.message_type is not None:
                yield from _within(field.message_type, seen)
