"""The rows of `cursors` and `cursor_holes` of many cursors at once; pure."""

from collections.abc import Sequence

import numpy
import pyarrow as pa

from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.snapshot.tables.bulk.nodes import (
    KEY,
    Columns,
    KeyColumns,
    NodeBatch,
    Tables,
    index_within,
    repeated,
    topic_keys,
)
from mledger.snapshot.tables.bulk.texts import choice, numbers_of, offsets_of, read_entries, times_of, usual_times
from mledger.snapshot.tables.bulk.wire import Bytes, FieldValues, Flags, Layout, MessageFields, Numbers, within
from mledger.snapshot.tables.columns import INT, LONG_MAP, LONGS, TEXT, TEXT_MAP
from mledger.snapshot.tables.cursors import IN_ZNODE, SNAPSHOT
from mledger.snapshot.tables.node_kinds import cursor_of
from mledger.snapshot.tables.records import FoundNode

_CURSOR = Layout(numbers=(1, 2, 3, 6, 9, 10), sized=(4, 5, 7, 8))
_RANGE = Layout(sized=(1, 2))
_POSITION = Layout(numbers=(1, 2))
_BATCH = Layout(numbers=(2,), sized=(1,))
_FIRST_BYTE = b"\x08"
_LARGEST = 1 << 62
"""Entries beyond it are unusual: differences of smaller ones fit into 64 bits."""


def is_usual(node: FoundNode) -> bool:
    """Whether the record may be read with others: it is neither compressed nor text."""
    return node.data.startswith(_FIRST_BYTE)


def cursor_tables(nodes: Sequence[FoundNode], _: str) -> Tables:
    """The rows of both tables. UnusualRecords."""
    batch = NodeBatch(nodes)
    keys = KeyColumns(topic_keys([path[: path.rindex("/")] for path in batch.paths])).columns(*KEY)
    record = _Record(batch)
    own: Columns = {
        **keys,
        "cursor": lambda: pa.array([cursor_of(path) for path in batch.paths], TEXT),
        "state": lambda: choice((SNAPSHOT, IN_ZNODE), TEXT, (record.ledger == NO_CURSOR_LEDGER).astype(numpy.int64)),
        **batch.znode_columns(),
    }
    return {
        "cursors": (batch.count, {**own, **batch.node_columns(), **record.columns()}),
        "cursor_holes": (len(record.holes), {**record.hole_columns(), **repeated(own, record.holes)}),
    }


class _Record:
    """The records of cursors. UnusualRecords."""

    def __init__(self, batch: NodeBatch) -> None:
        self.count = count = batch.count
        data = batch.data
        fields = MessageFields(data, batch.starts, batch.ends, _CURSOR)
        self.ledger = fields.required(1)
        self._mark_delete_ledger, self._has_mark_delete = fields.number(2)
        self._mark_delete_entry, has_entry = fields.number(3)
        self._last_active, _ = fields.number(6)
        has_checkpoint, has_checkpoint_entry = fields.number(9)[1], fields.number(10)[1]
        fields.require(
            (self._has_mark_delete == has_entry)
            & (has_checkpoint == has_checkpoint_entry)
            & usual_times(self._last_active)
        )
        ranges, batches = fields.many(4, sized=True), fields.many(7, sized=True)
        self._ranges, self._batches = ranges.counts(count), batches.counts(count)
        numbers, texts = fields.many(5, sized=True), fields.many(8, sized=True)
        self._properties = read_entries(data, numbers, numbers.rows, count, count, numbers=True)
        self._texts = read_entries(data, texts, texts.rows, count, count)
        self._read_holes(data, ranges, batches)

    def _read_holes(self, data: Bytes, ranges: FieldValues, batches: FieldValues) -> None:
        """The holes of each cursor: its ranges, then its partial batches."""
        count = self.count
        each = MessageFields(data, ranges.starts, ranges.ends, _RANGE, ranges.rows, count)
        lower, upper = (_positions(data, each.required_sized(number), ranges.rows, count) for number in (1, 2))
        part = MessageFields(data, batches.starts, batches.ends, _BATCH, batches.rows, count)
        at = _positions(data, part.required_sized(1), batches.rows, count)
        words = part.many(2)
        rows = numpy.concatenate((ranges.rows, batches.rows))
        order = numpy.argsort(rows, kind="stable")
        self.holes = rows[order]
        self._is_range = order < len(ranges)
        self._lower = [numpy.concatenate(pair)[order] for pair in zip(lower, (at[0], at[1] - 1), strict=True)]
        self._upper = [numpy.concatenate(pair)[order] for pair in zip(upper, at, strict=True)]
        # The batches keep their order among the holes, and so do their words.
        self._word_holes = numpy.flatnonzero(~self._is_range)[words.rows]
        self._words = words.values

    def columns(self) -> Columns:
        """Those of `cursors`."""
        given = self._has_mark_delete
        return {
            "cursor_ledger_id": lambda: pa.array(self.ledger),
            "mark_delete_ledger_id": lambda: numbers_of(self._mark_delete_ledger, given),
            "mark_delete_entry_id": lambda: numbers_of(self._mark_delete_entry, given),
            "holes": lambda: numbers_of(self._ranges, kind=INT),
            "partial_batches": lambda: numbers_of(self._batches, kind=INT),
            "properties": lambda: self._properties.array(LONG_MAP),
            "cursor_properties": lambda: self._texts.array(TEXT_MAP),
            "last_active": lambda: times_of(self._last_active, self._last_active != 0),
            "snapshot_ledger_id": lambda: numbers_of(self._mark_delete_ledger, given),
            "snapshot_entry_id": lambda: numbers_of(self._mark_delete_entry, given),
        }

    def hole_columns(self) -> Columns:
        """Those of `cursor_holes`."""
        within: Flags = self._is_range & (self._lower[0] == self._upper[0])
        return {
            "index": lambda: numbers_of(index_within(self.holes, self._ranges + self._batches), kind=INT),
            "lower_ledger_id": lambda: pa.array(self._lower[0]),
            "lower_entry_id": lambda: pa.array(self._lower[1]),
            "upper_ledger_id": lambda: pa.array(self._upper[0]),
            "upper_entry_id": lambda: pa.array(self._upper[1]),
            "entries": lambda: numbers_of(self._upper[1] - self._lower[1], within),
            "ack_set": self._ack_sets,
        }

    def _ack_sets(self) -> pa.Array:
        offsets = offsets_of(self._word_holes, len(self.holes)).to_numpy()
        is_null = numpy.append(self._is_range, False)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=is_null), pa.array(self._words), type=LONGS)


def _positions(data: Bytes, part: FieldValues, of: Numbers, records: int) -> tuple[Numbers, Numbers]:
    """Ledger and entry of the positions in a field."""
    fields = MessageFields(data, part.starts, part.ends, _POSITION, of, records)
    ledgers, entries = fields.required(1), fields.required(2)
    fields.require(within(entries, _LARGEST))
    return ledgers, entries
