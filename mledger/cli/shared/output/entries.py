"""Entries and messages on stdout, as a stream: raw payloads for a pipe, or objects for programs."""

import base64
import sys
from typing import BinaryIO, Protocol

from mledger.cli.shared.messages import messages as stderr
from mledger.cli.shared.output.decoded_messages import decoded_heading, decoded_line
from mledger.cli.shared.output.node_text import plain
from mledger.cli.shared.output.results import Output, Value, pairs
from mledger.messages.pulsar_message import (
    MOST_MESSAGES,
    PulsarEntry,
    PulsarMessage,
    decode_compacted_entry,
    decode_entry,
    messages,
)
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import decode_position_info
from mledger.pb.PulsarApi_pb2 import CompressionType

PAYLOAD_KEYS = ("payload", "payload_base64")
ENTRY_KEYS = ("position", "size", "unconfirmed", *PAYLOAD_KEYS)
STATE_KEYS = ("position", "size", "unconfirmed", "state")
MESSAGE_KEYS = (
    *("position", "size", "unconfirmed", "producer_name", "publish_time", "broker_time", "index"),
    *("compression", "schema_version", "marker_type", "deliver_at_time", "transaction", "chunk", "encrypted_with"),
    *("batch_index", "key", "properties", "sequence_id", "event_time", "key_is_base64", "ordering_key_base64"),
    *("null_value", "compacted_out", *PAYLOAD_KEYS),
)
"""All keys that an object of a stream may have, in the order of a table's columns (CSV)."""


LARGEST_UNPACKED = 1 << 30
"""Of an entry, in bytes: a few thousand can unpack to more than there is memory."""

_Kind = tuple[str, str]
"""What was left out, one and more of it."""
_COMPACTED_OUT = ("compacted-out message", "compacted-out messages")
_MARKER = ("marker of a broker", "markers of brokers")
_ENCRYPTED = ("encrypted entry", "encrypted entries")
_OVERSIZED = ("entry too large to be unpacked", "entries too large to be unpacked")


class Writer(Protocol):
    """Writes entries one after another."""

    def write(self, position: str, payload: bytes, *, unconfirmed: bool = False) -> None:
        """Write one entry; `unconfirmed`: it is not proven acknowledged (Q3)."""

    def flush(self) -> None:
        """Flush the stream."""

    def end(self, *, failed: bool = False) -> None:
        """Flush the stream, and print warnings about what was written to stderr; `failed`: more was to come."""


class Unconfirmed:
    """Warns about shown entries that are not proven acknowledged."""

    def __init__(self) -> None:
        self._first = self._last = ""

    def note(self, position: str, unconfirmed: bool) -> None:
        """Note that an entry was shown."""
        if unconfirmed:
            self._first, self._last = self._first or position, position

    def warn(self) -> None:
        """Warn on stderr if there were any."""
        if self._first:
            which = self._first if self._first == self._last else f"{self._first} to {self._last}"
            stderr.warning(f"{which} unconfirmed: the ledger is open, or its writer died")


class EntryWriter:
    """Writes raw entries; `raw` omits the newline after each payload."""

    def __init__(self, output: Output, *, raw: bool = False, stream: BinaryIO | None = None) -> None:
        self._output = output
        self._end = b"" if raw else b"\n"
        self._stream = stream or sys.stdout.buffer
        self._unconfirmed = Unconfirmed()

    def write(self, position: str, payload: bytes, *, unconfirmed: bool = False) -> None:
        """Write one entry."""
        self._unconfirmed.note(position, unconfirmed)
        if self._output.for_programs:
            self._output.item(ENTRY_KEYS, _entry(position, payload, unconfirmed) | _payload(payload))
        else:
            self._stream.write(payload + self._end)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def end(self, *, failed: bool = False) -> None:
        """Flush the stream, and warn about unconfirmed entries."""
        if not failed:
            self._output.end(ENTRY_KEYS)
        self.flush()
        self._unconfirmed.warn()


class MessageWriter:
    """Writes the messages in Pulsar's entries, one payload per line; other entries are written raw.

    With `compacted` the entries are those of a compacted ledger, and messages have their original
    positions. With `decoded` people see one message per line with its metadata, as programs always
    do.
    """

    def __init__(
        self, output: Output, *, compacted: bool = False, decoded: bool = False, stream: BinaryIO | None = None
    ) -> None:
        self._output = output
        self._decoded = decoded
        self._headed = False
        self._compacted = compacted
        self._stream = stream or sys.stdout.buffer
        self._unconfirmed = Unconfirmed()
        self._left_out: dict[_Kind, int] = {}

    def write(self, position: str, payload: bytes, *, unconfirmed: bool = False) -> None:
        """Write one entry's messages. Raises RecordError for a damaged payload of a Pulsar entry."""
        self._unconfirmed.note(position, unconfirmed)
        described = _entry(position, payload, unconfirmed)
        try:
            if self._compacted:
                place, entry = decode_compacted_entry(payload, position)
                described["position"] = f"{place.ledgerId}:{place.entryId}"
            else:
                entry = decode_entry(payload, position)
        except RecordError:
            self._show(described | _payload(payload), payload)
            return
        described |= _of_entry(entry)
        if why := _why_left_whole(entry):
            self._leave_out(why, described | _payload(entry.payload))
            return
        for index, message in enumerate(messages(entry, position)):
            shown = described | _of_message(index if entry.batched else None, message) | _payload(message.payload)
            if message.compacted_out:
                self._leave_out(_COMPACTED_OUT, shown)
            else:
                self._show(shown, message.payload)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def end(self, *, failed: bool = False) -> None:
        """Flush the stream, and warn about unconfirmed and omitted entries."""
        if not failed:
            self._output.end(MESSAGE_KEYS)
        self.flush()
        self._unconfirmed.warn()
        for (one, more), count in self._left_out.items():
            stderr.warning(f"{count:,} {one if count == 1 else more} omitted: --output json and --raw show them")

    def _show(self, described: dict[str, Value], payload: bytes) -> None:
        if self._output.for_programs:
            self._output.item(MESSAGE_KEYS, described)
        elif self._decoded:
            if not self._headed:
                self._stream.write(f"{decoded_heading()}\n".encode())
                self._headed = True
            self._stream.write(f"{decoded_line(described, payload)}\n".encode())
        else:
            self._stream.write(payload + b"\n")

    def _leave_out(self, what: "_Kind", described: dict[str, Value]) -> None:
        if self._output.for_programs:
            self._output.item(MESSAGE_KEYS, described)
        else:
            self._left_out[what] = self._left_out.get(what, 0) + 1


class StateWriter:
    """Writes the states in a cursor ledger's entries, as one JSON object per line for people too."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._unconfirmed = Unconfirmed()

    def write(self, position: str, payload: bytes, *, unconfirmed: bool = False) -> None:
        """Write one entry. Raises RecordError if it is not a cursor's state."""
        state = plain(decode_position_info(payload, f"entry {position}").value)
        self._unconfirmed.note(position, unconfirmed)
        self._output.item(STATE_KEYS, _entry(position, payload, unconfirmed) | {"state": state})

    def flush(self) -> None:
        """Flush the stream."""
        sys.stdout.flush()

    def end(self, *, failed: bool = False) -> None:
        """Flush the stream, and warn about unconfirmed entries."""
        if not failed:
            self._output.end(STATE_KEYS)
        self.flush()
        self._unconfirmed.warn()


def _why_left_whole(entry: PulsarEntry) -> _Kind | None:
    """Why an entry is not taken apart; None if it is. 1,700 bytes of a hostile producer hold three million messages."""
    if entry.marker:
        return _MARKER
    if entry.encrypted:
        return _ENCRYPTED
    too_many = entry.batched and entry.message_count > MOST_MESSAGES
    return _OVERSIZED if too_many or entry.metadata.uncompressed_size > LARGEST_UNPACKED else None


def _entry(position: str, payload: bytes, unconfirmed: bool) -> dict[str, Value]:
    return {"position": position, "size": len(payload), "unconfirmed": unconfirmed}


def _of_entry(entry: PulsarEntry) -> dict[str, Value]:
    """The keys shared by all messages of an entry."""
    metadata, broker = entry.metadata, entry.broker
    index = broker.index if broker is not None and broker.HasField("index") else None
    found: dict[str, Value] = {
        "producer_name": metadata.producer_name,
        "publish_time": metadata.publish_time,
        "broker_time": entry.published if broker is not None and broker.HasField("broker_timestamp") else None,
        "index": index,
        "compression": CompressionType.Name(metadata.compression),
        "schema_version": _schema_version(metadata.schema_version) if metadata.HasField("schema_version") else None,
    }
    if metadata.HasField("marker_type"):
        found["marker_type"] = metadata.marker_type
    if metadata.HasField("deliver_at_time"):
        found["deliver_at_time"] = metadata.deliver_at_time
    if metadata.HasField("txnid_most_bits"):
        found["transaction"] = f"({metadata.txnid_most_bits},{metadata.txnid_least_bits})"
    if metadata.HasField("chunk_id"):
        found["chunk"] = f"{metadata.chunk_id + 1} of {metadata.num_chunks_from_msg}, {metadata.uuid}"
    if entry.encrypted:
        found["encrypted_with"] = tuple(key.key for key in metadata.encryption_keys)
    return found


def _schema_version(version: bytes) -> int | str:
    """Pulsar's registry counts in 8 bytes, big-endian; other versions are shown in hexadecimal."""
    return int.from_bytes(version, "big") if len(version) == 8 else version.hex()


def _of_message(batch_index: int | None, message: PulsarMessage) -> dict[str, Value]:
    """A message's own keys; `size` is that of its payload."""
    found: dict[str, Value] = {
        "size": len(message.payload),
        "batch_index": batch_index,
        "key": message.key,
        "properties": pairs(message.properties.items()),
        "sequence_id": message.sequence_id,
        "event_time": message.event_time or None,
    }
    if message.key_is_base64:
        found["key_is_base64"] = True
    if message.ordering_key is not None:
        found["ordering_key_base64"] = base64.b64encode(message.ordering_key).decode()
    if message.null_value:
        found["null_value"] = True
    if message.compacted_out:
        found["compacted_out"] = True
    return found


def _payload(payload: bytes) -> dict[str, Value]:
    try:
        return {"payload": payload.decode("utf-8")}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}
