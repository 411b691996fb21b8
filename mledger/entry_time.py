"""When an entry was published, and the search for a place by time (C7).

An entry of a Pulsar broker begins with, where the broker adds it, 0x0e02, a 4-byte size and BrokerEntryMetadata
(broker_timestamp 1); then 0x0e01 and a 4-byte checksum, where there is one; then a 4-byte size and MessageMetadata
(publish_time 3). Integers are big-endian.
"""

from collections.abc import Awaitable, Callable, Iterator

from metastore.errors import RecordError
from metastore.position import Position
from mledger.ledger_list import LedgerList
from mledger.reading import Entry
from mledger.walk import find_newest

BROKER_METADATA = 0x0E02
CHECKSUM = 0x0E01
BROKER_TIMESTAMP = 1
PUBLISH_TIME = 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 63  # bits


def publish_time(payload: bytes) -> int:
    """When a Pulsar entry was published, ms since 1970: the broker's time if it has one, else the producer's.

    RecordError for a payload that is not an entry of a Pulsar broker.
    """
    at = 0
    try:
        if _number(payload, at, 2) == BROKER_METADATA:
            size = _number(payload, at + 2, 4)
            for field, value in _varint_fields(payload[at + 6 : at + 6 + size]):
                if field == BROKER_TIMESTAMP:
                    return value
            at += 6 + size
        if _number(payload, at, 2) == CHECKSUM:
            at += 6
        size = _number(payload, at, 4)
        if size <= len(payload) - at - 4:
            for field, value in _varint_fields(payload[at + 4 : at + 4 + size]):
                if field == PUBLISH_TIME:
                    return value
    except IndexError:
        pass
    raise RecordError(
        "the entry is not one of a Pulsar broker, it has no publish time: say how to tell an entry's time"
    )


def _number(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "big")


def _varint_fields(message: bytes) -> Iterator[tuple[int, int]]:
    """The varint fields of a protobuf message, (number, value); IndexError if it is cut off."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
        elif kind == _BYTES:
            size, at = _varint(message, at)
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise IndexError(at)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > _LONGEST_VARINT:  # without an end to it, a payload of such bytes takes hours
            raise IndexError(at)


async def find_by_time(
    ledgers: LedgerList,
    read_entry: Callable[[Position], Awaitable[Entry]],
    time_ms: int,
    entry_time: Callable[[bytes], int],
) -> Position | None:
    """The newest entry published before `time_ms` (ms since 1970), None if the first one was not.

    Binary search over all entries; publish times are taken to rise.
    """
    search = find_newest(ledgers, ledgers.first_position)
    try:
        position = next(search)
        while True:
            entry = await read_entry(position)
            position = search.send(entry_time(entry.payload) < time_ms)
    except StopIteration as stop:
        found: Position | None = stop.value
        return found
