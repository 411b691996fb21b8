"""The table `changes`: what each transaction did to each znode, with the record before and after as JSON.

A record is shown as the row of its own table, by that table's columns, without those that name the topic or tell the
znode's stat. Rows of further tables are lists in it by table name: `topic_ledgers`, `cursor_holes`, `ensembles`.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import ledger_id_from_path
from mledger.metastore.records.position import Position
from mledger.snapshot.tables.columns import FLAG, INT, LONG, TEXT, TIME, Column, Table
from mledger.snapshot.tables.decoder import CURSOR, Bookies, Item, decode
from mledger.snapshot.tables.node_kinds import BOOKIE_KINDS, NodeKind, cursor_of, kind_of
from mledger.snapshot.tables.node_places import NOWHERE, NodePlace, place_at, place_of_topic
from mledger.snapshot.tables.records import (
    BookieNode,
    CursorNode,
    FoundNode,
    Ledger,
    Underreplicated,
    UnreadableNode,
)
from mledger.snapshot.tables.row_builder import TABLES, rows_of
from mledger.snapshot.tables.scope import TopicScope
from mledger.snapshot.zookeeper_files.transactions.znode_changes import ZnodeChange

_KEYS = ("tenant", "namespace", "topic", "managed_ledger", "cursor", "ledger_id", "path", "kind")
_STAT = ("version", "created", "modified", "czxid", "mzxid", "mtime", "registered")
_LEFT_OUT = frozenset((*_KEYS, *_STAT, "cursors", "data", "bytes"))
_ALL = (1 << 64) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Change(NamedTuple):
    """A row: the change, the topic and cursor that it is about, and the record before and after."""

    node: ZnodeChange
    path: str
    kind: NodeKind | None
    place: NodePlace
    cursor: str | None
    ledger_id: int | None
    before: str | None
    after: str | None
    came_from: Position | None
    went_to: Position | None

    @property
    def session(self) -> str:
        """The session's id in hex, as ZooKeeper's log has it."""
        return f"0x{self.node.session & _ALL:x}"


Record = Item | UnreadableNode | BookieNode


def changes_of(changes: Sequence[tuple[str, ZnodeChange]], scope: TopicScope, ledgers_root: str) -> list[Change]:
    """The rows of changes, each given with its path below the chroot, that the scope admits."""
    kinds = [kind_of(path, ledgers_root) for path, _ in changes]
    records = [
        (_record(kind, path, node.before, ledgers_root), _record(kind, path, node.after, ledgers_root))
        for kind, (path, node) in zip(kinds, changes, strict=True)
    ]
    texts = _texts([record for pair in records for record in pair])
    rows = [
        _row(path, node, kind, pair, (texts[2 * index], texts[2 * index + 1]), ledgers_root)
        for index, (kind, (path, node), pair) in enumerate(zip(kinds, changes, records, strict=True))
    ]
    return [row for row in rows if scope.admits_place(row.place)]


def _record(kind: NodeKind | None, path: str, data: bytes | None, ledgers_root: str) -> Record | None:
    if kind is None or data is None:
        return None
    node = FoundNode(path, data, 0, 0, 0, 0)
    if kind not in BOOKIE_KINDS:
        return decode(kind, node, ledgers_root)
    bookies = Bookies()
    bookies.add(kind, node)
    found, unreadable = bookies.finish()
    records: list[Record] = [*found, *unreadable]
    return records[0] if records else None


def _texts(records: Sequence[Record | None]) -> list[str | None]:
    """The records as JSON; the rows of each table are made together."""
    rows: defaultdict[str, list[Any]] = defaultdict(list)
    places: defaultdict[str, list[tuple[int, bool]]] = defaultdict(list)
    for index, record in enumerate(records):
        for number, (table, found) in enumerate(() if record is None else rows_of(record)):
            before = len(rows[table])
            rows[table].extend(found)
            places[table].extend([(index, number == 0)] * (len(rows[table]) - before))
    documents: list[dict[str, Any]] = [{} for _ in records]
    further: list[defaultdict[str, list[Any]]] = [defaultdict(list) for _ in records]
    for table in rows:
        names = [column.name for column in TABLES[table].columns if column.name not in _LEFT_OUT]
        for (index, own), row in zip(places[table], _values(TABLES[table].batch(rows[table], names)), strict=True):
            plain = {name: _plain(name, value, table) for name, value in row.items() if value is not None}
            if own:
                documents[index] = plain
            else:
                further[index][table].append(plain)
    return [
        None if record is None else json.dumps(document | more, ensure_ascii=False)
        for record, document, more in zip(records, documents, further, strict=True)
    ]


def _values(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows; times in microseconds since 1970, because Python's end with the year 9999."""
    columns = [column.cast(pa.int64()) if column.type == TIME else column for column in batch.columns]
    found: list[dict[str, Any]] = pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist()
    return found


def _plain(name: str, value: Any, table: str) -> Any:
    """A value for JSON: a map, which Arrow gives as pairs, as an object; a time as ISO 8601 text, bytes in hex."""
    if isinstance(value, bytes):
        return value.hex()
    (column,) = TABLES[table].choose([name])
    if column.type == TIME:
        return _time(value)
    return dict(value) if isinstance(value, list) and column.sql_type.startswith("map") else value


def _time(microseconds: int) -> str | int:
    """A time as text; in ms since 1970, if it is in no calendar."""
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return microseconds // 1000


def _row(
    path: str,
    node: ZnodeChange,
    kind: NodeKind | None,
    records: tuple[Record | None, Record | None],
    texts: tuple[str | None, str | None],
    ledgers_root: str,
) -> Change:
    before, after = records
    record = before if after is None or isinstance(after, UnreadableNode) else after
    place = place_at(kind, path)
    cursor = cursor_of(path) if kind is NodeKind.CURSOR else None
    if isinstance(record, Ledger):
        place = NOWHERE if record.key is None else place_of_topic(record.key)
        cursor = record.custom.get(CURSOR)
    positions = _mark_delete(before), _mark_delete(after)
    return Change(
        node,
        path,
        kind,
        place,
        cursor,
        _ledger_id(kind, path, record, ledgers_root),
        *texts,
        *positions,
    )


def _mark_delete(record: Record | None) -> Position | None:
    return record.record.mark_delete if isinstance(record, CursorNode) else None


def _ledger_id(kind: NodeKind | None, path: str, record: Record | None, ledgers_root: str) -> int | None:
    if isinstance(record, Underreplicated):
        return record.ledger_id
    try:
        return ledger_id_from_path(path, ledgers_root) if kind is NodeKind.LEDGER else None
    except InvalidName:
        return None


def _part(name: str, part: int) -> Any:
    position = attrgetter(name)
    return lambda row: None if position(row) is None else position(row)[part]


CHANGES: Table[Change] = Table(
    "changes",
    "what one operation of a transaction did to a znode",
    (
        Column("zxid", LONG, "the transaction", attrgetter("node.zxid")),
        Column(
            "index", INT, "which operation of a multi, or which node of a session that ended", attrgetter("node.place")
        ),
        Column("time", TIME, "when, by the leader's clock", attrgetter("node.time_ms")),
        Column("session", TEXT, "who: the session, in hex as ZooKeeper's log has it", attrgetter("session")),
        Column(
            "operation",
            TEXT,
            "`create`, `set`, `delete`, `set acl`; `close session`: deleted with the session that owned it",
            attrgetter("node.operation"),
        ),
        Column("path", TEXT, "the znode, below the chroot", attrgetter("path")),
        Column(
            "kind",
            TEXT,
            "topic, cursor, ledger, …; null if no other table has such znodes",
            lambda row: row.kind and row.kind.value,
        ),
        Column("tenant", TEXT, "the tenant, if the znode belongs to one", attrgetter("place.tenant")),
        Column("namespace", TEXT, "`tenant/namespace`, likewise", attrgetter("place.namespace")),
        Column(
            "topic",
            TEXT,
            "the topic, likewise; for a ledger that of its custom metadata",
            attrgetter("place.topic"),
        ),
        Column("managed_ledger", TEXT, "its managed ledger", attrgetter("place.managed_ledger")),
        Column("cursor", TEXT, "the cursor, of a cursor or its ledger", attrgetter("cursor")),
        Column("ledger_id", LONG, "the ledger, of a ledger or its mark", attrgetter("ledger_id")),
        Column(
            "version",
            INT,
            "the znode's version afterwards; null after `delete` and `set acl`",
            attrgetter("node.version"),
        ),
        Column(
            "before_known",
            FLAG,
            "whether the logs, or a snapshot file before them, show what was there before",
            attrgetter("node.known"),
        ),
        Column(
            "before",
            TEXT,
            "the record before, in JSON by the columns of its table; null: none, or not known",
            attrgetter("before"),
        ),
        Column(
            "after",
            TEXT,
            "the record afterwards, likewise; null: the znode is gone, or `set acl` left what is not known",
            attrgetter("after"),
        ),
        Column(
            "from_ledger_id", LONG, "a cursor's mark-delete before, as the znode has it: ledger", _part("came_from", 0)
        ),
        Column("from_entry_id", LONG, "the same: entry", _part("came_from", 1)),
        Column(
            "to_ledger_id", LONG, "a cursor's mark-delete afterwards, as the znode has it: ledger", _part("went_to", 0)
        ),
        Column("to_entry_id", LONG, "the same: entry", _part("went_to", 1)),
    ),
)
