"""Messages as the console shows them: an entry of the admin API, with payloads read by their schema. No I/O."""

import base64
import binascii
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mledger.broker.admin_rest.requests import AdminAnswer
from mledger.broker.console.avro_value import decode_avro
from mledger.broker.schemas.avro_schema import parse_avro
from mledger.messages.pulsar_message import PulsarEntry, PulsarMessage, is_oversized, messages
from mledger.metastore.errors import MledgerError
from mledger.pb.PulsarApi_pb2 import MessageMetadata

LARGEST_PARSED = 256 << 10
SHOWN_CHARACTERS = 8_000
SHOWN_BYTES = 1_024
SHOWN_MESSAGES = 100
_LINE = 16
_PREFIX = "x-pulsar-"
_NUMBERS = {"INT8": ">b", "INT16": ">h", "INT32": ">i", "INT64": ">q", "FLOAT": ">f", "DOUBLE": ">d"}
_MILLISECONDS = ("DATE", "TIME", "TIMESTAMP")
Schema = Mapping[str, Any]
"""A version of a schema as the admin API shows it."""


class ShownPayload(Struct, frozen=True):
    """A payload as text; `form` says what it was taken for, `note` why not for what its schema says."""

    text: str
    form: str
    note: str = ""


class ShownMessage(Struct, frozen=True):
    """A message of an entry."""

    key: str | None
    properties: tuple[tuple[str, str], ...]
    event_time: int
    size: int
    payload: ShownPayload


class ShownEntry(Struct, frozen=True):
    """An entry: where it is, its metadata, its messages; `left_out` counts those of a large batch."""

    position: str
    published: str
    producer: str
    sequence: str
    details: tuple[tuple[str, str], ...]
    shown: tuple[ShownMessage, ...]
    left_out: int = 0


_DETAILS = {
    "deliver-at-time": "delivered at",
    "event-time": "event time",
    "compression": "compression",
    "broker-entry-metadata-index": "index",
    "replicated-from": "replicated from",
    "marker-type": "marker",
    "chunk-id": "chunk",
}


def plan_entry(answer: AdminAnswer, schema: Schema | None) -> ShownEntry:
    """The entry in an answer of the admin API, with payloads by `schema`."""
    fields = {name.lower().removeprefix(_PREFIX): value for name, value in answer.headers.items()}
    details = [(label, fields[name]) for name, label in _DETAILS.items() if name in fields]
    found, note = _messages(fields, answer.body)
    as_shown: Callable[[bytes], ShownPayload] = _bytes if note else lambda data: plan_payload(data, schema)
    shown = tuple(
        ShownMessage(
            key=each.key,
            properties=tuple(each.properties.items()),
            event_time=each.event_time,
            size=len(each.payload),
            payload=ShownPayload("", "no value") if each.null_value else as_shown(each.payload),
        )
        for each in found[:SHOWN_MESSAGES]
    )
    return ShownEntry(
        position=fields.get("message-id", ""),
        published=fields.get("publish-time", ""),
        producer=fields.get("producer-name", ""),
        sequence=fields.get("sequence-id", ""),
        details=(*details, *((("note", note),) if note else ())),
        shown=shown,
        left_out=max(0, len(found) - SHOWN_MESSAGES),
    )


def schema_version(answer: AdminAnswer) -> int | None:
    """The version of the schema that the entry names, None if it names none."""
    for name, value in answer.headers.items():
        if name.lower() == f"{_PREFIX}base64-schema-version-b64encoded":
            try:
                data = base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                return None
            return int.from_bytes(data[:8], "big", signed=True) if len(data) >= 8 else None
    return None


def _messages(fields: Mapping[str, str], body: bytes) -> tuple[list[PulsarMessage], str]:
    """The messages, and why the payload is shown whole, as bytes."""
    alone = PulsarMessage(
        body,
        key=fields.get("partition-key"),
        properties=_properties(fields),
        null_value=fields.get("null-value") == "true",
    )
    if fields.get("is-encrypted") == "true":
        return [alone], "the payload is encrypted"
    if "num-batch-message" not in fields:
        return [alone], ""
    try:
        metadata = MessageMetadata(
            producer_name="", sequence_id=0, publish_time=0, num_messages_in_batch=int(fields["num-batch-message"])
        )
        entry = PulsarEntry(metadata, body)
        if is_oversized(entry):
            return [alone], f"the batch says that it has {entry.message_count} messages: it is not taken apart"
        return messages(entry), ""
    except (MledgerError, ValueError) as error:
        return [alone], f"the batch cannot be taken apart: {error}"


def _properties(fields: Mapping[str, str]) -> dict[str, str]:
    try:
        found = json.loads(fields.get("property", "{}"))
    except (ValueError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def plan_payload(data: bytes, schema: Schema | None) -> ShownPayload:
    """The payload by its schema; without one, or if it is no value of it, as text or bytes."""
    kind = str((schema or {}).get("type", "NONE"))
    if schema is None or kind in ("NONE", "BYTES"):
        return _unknown(data)
    if len(data) > LARGEST_PARSED:
        return _with_note(_unknown(data), f"{len(data):,} bytes are not read by the schema")
    try:
        if kind == "AVRO":
            value = decode_avro(parse_avro(schema["data"].encode()), data)
            return ShownPayload(_json(value), "Avro")
        if kind == "JSON":
            return ShownPayload(_json(json.loads(data)), "JSON")
        if kind == "STRING":
            return ShownPayload(_cut(data.decode()), "text")
        if kind == "BOOLEAN":
            return ShownPayload(str(data != b"\x00").lower(), kind)
        if kind in _NUMBERS:
            return ShownPayload(str(struct.unpack(_NUMBERS[kind], data)[0]), kind)
        if kind in _MILLISECONDS:
            return ShownPayload(f"{struct.unpack('>q', data)[0]} ms", kind)
    except (MledgerError, ValueError, RecursionError, struct.error) as error:
        return _with_note(_unknown(data), f"not read as {kind}: {error}")
    return _with_note(_unknown(data), f"the schema is {kind}")


def _with_note(found: ShownPayload, note: str) -> ShownPayload:
    return ShownPayload(found.text, found.form, note)


def _unknown(data: bytes) -> ShownPayload:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _bytes(data)
    if not all(each.isprintable() or each in "\n\t\r" for each in text[: 4 * SHOWN_CHARACTERS]):
        return _bytes(data)
    if text[:1] in ("{", "[") and len(data) <= LARGEST_PARSED:
        try:
            return ShownPayload(_json(json.loads(text)), "JSON")
        except (ValueError, RecursionError):
            pass
    return ShownPayload(_cut(text), "text")


def _bytes(data: bytes) -> ShownPayload:
    """A dump of the first bytes."""
    lines = []
    for at in range(0, min(len(data), SHOWN_BYTES), _LINE):
        row = data[at : at + _LINE]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{at:04x}  {row.hex(' '):<47}  {text}")
    if len(data) > SHOWN_BYTES:
        lines.append(f"… {len(data) - SHOWN_BYTES:,} more bytes")
    return ShownPayload("\n".join(lines), "bytes")


def _json(value: Any) -> str:
    """The value as JSON, as far as it is shown: nested lists may have a thousand times as many blanks as characters."""
    pieces: list[str] = []
    left = SHOWN_CHARACTERS
    for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        pieces.append(piece[:left])
        left -= len(piece)
        if left < 0:
            return f"{''.join(pieces)}\n… and more"
    return "".join(pieces)


def _cut(text: str) -> str:
    left = len(text) - SHOWN_CHARACTERS
    return text if left <= 0 else f"{text[:SHOWN_CHARACTERS]}\n… {left:,} more characters"
