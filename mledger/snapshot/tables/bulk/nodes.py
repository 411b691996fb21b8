"""A batch of nodes of one kind: their bytes side by side, and the columns that come from paths and stats; pure."""

from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from typing import Any

import numpy
import pyarrow as pa

from mledger.metastore.errors import InvalidName
from mledger.snapshot.tables.bulk.wire import PADDING, Numbers, require
from mledger.snapshot.tables.columns import INT, LONG, TEXT, TIME, Table, array_of
from mledger.snapshot.tables.node_kinds import TopicKey, topic_key
from mledger.snapshot.tables.records import FoundNode

Columns = Mapping[str, Callable[[], pa.Array]]
"""A table's columns by name, each made when it is asked for; null in all rows if it is not among them."""

Tables = Mapping[str, tuple[int, Columns]]
"""By table name: how many rows, and their columns."""


class NodeBatch:
    """Nodes of one kind, and their records at `starts`..`ends` of `data`, without the first `skipped` bytes of each."""

    def __init__(self, nodes: Sequence[FoundNode], skipped: int = 0) -> None:
        self.count = len(nodes)
        fields: Sequence[Any] = tuple(zip(*nodes, strict=True))
        self.paths, data, self._versions, self._created, self._modified, self.children, self._czxids, self._mzxids = (
            fields
        )
        self.data = numpy.frombuffer(b"".join((*data, PADDING)), numpy.uint8)
        lengths = numpy.fromiter(map(len, data), numpy.int64, self.count)
        self.ends = numpy.cumsum(lengths)
        self.starts = self.ends - lengths + skipped

    def node_columns(self) -> Columns:
        """Version and times, as the own row of a node has them."""
        return {
            "version": lambda: array_of(self._versions, INT),
            "created": lambda: array_of(self._created, TIME),
            "modified": lambda: array_of(self._modified, TIME),
        }

    def znode_columns(self) -> Columns:
        """The stat by ZooKeeper's names."""
        return {
            "version": lambda: array_of(self._versions, INT),
            "czxid": lambda: array_of(self._czxids, LONG),
            "mzxid": lambda: array_of(self._mzxids, LONG),
            "mtime": lambda: array_of(self._modified, TIME),
        }


class KeyColumns:
    """The columns that name the topics of nodes; names that several nodes after each other share are made once."""

    def __init__(self, keys: Sequence[TopicKey]) -> None:
        changes = numpy.fromiter(map(is_not, keys[1:], keys), numpy.bool_, len(keys) - 1)
        places = numpy.cumsum(changes)
        first = numpy.flatnonzero(changes) + 1
        self._place = numpy.concatenate((numpy.zeros(1, numpy.int64), places))
        self._keys = [keys[0], *map(keys.__getitem__, first.tolist())]

    def of(self, name: str) -> pa.Array:
        """One of them."""
        index = TopicKey._fields.index(name)
        return self._taken([key[index] for key in self._keys], INT if name == "partition" else TEXT)

    def columns(self, *names: str) -> Columns:
        """Several of them."""
        return {name: lambda name=name: self.of(name) for name in names}  # type: ignore[misc]

    def _taken(self, values: list[Any], kind: pa.DataType) -> pa.Array:
        found = pa.array(values, kind)
        return found if len(values) == len(self._place) else found.take(pa.array(self._place))


KEY = ("tenant", "namespace", "topic", "managed_ledger")


def topic_keys(paths: Sequence[str]) -> list[TopicKey]:
    """The topics whose managed ledgers are at these paths. UnusualRecords."""
    keys = [_topic_key(path) for path in paths]
    if None in keys:
        require(numpy.array([key is not None for key in keys]))
    return keys  # type: ignore[return-value]


def _topic_key(path: str) -> TopicKey | None:
    try:
        return topic_key(path)
    except InvalidName:
        return None


def repeated(columns: Columns, rows: Numbers) -> Columns:
    """The columns of records as columns of their rows: `rows` has the record of each."""
    return {name: lambda of=of: of().take(pa.array(rows)) for name, of in columns.items()}  # type: ignore[misc]


def index_within(rows: Numbers, counts: Numbers) -> Numbers:
    """The index of each row among those of its record; the rows are ordered by record."""
    found: Numbers = numpy.arange(len(rows)) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    return found


def batches_of(
    table: Table[Any], names: Sequence[str] | None, count: int, columns: Columns, most: int
) -> list[pa.RecordBatch]:
    """The rows of a table as batches of at most `most` rows, with the columns `names` (None: all)."""
    chosen = table.choose(names)
    if not chosen or not count:
        return [table.batch([None] * count, names)] if count else []
    arrays = [columns[column.name]() if column.name in columns else pa.nulls(count, column.type) for column in chosen]
    whole = pa.RecordBatch.from_arrays(arrays, schema=table.schema_of(names))
    return [whole.slice(at, most) for at in range(0, count, most)]
