"""Builds Arrow batches of several tables from nodes; pure. Each record is decoded once for all its tables.

Most nodes are read in bulk (`BulkNodes`); the others, and all if a scope is to be checked, become records and rows.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mledger.snapshot.tables.administration.tables import BROKERS, BUNDLES, NAMESPACES, SCHEMAS, TENANTS
from mledger.snapshot.tables.bulk.kinds import BulkNodes
from mledger.snapshot.tables.cluster import BOOKIES, ERRORS, PARTITIONED_TOPICS, UNDERREPLICATED
from mledger.snapshot.tables.columns import Table, tables_by_name
from mledger.snapshot.tables.cursors import CURSOR_HOLES, CURSORS, holes_of
from mledger.snapshot.tables.decoder import Bookies, Item, decode
from mledger.snapshot.tables.ledgers import ENSEMBLES, LEDGERS, members_of
from mledger.snapshot.tables.node_kinds import BOOKIE_KINDS, NodeKind
from mledger.snapshot.tables.records import (
    BookieNode,
    BrokerNode,
    BundleNode,
    CursorNode,
    FoundNode,
    Ledger,
    NamespaceNode,
    PartitionedTopicNode,
    SchemaNode,
    TenantNode,
    Topic,
    Underreplicated,
    UnreadableNode,
)
from mledger.snapshot.tables.scope import TopicScope
from mledger.snapshot.tables.topics import TOPIC_LEDGERS, TOPICS, topic_ledgers_of
from mledger.snapshot.zookeeper_files.errors import UnknownTable

TABLES: Mapping[str, Table[Any]] = tables_by_name(
    TOPICS,
    TOPIC_LEDGERS,
    CURSORS,
    CURSOR_HOLES,
    LEDGERS,
    ENSEMBLES,
    BOOKIES,
    PARTITIONED_TOPICS,
    UNDERREPLICATED,
    ERRORS,
    TENANTS,
    NAMESPACES,
    SCHEMAS,
    BROKERS,
    BUNDLES,
)
"""All tables by name."""

BATCH_ROWS = 8192
"""The most rows of a batch; the rows of the last record may exceed it."""

_KINDS: Mapping[str, frozenset[NodeKind]] = {
    "topics": frozenset({NodeKind.TOPIC}),
    "topic_ledgers": frozenset({NodeKind.TOPIC}),
    "cursors": frozenset({NodeKind.CURSOR}),
    "cursor_holes": frozenset({NodeKind.CURSOR}),
    "ledgers": frozenset({NodeKind.LEDGER}),
    "ensembles": frozenset({NodeKind.LEDGER}),
    "bookies": BOOKIE_KINDS,
    "partitioned_topics": frozenset({NodeKind.PARTITIONED_TOPIC}),
    "underreplicated": frozenset({NodeKind.UNDERREPLICATED}),
    "errors": frozenset(NodeKind),
    "tenants": frozenset({NodeKind.TENANT}),
    "namespaces": frozenset({NodeKind.NAMESPACE}),
    "schemas": frozenset({NodeKind.SCHEMA}),
    "brokers": frozenset({NodeKind.BROKER}),
    "bundles": frozenset({NodeKind.BUNDLE}),
}


def _itself(item: Any) -> tuple[Any]:
    return (item,)


_ROWS: Mapping[type, tuple[tuple[str, Callable[[Any], Iterable[Any]]], ...]] = {
    Topic: (("topics", _itself), ("topic_ledgers", topic_ledgers_of)),
    CursorNode: (("cursors", _itself), ("cursor_holes", holes_of)),
    Ledger: (("ledgers", _itself), ("ensembles", members_of)),
    PartitionedTopicNode: (("partitioned_topics", _itself),),
    Underreplicated: (("underreplicated", _itself),),
    UnreadableNode: (("errors", _itself),),
    BookieNode: (("bookies", _itself),),
    TenantNode: (("tenants", _itself),),
    NamespaceNode: (("namespaces", _itself),),
    SchemaNode: (("schemas", _itself),),
    BrokerNode: (("brokers", _itself),),
    BundleNode: (("bundles", _itself),),
}
"""The tables that each type of record has rows in, and the function that returns these rows."""

Wanted = Mapping[str, Sequence[str] | None]
"""The requested tables by name, each with the requested columns (None: all)."""

Batch = tuple[str, pa.RecordBatch]
"""A table's name, and some of its rows."""


def table_named(name: str) -> Table[Any]:
    """The table of that name; UnknownTable."""
    if name not in TABLES:
        raise UnknownTable(f"there is no table {name!r}: load one of {', '.join(TABLES)}")
    return TABLES[name]


def kinds_of(tables: Collection[str]) -> frozenset[NodeKind]:
    """The kinds of nodes to read for these tables; UnknownTable."""
    return frozenset().union(*(_KINDS[table_named(name).name] for name in tables))


def rows_of(item: Item | UnreadableNode | BookieNode) -> Iterator[tuple[str, Iterable[Any]]]:
    """The tables that a record has rows in, its own first, each with these rows."""
    for table, rows in _ROWS[type(item)]:
        yield table, rows(item)


class Assembly:
    """Collects rows of the requested tables and returns them as batches."""

    def __init__(self, wanted: Wanted, scope: TopicScope, ledgers_root: str) -> None:
        """Raises UnknownTable, UnknownColumn."""
        for name, columns in wanted.items():
            table_named(name).choose(columns)
        self._wanted = dict(wanted)
        self._scope = scope
        self._root = ledgers_root
        self._everything = scope.everything
        self._rows: dict[str, list[Any]] = {name: [] for name in wanted}
        self._takers: dict[type, list[tuple[list[Any], Callable[[Any], Iterable[Any]]]]] = {
            kind: [(self._rows[table], rows) for table, rows in tables if table in wanted]
            for kind, tables in _ROWS.items()
        }
        self._bookies = Bookies()
        self._bulk = BulkNodes(self._wanted, ledgers_root, BATCH_ROWS, self._add_decoded)

    def add(self, kind: NodeKind, node: FoundNode) -> None:
        """Add a node; a node that no requested table uses is ignored."""
        if kind in BOOKIE_KINDS:
            self._bookies.add(kind, node)
        elif not self._everything or not self._bulk.takes(kind, node):
            self._add_decoded(kind, node)

    def add_item(self, item: Item | UnreadableNode) -> None:
        """Add a decoded record."""
        if not self._everything and not isinstance(item, Underreplicated) and not self._scope.admits(item):
            return
        for kept, rows in self._takers[type(item)]:
            kept.extend(rows(item))

    def _add_decoded(self, kind: NodeKind, node: FoundNode) -> None:
        if (item := decode(kind, node, self._root)) is not None:
            self.add_item(item)

    def full(self) -> Iterator[Batch]:
        """The batches of tables that have enough rows for one."""
        yield from self._bulk.full()
        for name, rows in self._rows.items():
            while len(rows) >= BATCH_ROWS:
                yield self._batch(name, rows[:BATCH_ROWS])
                del rows[:BATCH_ROWS]

    def rest(self) -> Iterator[Batch]:
        """The batches of all remaining rows, and of the bookies."""
        yield from self._bulk.rest()
        bookies, unreadable = self._bookies.finish()
        if "bookies" in self._rows:
            self._rows["bookies"].extend(bookies)
        for each in unreadable:
            self.add_item(each)
        yield from self.full()
        for name, rows in self._rows.items():
            if rows:
                yield self._batch(name, rows)
                rows.clear()

    def _batch(self, name: str, rows: Sequence[Any]) -> Batch:
        return name, TABLES[name].batch(rows, self._wanted[name])
