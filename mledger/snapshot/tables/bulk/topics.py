"""The rows of `topics` and `topic_ledgers` of many topics at once; pure."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy
import pyarrow as pa
from google.protobuf.message import DecodeError

from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext
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
from mledger.snapshot.tables.bulk.texts import numbers_of, read_entries, times_of, usual_times
from mledger.snapshot.tables.bulk.wire import FieldValues, Flags, Layout, MessageFields, Numbers, require, within
from mledger.snapshot.tables.columns import FLAG, INT, TEXT, TEXT_MAP
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.topics import TOPIC_LEDGERS

_INFO = Layout(sized=(1, 2, 3))
_LEDGER = Layout(numbers=(1, 2, 3, 4), sized=(5, 6))
_POSITION = Layout(numbers=(1, 2))
_FIRST_BYTES = tuple(bytes([number << 3 | 2]) for number in (1, 2, 3))
_LARGEST = 1 << 40
"""Entries and sizes beyond it are unusual: sums of smaller ones fit into 64 bits."""


def is_usual(node: FoundNode) -> bool:
    """Whether the record may be read with others: it is neither compressed nor text."""
    return not node.data or node.data.startswith(_FIRST_BYTES)


def topic_tables(nodes: Sequence[FoundNode], _: str) -> Tables:
    """The rows of both tables. UnusualRecords."""
    batch = NodeBatch(nodes)
    keys = KeyColumns(topic_keys(batch.paths))
    info = _Info(batch)
    topics = {
        **keys.columns(*KEY, "partitioned_topic", "partition"),
        **batch.node_columns(),
        **batch.znode_columns(),
        **info.columns(),
        "cursors": lambda: pa.array(batch.children, INT),
        "compression": lambda: pa.repeat(pa.scalar("NONE", TEXT), batch.count),
        "text_form": lambda: pa.repeat(pa.scalar(False, FLAG), batch.count),
    }
    shared = repeated({**keys.columns(*KEY), **batch.znode_columns()}, info.ledgers.rows)
    return {
        "topics": (batch.count, topics),
        "topic_ledgers": (len(info.ledgers), {**info.ledger_columns(), **shared}),
    }


class _Offloaded(NamedTuple):
    """What the columns about a ledger's copy take of a row."""

    offload: OffloadContext


class _Info:
    """The records of topics. UnusualRecords."""

    def __init__(self, batch: NodeBatch) -> None:
        self.count = count = batch.count
        data = batch.data
        fields = MessageFields(data, batch.starts, batch.ends, _INFO)
        self._terminated = fields.one(2, sized=True)
        properties = fields.many(3, sized=True)
        self.ledgers = ledgers = fields.many(1, sized=True)
        rows = ledgers.rows
        positions = self._terminated
        position = MessageFields(data, positions.starts, positions.ends, _POSITION, positions.rows, count)
        self._position = position.required(1), position.required(2)
        self._properties = read_entries(data, properties, properties.rows, count, count)
        self.counts = ledgers.counts(count)
        self._last = numpy.cumsum(self.counts) - 1
        each = MessageFields(data, ledgers.starts, ledgers.ends, _LEDGER, rows, count)
        self._ids = each.required(1)
        self._entries, self._sizes, self._closed = each.number(2)[0], each.number(3)[0], each.number(4)[0]
        each.require(within(self._entries, _LARGEST) & within(self._sizes, _LARGEST) & usual_times(self._closed))
        self._offloads = each.one(5, sized=True)
        self._contexts = [_context(message) for message in _messages(batch, self._offloads)]
        require(
            numpy.array([context is not None for context in self._contexts], numpy.bool_),
            rows[self._offloads.rows],
            count,
        )
        texts = each.many(6, sized=True)
        self._ledger_properties = read_entries(data, texts, rows[texts.rows], count, len(ledgers))

    def columns(self) -> Columns:
        """Those of `topics`."""
        return {
            "ledgers": lambda: numbers_of(self.counts, kind=INT),
            "entries": lambda: pa.array(self._sums(self._entries)),
            "size": lambda: pa.array(self._sums(self._sizes)),
            "first_ledger_id": lambda: self._id_at(self._last - self.counts + 1),
            "last_ledger_id": lambda: self._id_at(self._last),
            "terminated_ledger_id": lambda: self._where_terminated(0),
            "terminated_entry_id": lambda: self._where_terminated(1),
            "properties": lambda: self._properties.array(TEXT_MAP),
        }

    def ledger_columns(self) -> Columns:
        """Those of `topic_ledgers`."""
        rows = self.ledgers.rows
        return {
            "index": lambda: numbers_of(index_within(rows, self.counts), kind=INT),
            "ledger_id": lambda: pa.array(self._ids),
            "last": lambda: pa.array(numpy.arange(len(rows)) == self._last[rows]),
            "entries": lambda: pa.array(self._entries),
            "size": lambda: pa.array(self._sizes),
            "closed": lambda: times_of(self._closed, self._closed != 0),
            "properties": lambda: self._ledger_properties.array(TEXT_MAP),
            **({} if not self._contexts else self._offload_columns()),
        }

    def _offload_columns(self) -> Columns:
        copied = [_Offloaded(context) for context in self._contexts if context is not None]
        place, given = numpy.zeros(len(self.ledgers), numpy.int64), numpy.zeros(len(self.ledgers), numpy.bool_)
        place[self._offloads.rows], given[self._offloads.rows] = numpy.arange(len(copied)), True
        places = pa.array(place, mask=~given)
        return {
            column.name: lambda column=column: column.array(copied).take(places)  # type: ignore[misc]
            for column in TOPIC_LEDGERS.columns
            if column.name.startswith("offload")
        }

    def _sums(self, values: Numbers) -> Numbers:
        sums = numpy.concatenate((numpy.zeros(1, numpy.int64), numpy.cumsum(values)))
        found: Numbers = sums[self._last + 1] - sums[self._last + 1 - self.counts]
        return found

    def _id_at(self, places: Numbers) -> pa.Array:
        has: Flags = self.counts > 0
        return pa.array(self._ids).take(pa.array(numpy.where(has, places, 0), mask=~has))

    def _where_terminated(self, part: int) -> pa.Array:
        values, given = numpy.zeros(self.count, numpy.int64), numpy.zeros(self.count, numpy.bool_)
        values[self._terminated.rows], given[self._terminated.rows] = self._position[part], True
        return numbers_of(values, given)


def _messages(batch: NodeBatch, part: FieldValues) -> list[bytes]:
    return [
        batch.data[start:end].tobytes() for start, end in zip(part.starts.tolist(), part.ends.tolist(), strict=True)
    ]


def _context(message: bytes) -> OffloadContext | None:
    """Where a ledger's copy is; None if that does not decode, or has text that is none."""
    try:
        context = OffloadContext.FromString(message)
    except DecodeError:
        return None
    if not context.IsInitialized():
        return None
    driver = context.driverMetadata
    texts = (driver.name, *(text for each in driver.properties for text in (each.key, each.value)))
    return context if all(isinstance(text, str) for text in texts) else None
