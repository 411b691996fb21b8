"""Whether the columns of the tables can hold a record: 64-bit numbers, times that Arrow has, Unicode texts. Pure.

Sums and differences of numbers that fit may not, and JSON has numbers and texts that no column has.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from mledger.metastore.errors import RecordError
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext
from mledger.metastore.records.values import ManagedCursorInfo, ManagedLedgerInfo
from mledger.snapshot.tables.administration.tables import BROKERS, BUNDLES, NAMESPACES, TENANTS
from mledger.snapshot.tables.cluster import BOOKIES, PARTITIONED_TOPICS, UNDERREPLICATED
from mledger.snapshot.tables.columns import (
    INT,
    LARGEST_MS,
    LONG,
    LONG_MAP,
    LONGS,
    TEXT,
    TEXT_MAP,
    TEXTS,
    TIME,
    Column,
    Table,
)
from mledger.snapshot.tables.records import (
    BookieNode,
    BrokerNode,
    BundleNode,
    NamespaceNode,
    PartitionedTopicNode,
    SchemaNode,
    TenantNode,
    Underreplicated,
)

_STAT = ("version", "created", "modified", "registered", "czxid", "mzxid", "mtime")
"""Columns of a znode's stat, whose numbers fit."""


def _checked(table: Table[Any]) -> tuple[Column[Any], ...]:
    return tuple(column for column in table.columns if column.name not in _STAT)


_COLUMNS: Mapping[type, tuple[Column[Any], ...]] = {
    PartitionedTopicNode: _checked(PARTITIONED_TOPICS),
    Underreplicated: _checked(UNDERREPLICATED),
    TenantNode: _checked(TENANTS),
    NamespaceNode: _checked(NAMESPACES),
    SchemaNode: (),
    BrokerNode: _checked(BROKERS),
    BundleNode: _checked(BUNDLES),
    BookieNode: _checked(BOOKIES),
}
_LIMITS = {INT: 1 << 31, LONG: 1 << 63, TIME: LARGEST_MS}


def check_topic(info: ManagedLedgerInfo, path: str) -> None:
    """Raise RecordError for a topic's record whose sums, times or texts no column holds."""
    ledgers = info.ledgers
    _check_sum("entries", (each.entries for each in ledgers), path)
    _check_sum("sizes", (each.size for each in ledgers), path)
    for ledger in ledgers:
        _check_time(ledger.timestamp, path)
        if ledger.offload is not None:
            _check_offload(ledger.offload.encoded, path)


def check_cursor(record: ManagedCursorInfo, path: str) -> None:
    """Raise RecordError for a cursor's record whose ranges or time no column holds."""
    _check_time(record.last_active, path)
    for lower, upper in record.ranges:
        if lower.ledger_id == upper.ledger_id and not _holds(upper.entry_id - lower.entry_id, LONG):
            raise RecordError(f"the record at {path} has a range of {upper.entry_id - lower.entry_id} entries", path)
    for batch in record.batch_deletions:
        if not _holds(batch.position.entry_id - 1, LONG):
            raise RecordError(f"the record at {path} has a part of entry {batch.position.entry_id}", path)


def check_ledger(metadata: LedgerMetadata, path: str) -> None:
    """Raise RecordError for a ledger's metadata whose sizes or time no column holds."""
    _check_time(metadata.ctime, path)
    if metadata.state is LedgerState.CLOSED and not _holds(metadata.last_entry + 1, LONG):
        raise RecordError(f"the metadata at {path} has {metadata.last_entry + 1} entries", path)


def check_row(row: Any, path: str) -> None:
    """Raise RecordError for a record of another kind that has a value which its column does not hold."""
    for column in _COLUMNS[type(row)]:
        if column.given is not None and column.given(row) is None:
            continue
        value = column.of(row)
        if value is not None and not _holds(value, column.type):
            raise RecordError(f"the column {column.name} cannot hold what {path} has: {str(value)[:60]!r}", path)


def _check_sum(what: str, numbers: Iterable[int], path: str) -> None:
    if not _holds(total := sum(numbers), LONG):
        raise RecordError(f"the {what} of the ledgers at {path} are {total} together", path)


def _check_time(ms: int, path: str) -> None:
    if not _holds(ms, TIME):
        raise RecordError(f"the record at {path} has the time {ms} ms, which no timestamp holds", path)


def _check_offload(message: bytes, path: str) -> None:
    try:
        context = OffloadContext.FromString(message)
    except DecodeError:
        raise RecordError(f"the offload in the record at {path} cannot be read", path) from None
    _check_time(context.timestamp, path)
    driver = context.driverMetadata
    for text in (driver.name, *(text for each in driver.properties for text in (each.key, each.value))):
        if not isinstance(text, str):
            raise RecordError(f"the offload in the record at {path} has {text!r}, which is not UTF-8", path)


def _holds(value: Any, kind: Any) -> bool:
    """Whether a column of this type can have the value."""
    limit = _LIMITS.get(kind)
    if limit is not None:
        return bool(-limit <= value < limit)
    if kind in (TEXT, TEXTS):
        return all(map(is_unicode, (value,) if kind == TEXT else value))
    if kind == LONGS:
        return all(_holds(each, LONG) for each in value)
    if kind in (TEXT_MAP, LONG_MAP):
        return all(is_unicode(key) and _holds(each, kind.item_type) for key, each in value.items())
    return True


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: JSON and ZooKeeper's paths may have halves of surrogate pairs."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
