"""Managed-ledger and cursor records as bytes (formats.md, Managed-ledger records).

Reads the binary form, the compressed binary form, and the text form of very old clusters. Writes the binary form, as
Java does. A topic's record may be empty. Fields of newer versions are kept, in the record and in each
of its ledgers. A record that is cut off, damaged, or lacks a required field raises a RecordError that names its path.
"""

from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeVar

from google.protobuf.message import Message

from mledger.metastore.errors import RecordError
from mledger.metastore.records.compression import CompressionType, compress, decompress
from mledger.metastore.records.pb import MLDataFormats_pb2 as pb
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.protobuf import parse_binary, parse_text, record_error, text_of, unknown_fields
from mledger.metastore.records.values import (
    BatchDeletion,
    Decoded,
    LedgerBits,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
    PositionInfo,
    StateChunk,
)
from mledger.metastore.runtime.processes.gc_pause import collector_paused

_NAMES = {compression: compression.name for compression in CompressionType}
_TOPIC = "managed ledger's record"
_CURSOR = "cursor's record"
_STATE = "cursor's state"
_LARGE = 128 << 10  # bytes of a record that has thousands of values

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def decode_managed_ledger_info(data: bytes, path: str = "") -> Decoded[ManagedLedgerInfo]:
    """The topic's record in `data`; an empty one has no ledgers. RecordError."""
    return _decode(pb.ManagedLedgerInfo, _managed_ledger_info, data, _TOPIC, path)


def encode_managed_ledger_info(info: ManagedLedgerInfo, *, compression: str = "NONE") -> bytes:
    """The bytes of a topic's record; RecordError when it holds what the format cannot."""
    message = pb.ManagedLedgerInfo()
    with _Encoding(_TOPIC):
        for ledger in info.ledgers:
            _add_ledger_info(message, ledger)
        if info.terminated is not None:
            _set_position(message.terminatedPosition, info.terminated)
        for key, value in info.properties:
            message.properties.add(key=key, value=value)
        return _written(message, info.unknown, compression)


def decode_managed_cursor_info(data: bytes, path: str = "") -> Decoded[ManagedCursorInfo]:
    """The cursor's record in `data`. RecordError."""
    return _decode(pb.ManagedCursorInfo, _managed_cursor_info, data, _CURSOR, path)


def encode_managed_cursor_info(info: ManagedCursorInfo, *, compression: str = "NONE") -> bytes:
    """The bytes of a cursor's record; RecordError when it holds what the format cannot."""
    message = pb.ManagedCursorInfo()
    with _Encoding(_CURSOR):
        message.cursorsLedgerId = info.cursors_ledger_id
        if info.mark_delete is not None:
            message.markDeleteLedgerId, message.markDeleteEntryId = info.mark_delete
        _add_ranges(message.individualDeletedMessages, info.ranges)
        for name, number in info.properties:
            message.properties.add(name=name, value=number)
        if info.last_active:
            message.lastActive = info.last_active
        _add_batch_deletions(message.batchedEntryDeletionIndexInfo, info.batch_deletions)
        for name, value in info.cursor_properties:
            message.cursorProperties.add(name=name, value=value)
        if info.last_checkpoint is not None:
            message.lastCmCursorLedgerId, message.lastCmEntryId = info.last_checkpoint
        return _written(message, info.unknown, compression)


def decode_position_info(data: bytes, path: str = "") -> Decoded[PositionInfo]:
    """The cursor state in `data`, an entry of a cursor ledger; `path` names that entry in errors. RecordError."""
    return _decode(pb.PositionInfo, _position_info, data, _STATE, path)


def encode_position_info(info: PositionInfo, *, compression: str = "NONE") -> bytes:
    """The bytes of a cursor state; RecordError when it holds what the format cannot."""
    message = pb.PositionInfo()
    with _Encoding(_STATE):
        message.ledgerId, message.entryId = info.position
        _add_ranges(message.individualDeletedMessages, info.ranges)
        for name, value in info.properties:
            message.properties.add(name=name, value=value)
        _add_batch_deletions(message.batchedEntryDeletionIndexInfo, info.batch_deletions)
        for bits in info.ledger_bits:
            added = message.individualDeletedMessageRanges.add(key=bits.ledger_id, values=bits.words)
            if bits.bitmap:
                added.bitmap = bits.bitmap
        if info.chunk is not None:
            message.cursorStateChunk.partIndex = info.chunk.part_index
            message.cursorStateChunk.partCount = info.chunk.part_count
            if info.chunk.payload:
                message.cursorStateChunk.payload = info.chunk.payload
        return _written(message, info.unknown, compression)


def _decode(message_type: type[M], value_of: Callable[[M, str], T], data: bytes, what: str, path: str) -> Decoded[T]:
    record, compression = decompress(data, what, path)
    try:
        message, text = parse_binary(message_type, record, what, path), False
    except RecordError:
        if not _looks_like_text(record):
            raise
        message, text = parse_text(message_type, record, what, path), True
    with collector_paused(len(record), _LARGE):
        return Decoded(value_of(message, path), _NAMES[compression], text)


def _looks_like_text(record: bytes) -> bool:
    # Text begins with a field's name, no binary message does; a binary one that is cut off begins with no letter.
    return record[:1].isalpha() and record.isascii() and record.replace(b"\n", b" ").decode().isprintable()


class _Encoding:
    """Turns what protobuf refuses (numbers past 64 bits, text that is not Unicode) into a RecordError."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (ValueError, TypeError)):
            raise RecordError(f"the {self._what} cannot be written: {error}") from error


def _written(message: Message, unknown: bytes, compression: str) -> bytes:
    if compression not in CompressionType.__members__:
        raise RecordError(f"{compression!r} is not a compression: use one of {', '.join(CompressionType.__members__)}")
    if unknown:
        message.MergeFromString(unknown)
    return compress(message.SerializeToString(), CompressionType[compression])


def _managed_ledger_info(message: pb.ManagedLedgerInfo, path: str) -> ManagedLedgerInfo:
    return ManagedLedgerInfo(
        tuple([_ledger_info(ledger, path) for ledger in message.ledgerInfo]),
        _position(message.terminatedPosition) if message.HasField("terminatedPosition") else None,
        _key_values(message.properties, _TOPIC, path) if message.properties else (),
        unknown_fields(message),
    )


_NO_ZEROS: frozenset[str] = frozenset()
_SIZES: tuple[Literal["entries", "size", "timestamp"], ...] = ("entries", "size", "timestamp")


def _ledger_info(message: pb.ManagedLedgerInfo.LedgerInfo, path: str) -> LedgerInfo:
    entries, size, timestamp = message.entries, message.size, message.timestamp
    zeros = _NO_ZEROS
    if not (entries and size and timestamp):
        zeros = frozenset(name for name in _SIZES if message.HasField(name) and not getattr(message, name))
    return LedgerInfo(
        message.ledgerId,
        entries,
        size,
        timestamp,
        OffloadContext(message.offloadContext.SerializeToString()) if message.HasField("offloadContext") else None,
        _key_values(message.properties, _TOPIC, path) if message.properties else (),
        unknown_fields(message),
        zeros,
    )


def _add_ledger_info(message: pb.ManagedLedgerInfo, ledger: LedgerInfo) -> None:
    added = message.ledgerInfo.add(ledgerId=ledger.ledger_id)
    if ledger.entries or "entries" in ledger.zeros:
        added.entries = ledger.entries
    if ledger.size or "size" in ledger.zeros:
        added.size = ledger.size
    if ledger.timestamp or "timestamp" in ledger.zeros:
        added.timestamp = ledger.timestamp
    if ledger.offload is not None:
        added.offloadContext.MergeFromString(ledger.offload.encoded)
    for key, value in ledger.properties:
        added.properties.add(key=key, value=value)
    if ledger.unknown:
        added.MergeFromString(ledger.unknown)


def _managed_cursor_info(message: pb.ManagedCursorInfo, path: str) -> ManagedCursorInfo:
    ranges, properties = message.individualDeletedMessages, message.properties
    batches, cursor_properties = message.batchedEntryDeletionIndexInfo, message.cursorProperties
    return ManagedCursorInfo(
        message.cursorsLedgerId,
        _pair(message, "markDeleteLedgerId", "markDeleteEntryId", path),
        _ranges(ranges) if ranges else (),
        tuple([(text_of(each.name, _CURSOR, path), each.value) for each in properties]) if properties else (),
        message.lastActive,
        _batch_deletions(batches) if batches else (),
        tuple([(text_of(each.name, _CURSOR, path), text_of(each.value, _CURSOR, path)) for each in cursor_properties])
        if cursor_properties
        else (),
        _pair(message, "lastCmCursorLedgerId", "lastCmEntryId", path),
        unknown_fields(message),
    )


def _position_info(message: pb.PositionInfo, path: str) -> PositionInfo:
    chunk = message.cursorStateChunk if message.HasField("cursorStateChunk") else None
    return PositionInfo(
        position=Position(message.ledgerId, message.entryId),
        ranges=_ranges(message.individualDeletedMessages),
        properties=tuple((text_of(each.name, _STATE, path), each.value) for each in message.properties),
        batch_deletions=_batch_deletions(message.batchedEntryDeletionIndexInfo),
        ledger_bits=tuple(
            LedgerBits(each.key, tuple(each.values), each.bitmap) for each in message.individualDeletedMessageRanges
        ),
        chunk=StateChunk(chunk.partIndex, chunk.partCount, chunk.payload) if chunk is not None else None,
        unknown=unknown_fields(message),
    )


_Half = Literal["markDeleteLedgerId", "markDeleteEntryId", "lastCmCursorLedgerId", "lastCmEntryId"]


def _pair(message: pb.ManagedCursorInfo, ledger: _Half, entry: _Half, path: str) -> Position | None:
    has_ledger, has_entry = message.HasField(ledger), message.HasField(entry)
    if has_ledger != has_entry:
        raise record_error(_CURSOR, path, f"it has only one of {ledger} and {entry}")
    return Position(getattr(message, ledger), getattr(message, entry)) if has_ledger else None


def _position(message: pb.NestedPositionInfo) -> Position:
    return Position(message.ledgerId, message.entryId)


def _set_position(message: pb.NestedPositionInfo, position: Position) -> None:
    message.ledgerId, message.entryId = position


def _ranges(messages: Iterable[pb.MessageRange]) -> tuple[PositionRange, ...]:
    # Cursors with thousands of ranges are common: this skips the named tuples' own constructors.
    new, ranges = tuple.__new__, []
    for message in messages:
        lower, upper = message.lowerEndpoint, message.upperEndpoint
        low: Position = new(Position, (lower.ledgerId, lower.entryId))
        high: Position = new(Position, (upper.ledgerId, upper.entryId))
        found: PositionRange = new(PositionRange, (low, high))
        ranges.append(found)
    return tuple(ranges)


class _RangeList(Protocol):
    def add(self) -> pb.MessageRange: ...


def _add_ranges(messages: _RangeList, ranges: Iterable[PositionRange]) -> None:
    for (lower_ledger, lower_entry), (upper_ledger, upper_entry) in ranges:
        message = messages.add()
        lower, upper = message.lowerEndpoint, message.upperEndpoint
        lower.ledgerId, lower.entryId = lower_ledger, lower_entry
        upper.ledgerId, upper.entryId = upper_ledger, upper_entry


def _batch_deletions(messages: Iterable[pb.BatchedEntryDeletionIndexInfo]) -> tuple[BatchDeletion, ...]:
    return tuple(BatchDeletion(_position(each.position), tuple(each.deleteSet)) for each in messages)


class _BatchList(Protocol):
    def add(self) -> pb.BatchedEntryDeletionIndexInfo: ...


def _add_batch_deletions(messages: _BatchList, deletions: Iterable[BatchDeletion]) -> None:
    for deletion in deletions:
        message = messages.add()
        _set_position(message.position, deletion.position)
        message.deleteSet.extend(deletion.words)


def _key_values(messages: Iterable[pb.KeyValue], what: str, path: str) -> tuple[tuple[str, str], ...]:
    return tuple((text_of(each.key, what, path), text_of(each.value, what, path)) for each in messages)
