"""Pulsar's messages and the entries that hold them (formats.md, Pulsar's entries). No I/O.

An entry consists of, in this order:

- optionally, from the broker: 0x0e02, a 4-byte size, and BrokerEntryMetadata;
- optionally, from the producer: 0x0e01 and the CRC32C of everything that follows;
- a 4-byte size and MessageMetadata;
- the payload, compressed as the metadata says.

The payload of a batch has, for each message, a 4-byte size, SingleMessageMetadata and the value.
Integers are big-endian. In a compacted ledger the original message id precedes each entry
(`decode_compacted_entry`).
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence

import google_crc32c
from msgspec import Struct, field

from mledger.metastore.records.compression import CompressionType, pack_block, unpack_block
from mledger.metastore.records.protobuf import parse_binary, record_error, text_of, unknown_numbers
from mledger.pb.PulsarApi_pb2 import (
    BrokerEntryMetadata,
    KeyValue,
    MessageIdData,
    MessageMetadata,
    SingleMessageMetadata,
)
from mledger.pb.PulsarApi_pb2 import CompressionType as WireCompression

BROKER_METADATA_MAGIC = b"\x0e\x02"
CHECKSUM_MAGIC = b"\x0e\x01"
MOST_MESSAGES = 1 << 16
MOST_UNPACKED = 64 << 20
"""Of a batch that is taken apart: messages, and bytes without compression; far more than clients send."""
_SIZE = 4
_WHAT = "Pulsar entry"


class PulsarMessage(Struct, frozen=True):
    """One message as a consumer receives it. Times are in ms since 1970; 0 means none."""

    payload: bytes
    key: str | None = None
    """The partition key as sent: base64 if `key_is_base64`."""
    key_is_base64: bool = False
    ordering_key: bytes | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    sequence_id: int = 0
    event_time: int = 0
    null_value: bool = False
    """The message has no value: compaction deletes the key."""
    compacted_out: bool = False
    """Compaction removed it from its batch; consumers of the compacted topic do not receive it."""

    @property
    def key_bytes(self) -> bytes | None:
        """The key's bytes. Raises RecordError if it should be base64 and is not."""
        if self.key is None or not self.key_is_base64:
            return None if self.key is None else self.key.encode()
        try:
            return base64.b64decode(self.key, validate=True)
        except binascii.Error as error:
            raise record_error("key of a message", "", f"{self.key!r} is not base64: {error}") from None


class PulsarEntry(Struct, frozen=True):
    """A decoded entry; `payload` is stored as is, possibly compressed or encrypted."""

    metadata: MessageMetadata
    payload: bytes
    broker: BrokerEntryMetadata | None = None

    @property
    def batched(self) -> bool:
        """Whether the payload is a batch, which may hold a single message."""
        return self.metadata.HasField("num_messages_in_batch")

    @property
    def message_count(self) -> int:
        """The number of its messages, including those that compaction removed."""
        return self.metadata.num_messages_in_batch

    @property
    def encrypted(self) -> bool:
        """Whether the payload is encrypted."""
        return len(self.metadata.encryption_keys) > 0

    @property
    def marker(self) -> bool:
        """Whether it is a broker's marker (transaction, replication) that consumers do not receive."""
        return self.metadata.HasField("marker_type")

    @property
    def published(self) -> int:
        """The publish time, in ms since 1970: the broker's if it has one, else the producer's."""
        if self.broker is not None and self.broker.HasField("broker_timestamp"):
            return self.broker.broker_timestamp
        return self.metadata.publish_time


def decode_entry(data: bytes, where: str = "") -> PulsarEntry:
    """Decode `data` and verify its checksum.

    Raises RecordError, which names the entry as `where`, if it is not a Pulsar entry.
    """
    at, broker = 0, None
    if data.startswith(BROKER_METADATA_MAGIC):
        raw, at = _sized(data, len(BROKER_METADATA_MAGIC), "broker's metadata", where)
        broker = parse_binary(BrokerEntryMetadata, raw, "broker's metadata of a " + _WHAT, where)
    if data.startswith(CHECKSUM_MAGIC, at):
        expected = int.from_bytes(data[at + 2 : at + 6], "big")
        at += 6
        found = google_crc32c.value(data[at:])
        if found != expected:
            raise record_error(
                _WHAT, where, f"its checksum is {expected:#010x}, but that of its bytes is {found:#010x}"
            )
    raw, at = _sized(data, at, "metadata", where)
    return PulsarEntry(parse_binary(MessageMetadata, raw, "metadata of a " + _WHAT, where), data[at:], broker)


def broker_metadata_of(data: bytes, where: str = "") -> BrokerEntryMetadata | None:
    """What a broker put before an entry, which may be no message; None if nothing. RecordError if that is damaged."""
    if data[: len(BROKER_METADATA_MAGIC)] != BROKER_METADATA_MAGIC:
        return None
    raw, _ = _sized(data, len(BROKER_METADATA_MAGIC), "broker's metadata", where)
    return parse_binary(BrokerEntryMetadata, raw, "broker's metadata of a " + _WHAT, where)


def decode_compacted_entry(data: bytes, where: str = "") -> tuple[MessageIdData, PulsarEntry]:
    """Decode an entry of a compacted ledger; returns its message id in its topic, and the entry.

    Raises RecordError as `decode_entry` does.
    """
    original, body = split_compacted_entry(data, where)
    return original, decode_entry(body, where)


def split_compacted_entry(data: bytes, where: str = "") -> tuple[MessageIdData, bytes]:
    """The message id of an entry of a compacted ledger, and the entry as its topic has it.

    Raises RecordError, which names it as `where`, if it is cut off or its id is damaged.
    """
    raw, at = _sized(data, 0, "message id", where)
    original = parse_binary(MessageIdData, raw, "message id of a compacted " + _WHAT, where)
    return original, _sized(data, at, "body", where)[0]


def is_oversized(entry: PulsarEntry) -> bool:
    """Whether a broker had better not take the entry apart: 7 KB of a hostile producer can hold 40 million messages.

    That would take minutes, in which no client is served, and more memory than there is.
    """
    return entry.message_count > MOST_MESSAGES or entry.metadata.uncompressed_size > MOST_UNPACKED


def messages(entry: PulsarEntry, where: str = "") -> list[PulsarMessage]:
    """The messages of `entry`, in the order of their batch indexes.

    Raises RecordError for a damaged or encrypted payload.
    """
    payload = _unpacked(entry, where)
    if not entry.batched:
        return [_single(entry.metadata, payload)]
    sequence_id = entry.metadata.sequence_id
    return [
        _of_batch(one, sequence_id, data[len(data) - one.payload_size :]) for one, data in _split(entry, payload, where)
    ]


def batch_parts(entry: PulsarEntry, where: str = "") -> list[tuple[SingleMessageMetadata, bytes]]:
    """The messages of a batch: the metadata of each, and its bytes with size and metadata, as the batch has them.

    Raises RecordError for a damaged or encrypted payload.
    """
    return list(_split(entry, _unpacked(entry, where), where))


def rebatched(entry: PulsarEntry, parts: Iterable[bytes | None]) -> bytes:
    """A batch with these parts of `batch_parts`, compressed as before; None: compaction removed that message."""
    metadata = MessageMetadata()
    metadata.CopyFrom(entry.metadata)
    payload = b"".join(_COMPACTED_OUT if part is None else part for part in parts)
    metadata.uncompressed_size = len(payload)
    kind = CompressionType(metadata.compression)
    stored = payload if kind is CompressionType.NONE else pack_block(kind, payload)
    return _with_broker_metadata(assemble_entry(metadata, stored), entry.broker)


def compacted_entry(message_id: MessageIdData, data: bytes) -> bytes:
    """An entry of a compacted ledger: the message id in the topic, and the entry as the topic has it."""
    return _with_size(message_id.SerializeToString()) + _with_size(data)


def _unpacked(entry: PulsarEntry, where: str) -> bytes:
    metadata = entry.metadata
    if entry.encrypted:
        names = ", ".join(key.key for key in metadata.encryption_keys)
        raise record_error(_WHAT, where, f"its payload is encrypted with {names}")
    if MessageMetadata.COMPRESSION_FIELD_NUMBER in unknown_numbers(metadata):
        raise record_error(_WHAT, where, "its payload has an unknown compression type")
    kind = CompressionType(metadata.compression)
    if kind is CompressionType.NONE:
        return entry.payload
    return unpack_block(kind, entry.payload, metadata.uncompressed_size, _WHAT, where)


def _split(entry: PulsarEntry, payload: bytes, where: str) -> Iterator[tuple[SingleMessageMetadata, bytes]]:
    at = 0
    for _ in range(entry.metadata.num_messages_in_batch):
        raw, value_at = _sized(payload, at, "message of a batch", where)
        one = parse_binary(SingleMessageMetadata, raw, "metadata of a message of a batch", where)
        end = value_at + one.payload_size
        if one.payload_size < 0 or end > len(payload):
            raise record_error(_WHAT, where, f"a message of its batch has an invalid size of {one.payload_size} bytes")
        yield one, payload[at:end]
        at = end


def encode_entry(
    batch: Sequence[PulsarMessage],
    *,
    producer_name: str,
    publish_time: int,
    compression: CompressionType = CompressionType.NONE,
    batched: bool | None = None,
    broker: BrokerEntryMetadata | None = None,
) -> bytes:
    """Encode `batch` as one entry, published at `publish_time` (ms since 1970).

    Several messages, or `batched`, make a batch; otherwise a single message is stored without one.
    Raises ValueError for no message, and for several if `batched` is False.
    """
    if not batch or (len(batch) > 1 and batched is False):
        raise ValueError(
            f"an entry that is {'not ' if batched is False else ''}a batch cannot hold {len(batch)} messages"
        )
    first = batch[0]
    metadata = MessageMetadata(producer_name=producer_name, sequence_id=first.sequence_id, publish_time=publish_time)
    if batched or len(batch) > 1:
        metadata.num_messages_in_batch = len(batch)
        metadata.highest_sequence_id = batch[-1].sequence_id
        _put_key(metadata, first)  # as Java does: a broker uses it to choose a Key_Shared consumer
        payload = b"".join(_packed(message) for message in batch)
    else:
        _put_message(metadata, first)
        payload = first.payload
    if compression is not CompressionType.NONE:
        metadata.compression = WireCompression.Value(compression.name)
        metadata.uncompressed_size = len(payload)
        payload = pack_block(compression, payload)
    return _with_broker_metadata(assemble_entry(metadata, payload), broker)


def assemble_entry(metadata: MessageMetadata, payload: bytes) -> bytes:
    """An entry of `metadata` and a payload that is as it says, with the checksum before them."""
    body = _with_size(metadata.SerializeToString()) + payload
    checksum: int = google_crc32c.value(body)
    return CHECKSUM_MAGIC + checksum.to_bytes(4, "big") + body


def _with_broker_metadata(entry: bytes, broker: BrokerEntryMetadata | None) -> bytes:
    return entry if broker is None else BROKER_METADATA_MAGIC + _with_size(broker.SerializeToString()) + entry


def _packed(message: PulsarMessage) -> bytes:
    """Encode a message of a batch."""
    metadata = SingleMessageMetadata(payload_size=len(message.payload), sequence_id=message.sequence_id)
    _put_message(metadata, message)
    if message.compacted_out:
        metadata.compacted_out = True
    return _with_size(metadata.SerializeToString()) + message.payload


def _put_message(metadata: MessageMetadata | SingleMessageMetadata, message: PulsarMessage) -> None:
    metadata.properties.extend(_pairs(message.properties))
    _put_key(metadata, message)
    if message.event_time:
        metadata.event_time = message.event_time
    if message.null_value:
        metadata.null_value = True


def _put_key(metadata: MessageMetadata | SingleMessageMetadata, message: PulsarMessage) -> None:
    if message.key is not None:
        metadata.partition_key = message.key
        metadata.partition_key_b64_encoded = message.key_is_base64
    if message.ordering_key is not None:
        metadata.ordering_key = message.ordering_key


def _pairs(properties: Mapping[str, str]) -> Iterable[KeyValue]:
    return (KeyValue(key=key, value=value) for key, value in properties.items())


def _single(metadata: MessageMetadata, payload: bytes) -> PulsarMessage:
    """The message of an entry that is not a batch."""
    return _message(metadata, metadata.sequence_id, payload, compacted_out=False)


def _of_batch(metadata: SingleMessageMetadata, first_sequence_id: int, payload: bytes) -> PulsarMessage:
    # Old clients sent a sequence id for the batch only, not for each message.
    sequence_id = metadata.sequence_id if metadata.HasField("sequence_id") else first_sequence_id
    return _message(metadata, sequence_id, payload, compacted_out=metadata.compacted_out)


def _message(
    metadata: MessageMetadata | SingleMessageMetadata, sequence_id: int, payload: bytes, *, compacted_out: bool
) -> PulsarMessage:
    return PulsarMessage(
        payload=payload,
        key=text_of(metadata.partition_key, _WHAT, "") if metadata.HasField("partition_key") else None,
        key_is_base64=metadata.partition_key_b64_encoded,
        ordering_key=metadata.ordering_key if metadata.HasField("ordering_key") else None,
        properties={text_of(pair.key, _WHAT, ""): text_of(pair.value, _WHAT, "") for pair in metadata.properties},
        sequence_id=sequence_id,
        event_time=metadata.event_time,
        null_value=metadata.null_value,
        compacted_out=compacted_out,
    )


def _with_size(message: bytes) -> bytes:
    return len(message).to_bytes(_SIZE, "big") + message


def _sized(data: bytes, at: int, what: str, where: str) -> tuple[bytes, int]:
    """The size-prefixed bytes at `at`, and where they end. Raises RecordError if `data` is too short."""
    begin = at + _SIZE
    end = begin + int.from_bytes(data[at:begin], "big")
    if begin > len(data) or end > len(data):
        raise record_error(_WHAT, where, f"its {what} extends past its {len(data)} bytes")
    return data[begin:end], end


_COMPACTED_OUT = _with_size(SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString())
