"""What becomes of the rows of an older snapshot: which go, which nodes give new ones, which counts change; pure."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from mledger.snapshot.exports.errors import AmbiguousRows
from mledger.snapshot.exports.since.older_parts import OlderRow
from mledger.snapshot.exports.since.row_keys import (
    ERRORS,
    KEYS,
    OWN_TABLES,
    PATH,
    READ_ANEW,
    Key,
    RowMatch,
    key_of,
    tables_of_kind,
)
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.tables.column_limits import is_unicode
from mledger.snapshot.tables.decoder import decode
from mledger.snapshot.tables.node_kinds import NodeKind, kind_of
from mledger.snapshot.tables.records import FoundNode, Underreplicated
from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.transactions.node_updates import NodeUpdate

TOPICS = "topics"

DECODED = frozenset({NodeKind.CURSOR, NodeKind.PARTITIONED_TOPIC, NodeKind.SCHEMA})
"""The kinds whose rows have names that are decoded from those of nodes: two nodes may have one in common."""

OlderRows = Mapping[tuple[str, Key], Sequence[OlderRow]]
"""The older rows of nodes, by table and key."""


class KeyedNode(Struct, frozen=True):
    """A node that transactions changed: path below the chroot, kind, key of its rows, and what became of it."""

    path: str
    kind: NodeKind
    key: Key | None
    update: NodeUpdate


class RowPlan(Struct):
    """The rows of each table that go, the number of cursors that topics now have, and the nodes that give new rows.

    `cursors` has the topics whose rows otherwise stay, by managed ledger.
    """

    going: dict[str, list[RowMatch]] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    nodes: list[tuple[NodeKind, FoundNode]] = field(default_factory=list)

    @property
    def topics(self) -> RowMatch | None:
        """The topics of `cursors`."""
        return RowMatch(KEYS[NodeKind.TOPIC], frozenset((name,) for name in self.cursors)) if self.cursors else None


def kind_below(path: str, options: ReadOptions) -> NodeKind | None:
    """The kind of the node at a full path; None if no table has rows of it."""
    start = len(options.chroot)
    if not path.startswith(options.chroot) or path[start : start + 1] != "/":
        return None
    return kind_of(path[start:], options.ledgers_root)


def plan_nodes(updates: Mapping[str, NodeUpdate], options: ReadOptions) -> tuple[list[KeyedNode], bool]:
    """The nodes whose rows change, and whether one of READ_ANEW is among those that transactions changed.

    Raises AmbiguousRows for a path that rows show with escapes.
    """
    found, anew = [], False
    for full, update in updates.items():
        kind = kind_below(full, options)
        if kind is None or not (update.replaced or update.children):
            continue
        if kind in READ_ANEW:
            anew = True
        else:
            path = full[len(options.chroot) :]
            if not is_unicode(path):
                raise AmbiguousRows(f"the path {path!r} is not Unicode, and the older snapshot shows it with escapes")
            found.append(KeyedNode(path, kind, key_of(kind, path, options.ledgers_root), update))
    return found, anew


def plan_lookups(nodes: Collection[KeyedNode]) -> dict[str, RowMatch]:
    """The rows of these nodes, in the tables that have one for each node, and in `errors`."""
    keys: dict[NodeKind, set[Key]] = {}
    for node in nodes:
        if node.key is not None:
            keys.setdefault(node.kind, set()).add(node.key)
    found = {OWN_TABLES[kind]: RowMatch(KEYS[kind], frozenset(theirs)) for kind, theirs in keys.items()}
    if nodes:
        found[ERRORS] = RowMatch(PATH, frozenset((node.path,) for node in nodes))
    return found


def uncounted_topics(nodes: Collection[KeyedNode], older: OlderRows) -> set[str]:
    """The paths of topics that were unreadable and were written, so that no row says how many children they have."""
    return {
        node.path
        for node in nodes
        if node.kind is NodeKind.TOPIC and node.key is not None
        if node.update.written is not None and node.update.created is None
        if (ERRORS, (node.path,)) in older
    }


def plan_rows(
    nodes: Collection[KeyedNode],
    older: OlderRows,
    counted: Mapping[str, int],
    options: ReadOptions,
) -> RowPlan:
    """What becomes of the rows of `nodes`.

    `counted` are the children of the topics of `uncounted_topics`.

    Raises LogDoesNotFit if the rows are not those of the nodes before the transactions, AmbiguousRows if they may
    be those of other nodes, or do not tell when a node was created.
    """
    plan = RowPlan()
    for node in nodes:
        row = _the_row(node, _rows_of(node, older), options)
        if node.update.replaced:
            found = _found(node, row, counted.get(node.path)) if node.update.there else None
            if found is not None:
                plan.nodes.append((node.kind, found))
        elif row is not None and row.children is not None:
            plan.cursors[str(row.key[0])] = row.children + node.update.children
    plan.going = _going([node for node in nodes if node.update.replaced])
    return plan


def _going(nodes: Collection[KeyedNode]) -> dict[str, list[RowMatch]]:
    """The rows of these nodes in every table."""
    keys: defaultdict[NodeKind, set[Key]] = defaultdict(set)
    for node in nodes:
        if node.key is not None:
            keys[node.kind].add(node.key)
    going: defaultdict[str, list[RowMatch]] = defaultdict(list)
    for kind, theirs in keys.items():
        for table in tables_of_kind(kind):
            going[table].append(RowMatch(KEYS[kind], frozenset(theirs)))
    if nodes:
        going[ERRORS].append(RowMatch(PATH, frozenset((node.path,) for node in nodes)))
    return going


def _rows_of(node: KeyedNode, older: OlderRows) -> list[OlderRow]:
    own = () if node.key is None else older.get((OWN_TABLES[node.kind], node.key), ())
    return [*older.get((ERRORS, (node.path,)), ()), *own]


def _the_row(node: KeyedNode, rows: Sequence[OlderRow], options: ReadOptions) -> OlderRow | None:
    """The older row of a node, None if it had none; errors as of `plan_rows`."""
    before = node.update.before
    needed = before is True and not rows and _admitted(node, options)
    too_many = len(rows) > (before is not False)
    if too_many and node.kind in DECODED and any(row.table != ERRORS for row in rows):
        raise AmbiguousRows(
            f"{node.path} has a name in the table {OWN_TABLES[node.kind]} that another node has too: the rows of the "
            "older snapshot do not tell them apart"
        )
    if needed and not options.scope.everything:
        raise AmbiguousRows(
            f"{node.path} was not in the exported part before, perhaps because its record could not be read: the older "
            "snapshot does not tell when it was created"
        )
    if needed or too_many:
        raise LogDoesNotFit(
            f"the transactions say that {node.path} was {'not ' if before is False else ''}there before, but the older "
            f"snapshot has {len(rows)} rows of it: the snapshot and the logs are of different clusters or histories; "
            "export fully"
        )
    return rows[0] if rows else None


def _admitted(node: KeyedNode, options: ReadOptions) -> bool:
    """Whether the options admit the rows of a node."""
    if options.scope.everything:
        return True
    written = node.update.written
    if written is None:
        return False
    item = decode(node.kind, FoundNode(node.path, written.data, 0, 0, 0, 0), options.ledgers_root)
    return item is None or isinstance(item, Underreplicated) or options.scope.admits(item)


def _found(node: KeyedNode, row: OlderRow | None, counted: int | None) -> FoundNode | None:
    """The node as it is now; None if the options do not admit it."""
    written, created, children = node.update.written, node.update.created, node.update.children
    assert written is not None
    if created is None:
        if row is None:
            return None
        created = row.created_ms, row.czxid
        children += (row.children if counted is None else counted) or 0
    return FoundNode(
        node.path, written.data, written.version, created[0], written.time_ms, children, created[1], written.zxid
    )
