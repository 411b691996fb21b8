"""Shared by the codecs: parsing a message strictly, and keeping fields that this program does not know.

Errors are RecordError and name the record's path and what is wrong with it.
"""

from typing import Any, TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from mledger.metastore.errors import RecordError

M = TypeVar("M", bound=Message)


def record_error(what: str, path: str, wrong: str) -> RecordError:
    """The error which says that `what` at `path` cannot be read."""
    where = f" at {path}" if path else ""
    return RecordError(f"the {what}{where} cannot be read: {wrong}", path)


def parse_binary(message_type: type[M], data: bytes, what: str, path: str) -> M:
    """The message in `data`; RecordError when it is cut off, malformed or lacks a required field."""
    message = message_type()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise record_error(what, path, f"its {len(data)} bytes are not a {message_type.__name__}") from None
    return _complete(message, what, path)


def parse_text(message_type: type[M], data: bytes, what: str, path: str) -> M:
    """The message whose text form is `data`; RecordError for text that is cut off or has an unknown field."""
    if data and not data.endswith(b"\n"):
        raise record_error(what, path, "its text is cut off: its last line has no end")
    try:
        message = text_format.Parse(data.decode(), message_type())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise record_error(what, path, f"its text is not a {message_type.__name__}: {error}") from None
    return _complete(message, what, path)


def _complete(message: M, what: str, path: str) -> M:
    if message.IsInitialized():
        return message
    missing: list[str] = []
    message.IsInitialized(missing)  # type: ignore[call-arg]  # the stub lacks the list that takes their names
    raise record_error(what, path, f"a {type(message).__name__} lacks {', '.join(missing)}")


def text_of(value: Any, what: str, path: str) -> str:
    """A string field's value; RecordError if it is not UTF-8 (protobuf then returns bytes)."""
    if isinstance(value, str):
        return value
    raise record_error(what, path, f"{value!r} in it is not UTF-8")


def unknown_numbers(message: Message) -> set[int]:
    """The numbers of the fields (and of enum fields with values) that this program does not know."""
    fields = UnknownFieldSet(message)
    return {fields[at].field_number for at in range(len(fields))} if len(fields) else set()


def unknown_fields(message: Message) -> bytes:
    """The fields of `message` itself that this program does not know, unchanged, for `MergeFromString`."""
    if not len(UnknownFieldSet(message)):
        return b""
    rest = type(message)()
    rest.CopyFrom(message)
    for field, _ in rest.ListFields():
        rest.ClearField(field.name)
    return rest.SerializePartialToString()
