"""The tables `cursors` and `cursor_holes`: each subscription's mark-delete position, and what is acknowledged above it.

The column `state` says where a row comes from, because a record's snapshot of a cursor may be old.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from pyarrow import DataType

from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.snapshot.tables.columns import FLAG, INT, LONG, LONG_MAP, LONGS, TEXT, TEXT_MAP, TEXTS, TIME, Column, Table
from mledger.snapshot.tables.records import CursorNode
from mledger.snapshot.tables.topics import key_columns, node_columns, znode_columns

IN_ZNODE = "znode"
SNAPSHOT = "snapshot"
RECOVERED = "recovered"
UNREADABLE = "unreadable"

_NAME_DOC = "the cursor's name; its znode's, if that is not encoded as Pulsar does"

STATE_DOC = (
    "where the row comes from: `znode` (the record has the state), `snapshot` (the state is in the cursor ledger, and "
    "the row shows the record's older one), `recovered` (what opening the topic would find), `unreadable` (that could "
    "not be read: the row shows the record, and `error` says why)"
)


def state_of(cursor: CursorNode) -> str:
    """Where the row of a cursor comes from."""
    if plan_of(cursor) is not None:
        return RECOVERED
    if error_of(cursor) is not None:
        return UNREADABLE
    return IN_ZNODE if cursor.record.cursors_ledger_id == NO_CURSOR_LEDGER else SNAPSHOT


def plan_of(cursor: CursorNode) -> CursorRecoveryPlan | None:
    """What recovery would find, None if it was not requested or failed."""
    return None if cursor.recovered is None else cursor.recovered.plan


def error_of(cursor: CursorNode) -> str | None:
    """Why the state could not be read."""
    if cursor.problem is not None:
        return cursor.problem
    error = None if cursor.recovered is None else cursor.recovered.error
    return None if error is None else " ".join(str(error).split())


def _stands_at(cursor: CursorNode) -> Position | None:
    plan = plan_of(cursor)
    return cursor.record.mark_delete if plan is None else plan.mark_delete


def _ledger(position: Position | None) -> int | None:
    return None if position is None else position.ledger_id


def _entry(position: Position | None) -> int | None:
    return None if position is None else position.entry_id


def _holes(cursor: CursorNode) -> int:
    plan = plan_of(cursor)
    return len(cursor.record.ranges) if plan is None else plan.acks.range_count


def _partial_batches(cursor: CursorNode) -> int:
    plan = plan_of(cursor)
    return len(cursor.record.batch_deletions if plan is None else plan.acks.batch_deletions())


def _properties(cursor: CursorNode) -> dict[str, int]:
    plan = plan_of(cursor)
    return dict(cursor.record.properties if plan is None else plan.properties)


def _planned(name: str, kind: DataType, doc: str, of: Callable[[CursorRecoveryPlan], Any]) -> Column[CursorNode]:
    """A column of the recovery plan, null if there is none."""
    return Column(name, kind, doc, lambda row: of(row.recovered.plan), plan_of)


CURSORS: Table[CursorNode] = Table(
    "cursors",
    "a cursor (subscription) of a topic",
    (
        *key_columns(),
        Column("cursor", TEXT, _NAME_DOC, attrgetter("cursor")),
        *node_columns(),
        Column("state", TEXT, STATE_DOC, state_of),
        Column("cursor_ledger_id", LONG, "its cursor ledger; -1: none", attrgetter("record.cursors_ledger_id")),
        Column("mark_delete_ledger_id", LONG, "its mark-delete: ledger", lambda row: _ledger(_stands_at(row))),
        Column("mark_delete_entry_id", LONG, "its mark-delete: entry", lambda row: _entry(_stands_at(row))),
        Column("holes", INT, "ranges acknowledged above mark-delete", _holes),
        Column("partial_batches", INT, "entries of which some batch indexes are acknowledged", _partial_batches),
        Column("properties", LONG_MAP, "the properties of its position", _properties),
        Column("cursor_properties", TEXT_MAP, "its cursor properties", lambda row: dict(row.record.cursor_properties)),
        Column("last_active", TIME, "when it was last active, as recorded", lambda row: row.record.last_active or None),
        Column(
            "snapshot_ledger_id",
            LONG,
            "the znode's own position: ledger",
            lambda row: _ledger(row.record.mark_delete),
        ),
        Column(
            "snapshot_entry_id", LONG, "the znode's own position: entry", lambda row: _entry(row.record.mark_delete)
        ),
        _planned("backlog", LONG, "entries not acknowledged (recovered rows only)", attrgetter("backlog")),
        _planned("unconfirmed", FLAG, "whether recovery may still find an older state", attrgetter("unconfirmed")),
        _planned(
            "read_ledger_id",
            LONG,
            "where reading would continue: ledger (recovered rows only)",
            lambda plan: _ledger(plan.read_position),
        ),
        _planned("read_entry_id", LONG, "where reading would continue: entry", lambda plan: _entry(plan.read_position)),
        _planned("source", TEXT, "where the state was found (recovered rows only)", attrgetter("source")),
        _planned("rules", TEXTS, "the rules of recovery that applied, in order", attrgetter("rules")),
        _planned(
            "moves_to_ledger_id",
            LONG,
            "where opening would move mark-delete, because its ledger is consumed (R9): ledger",
            lambda plan: _ledger(plan.move_to),
        ),
        _planned("moves_to_entry_id", LONG, "the same: entry", lambda plan: _entry(plan.move_to)),
        _planned("warnings", TEXTS, "the warnings of recovery", attrgetter("warnings")),
        Column("error", TEXT, "why the state could not be read", error_of),
        *znode_columns(versioned=True),
    ),
)


class Hole(NamedTuple):
    """Something acknowledged above mark-delete: a range of entries, or some batch indexes of one entry."""

    cursor: CursorNode
    place: int
    lower: Position
    upper: Position
    words: tuple[int, ...] | None


def holes_of(cursor: CursorNode) -> list[Hole]:
    """The rows of `cursor_holes` of a cursor: its ranges in order, then its partial batches."""
    plan = plan_of(cursor)
    ranges = cursor.record.ranges if plan is None else plan.acks.ranges()
    batches = cursor.record.batch_deletions if plan is None else plan.acks.batch_deletions()
    holes = [Hole(cursor, index, lower, upper, None) for index, (lower, upper) in enumerate(ranges)]
    for index, batch in enumerate(batches, len(holes)):
        before = Position(batch.position.ledger_id, batch.position.entry_id - 1)
        holes.append(Hole(cursor, index, before, batch.position, batch.words))
    return holes


def _entries(hole: Hole) -> int | None:
    if hole.words is not None or hole.lower.ledger_id != hole.upper.ledger_id:
        return None
    return hole.upper.entry_id - hole.lower.entry_id


CURSOR_HOLES: Table[Hole] = Table(
    "cursor_holes",
    "a range of entries, or a part of a batch, acknowledged above a cursor's mark-delete",
    (
        *key_columns(shared=True),
        Column("cursor", TEXT, _NAME_DOC, attrgetter("cursor"), shared=True),
        Column("state", TEXT, "as in `cursors`", state_of, shared=True),
        Column("index", INT, "its index among those of the cursor, from 0", attrgetter("place")),
        Column("lower_ledger_id", LONG, "the last position below it (not in it): ledger", lambda row: row.lower[0]),
        Column("lower_entry_id", LONG, "the last position below it: entry", lambda row: row.lower[1]),
        Column("upper_ledger_id", LONG, "its last position: ledger", lambda row: row.upper[0]),
        Column("upper_entry_id", LONG, "its last position: entry", lambda row: row.upper[1]),
        Column("entries", LONG, "entries in it; null for a part of a batch, and if it crosses ledgers", _entries),
        Column(
            "ack_set",
            LONGS,
            "for a part of a batch: words of a bit set over its indexes, 1 = not acknowledged; null for a range",
            attrgetter("words"),
        ),
        *znode_columns(shared=True),
    ),
    record_of=attrgetter("cursor"),
)
