"""Makes the batches of the tables from nodes of the kinds that bulk reading knows, many nodes at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import pyarrow as pa

from mledger.snapshot.tables.bulk import cursors, ledgers, topics
from mledger.snapshot.tables.bulk.nodes import Tables, batches_of
from mledger.snapshot.tables.bulk.wire import UnusualRecords
from mledger.snapshot.tables.column_limits import is_unicode
from mledger.snapshot.tables.columns import Table
from mledger.snapshot.tables.cursors import CURSOR_HOLES, CURSORS
from mledger.snapshot.tables.ledgers import ENSEMBLES, LEDGERS
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.topics import TOPIC_LEDGERS, TOPICS

Wanted = Mapping[str, Sequence[str] | None]
Batch = tuple[str, pa.RecordBatch]

MOST_NODES = 8192
"""How many nodes are read at once."""
MOST_BYTES = 4 << 20
"""How many bytes of records are read at once; the last record may exceed it. Reading takes some ten times as much."""


class _Reader(NamedTuple):
    """How nodes of a kind are read: which may be, by a look at their first bytes, and the tables of those."""

    is_usual: Callable[[FoundNode], bool]
    tables_of: Callable[[Sequence[FoundNode], str], Tables]
    tables: tuple[Table[Any], ...]


_READERS: Mapping[NodeKind, _Reader] = {
    NodeKind.TOPIC: _Reader(topics.is_usual, topics.topic_tables, (TOPICS, TOPIC_LEDGERS)),
    NodeKind.CURSOR: _Reader(cursors.is_usual, cursors.cursor_tables, (CURSORS, CURSOR_HOLES)),
    NodeKind.LEDGER: _Reader(ledgers.is_usual, ledgers.ledger_tables, (LEDGERS, ENSEMBLES)),
}


class BulkNodes:
    """Collects nodes until there are enough of a kind, and makes the batches of the tables from them."""

    def __init__(
        self, wanted: Wanted, ledgers_root: str, batch_rows: int, add_one: Callable[[NodeKind, FoundNode], None]
    ) -> None:
        """`batch_rows` is the most rows of a batch; `add_one` takes the nodes that are to be decoded one by one."""
        self._wanted = wanted
        self._root = ledgers_root
        self._batch_rows = batch_rows
        self._add_one = add_one
        self._waiting: dict[NodeKind, list[FoundNode]] = {kind: [] for kind in _READERS}
        self._bytes: dict[NodeKind, int] = dict.fromkeys(_READERS, 0)

    def takes(self, kind: NodeKind, node: FoundNode) -> bool:
        """Take a node; False for one that it leaves to the caller."""
        reader = _READERS.get(kind)
        if reader is None or not reader.is_usual(node) or not is_unicode(node.path):
            return False
        self._waiting[kind].append(node)
        self._bytes[kind] += len(node.data)
        return True

    def full(self) -> Iterator[Batch]:
        """The batches of nodes of which there are enough."""
        for kind, nodes in self._waiting.items():
            if len(nodes) >= MOST_NODES or self._bytes[kind] >= MOST_BYTES:
                yield from self._read(kind)

    def rest(self) -> Iterator[Batch]:
        """The batches of all remaining nodes."""
        for kind in self._waiting:
            yield from self._read(kind)

    def _read(self, kind: NodeKind) -> Iterator[Batch]:
        nodes, self._waiting[kind], self._bytes[kind] = self._waiting[kind], [], 0
        for some in _portions(nodes):
            batches, unusual = read_bulk(kind, some, self._wanted, self._root, self._batch_rows)
            yield from batches
            for node in unusual:
                self._add_one(kind, node)


def read_bulk(
    kind: NodeKind, nodes: Sequence[FoundNode], wanted: Wanted, ledgers_root: str, batch_rows: int
) -> tuple[list[Batch], list[FoundNode]]:
    """The batches of the wanted tables; and the nodes that are to be decoded one by one."""
    reader, unusual = _READERS[kind], list[FoundNode]()
    while nodes:
        try:
            made = reader.tables_of(nodes, ledgers_root)
        except UnusualRecords as found:
            unusual += compress(nodes, found.rows)
            nodes = list(compress(nodes, ~found.rows))
            continue
        return list(_batches(reader, made, wanted, batch_rows)), unusual
    return [], unusual


def _portions(nodes: list[FoundNode]) -> Iterator[list[FoundNode]]:
    """The nodes in portions of at most MOST_NODES, and MOST_BYTES but for the last node."""
    portion: list[FoundNode] = []
    size = 0
    for node in nodes:
        portion.append(node)
        size += len(node.data)
        if len(portion) >= MOST_NODES or size >= MOST_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _batches(reader: _Reader, made: Tables, wanted: Wanted, batch_rows: int) -> Iterator[Batch]:
    for table in reader.tables:
        if table.name in wanted:
            for batch in batches_of(table, wanted[table.name], *made[table.name], batch_rows):
                yield table.name, batch
