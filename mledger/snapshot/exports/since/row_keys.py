"""Which rows a node has in a snapshot's tables, found by its path alone; pure.

The nodes of `READ_ANEW` have no rows of their own: several make one row, or, of namespaces, some are only folders.
Their tables are made anew if one changes.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import NAMESPACE_POLICIES, ledger_id_from_path, underreplicated_path
from mledger.snapshot.tables.node_kinds import (
    RACKS,
    NodeKind,
    bundle_at,
    cursor_of,
    partitioned_topic_at,
    schema_topic_at,
    topic_key,
)
from mledger.snapshot.tables.row_builder import TABLES, kinds_of

Key = tuple[Any, ...]

ERRORS = "errors"
PATH = ("path",)

KEYS: Mapping[NodeKind, tuple[str, ...]] = {
    NodeKind.TOPIC: ("managed_ledger",),
    NodeKind.CURSOR: ("managed_ledger", "cursor"),
    NodeKind.LEDGER: ("ledger_id",),
    NodeKind.PARTITIONED_TOPIC: ("topic",),
    NodeKind.UNDERREPLICATED: ("ledger_id",),
    NodeKind.TENANT: ("tenant",),
    NodeKind.SCHEMA: ("topic",),
    NodeKind.BROKER: ("broker",),
    NodeKind.BUNDLE: ("namespace", "bundle"),
}
"""The columns that name a node of each kind in all tables with rows of it, except `errors`."""

OWN_TABLES: Mapping[NodeKind, str] = {
    NodeKind.TOPIC: "topics",
    NodeKind.CURSOR: "cursors",
    NodeKind.LEDGER: "ledgers",
    NodeKind.PARTITIONED_TOPIC: "partitioned_topics",
    NodeKind.UNDERREPLICATED: "underreplicated",
    NodeKind.TENANT: "tenants",
    NodeKind.SCHEMA: "schemas",
    NodeKind.BROKER: "brokers",
    NodeKind.BUNDLE: "bundles",
}
"""The table with one row for each node that decodes."""

READ_ANEW = frozenset({NodeKind.BOOKIE, NodeKind.READ_ONLY_BOOKIE, NodeKind.COOKIE, NodeKind.RACKS, NodeKind.NAMESPACE})


class RowMatch(Struct, frozen=True):
    """The rows whose `columns`, at most two, have one of `keys`."""

    columns: tuple[str, ...]
    keys: frozenset[Key]

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """For each row whether it is one of them."""
        first = rows[self.columns[0]]
        coded = pa.types.is_dictionary(first.type)
        values = pa.array(sorted({key[0] for key in self.keys}), first.type.value_type if coded else first.type)
        found = pc.is_in(first, value_set=values)
        if len(self.columns) == 1:
            return found
        places = pc.indices_nonzero(found)
        columns = [rows[column].take(places).to_pylist() for column in self.columns]
        exact = [
            place for place, key in zip(places.to_pylist(), zip(*columns, strict=True), strict=True) if key in self.keys
        ]
        return pc.is_in(pa.chunked_array([pa.array(range(len(rows)), pa.int64())]), pa.array(exact, pa.int64()))


def places_anew(ledgers_root: str) -> tuple[str, ...]:
    """How the paths of all nodes of READ_ANEW begin."""
    return f"{ledgers_root}/available/", f"{ledgers_root}/cookies/", RACKS, f"{NAMESPACE_POLICIES}/"


def any_of(matches: Sequence[RowMatch], rows: pa.Table) -> pa.ChunkedArray:
    """For each row whether one of `matches` has it."""
    found = pa.chunked_array([pa.repeat(False, len(rows))])
    for match in matches:
        found = pc.or_(found, match.mask(rows))
    return found


def columns_of(matches: Collection[RowMatch]) -> list[str]:
    """The columns that matches need."""
    return sorted({column for match in matches for column in match.columns})


def tables_of_kind(kind: NodeKind) -> list[str]:
    """The tables with rows of nodes of a kind, except `errors`."""
    return [table for table in TABLES if table != ERRORS and kind in kinds_of([table])]


def tables_anew() -> list[str]:
    """The tables of the nodes that are read anew."""
    return [table for table in TABLES if table != ERRORS and kinds_of([table]) <= READ_ANEW]


def key_of(kind: NodeKind, path: str, ledgers_root: str) -> Key | None:
    """The key of the node's rows by the columns of KEYS; None if a node at this path is always unreadable."""
    try:
        match kind:
            case NodeKind.TOPIC:
                return (topic_key(path).managed_ledger,)
            case NodeKind.CURSOR:
                return topic_key(path.rpartition("/")[0]).managed_ledger, cursor_of(path)
            case NodeKind.LEDGER:
                return (ledger_id_from_path(path, ledgers_root),)
            case NodeKind.PARTITIONED_TOPIC:
                return (partitioned_topic_at(path)[2],)
            case NodeKind.UNDERREPLICATED:
                return _marked_ledger(path, ledgers_root)
            case _:
                return _key_of_administration(kind, path)
    except InvalidName:
        pass
    return None


def _key_of_administration(kind: NodeKind, path: str) -> Key | None:
    match kind:
        case NodeKind.TENANT | NodeKind.BROKER:
            return (path.rpartition("/")[2],)
        case NodeKind.SCHEMA:
            return (schema_topic_at(path)[2],)
        case NodeKind.BUNDLE:
            return bundle_at(path)
    return None


def _marked_ledger(path: str, ledgers_root: str) -> Key | None:
    digits = path.rpartition("/urL")[2]
    if not (digits.isascii() and digits.isdigit()) or underreplicated_path(int(digits), ledgers_root) != path:
        return None
    return (int(digits),)
