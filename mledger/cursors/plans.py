"""What skipping, clearing, resetting and new properties would make of a cursor; over plain values, no I/O (C6, C7).

The dry runs of commands. They decide with what `Cursor` itself decides with: `walk` and `AckState`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mledger.cursors.acks import AckState
from mledger.cursors.positions import (
    EARLIEST,
    LATEST,
    backlog,
    mark_delete_after,
    next_valid,
    plan_reset,
    position_after_skip,
)
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.errors import InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedCursorInfo


@dataclass(frozen=True, slots=True)
class CursorPlace:
    """Where a cursor stands: mark-delete, the first entry to be read, entries not acknowledged, ranges above it."""

    mark_delete: Position
    read_position: Position
    backlog: int
    holes: int

    @classmethod
    def of(cls, ledgers: LedgerList, acks: AckState) -> "CursorPlace":
        """The place of a cursor that reads from mark-delete on."""
        return cls(acks.mark_delete, next_valid(ledgers, acks.mark_delete), backlog(ledgers, acks), acks.range_count)


@dataclass(frozen=True, slots=True)
class CursorMovePlan:
    """From where to where a cursor moves; `changed` False: it stands there already, nothing is to be done."""

    before: CursorPlace
    after: CursorPlace
    changed: bool

    @property
    def acknowledged(self) -> int:
        """How many entries it acknowledges; negative: how many come back."""
        return self.before.backlog - self.after.backlog


def plan_skip(
    ledgers: LedgerList, cursor: CursorRecoveryPlan, n: int, *, include_deleted: bool = False
) -> CursorMovePlan:
    """What `Cursor.skip` would do: the next `n` entries count as acknowledged. InvalidPosition for a negative `n`."""
    if n < 0:
        raise InvalidPosition(f"{n} entries cannot be skipped: give 0 or more")
    position = position_after_skip(ledgers, cursor.acks, n, count_deleted=include_deleted)
    return _acknowledged_to(ledgers, cursor, position)


def plan_clear_backlog(ledgers: LedgerList, cursor: CursorRecoveryPlan) -> CursorMovePlan:
    """What `Cursor.clear_backlog` would do: every entry counts as acknowledged."""
    return _acknowledged_to(ledgers, cursor, ledgers.last_confirmed)


def plan_reset_to(ledgers: LedgerList, cursor: CursorRecoveryPlan, to: Position | str) -> CursorMovePlan:
    """What `Cursor.reset` would do: `to` ("earliest", "latest" or a position) is the first entry to be read."""
    acks = cursor.acks.copy()
    acks.reset(mark_delete_after(plan_reset(ledgers, _place(to)), cursor.cursor, cursor.mark_delete))
    return _plan(ledgers, cursor, acks)


def plan_new_record(ledgers: LedgerList, to: Position | str, now_ms: int) -> ManagedCursorInfo:
    """The record of a cursor made anew that reads from `to` on, a place as `plan_reset_to` takes it (M12)."""
    return ManagedCursorInfo(mark_delete=plan_reset(ledgers, _place(to)).mark_delete, last_active=now_ms)


def plan_properties(
    current: Sequence[tuple[str, str]], new: Mapping[str, str], removed: Sequence[str]
) -> dict[str, str]:
    """The cursor's properties with `new` ones set and those called `removed` gone; the order of the old ones stays."""
    return {key: value for key, value in (dict(current) | dict(new)).items() if key not in removed}


def _place(to: Position | str) -> Position:
    place = {"earliest": EARLIEST, "latest": LATEST}.get(to, to) if isinstance(to, str) else to
    if not isinstance(place, Position):
        raise InvalidPosition(f"{to!r} is no place to reset to: give earliest, latest or a position")
    return place


def _acknowledged_to(ledgers: LedgerList, cursor: CursorRecoveryPlan, position: Position) -> CursorMovePlan:
    acks = cursor.acks.copy()
    if position > acks.mark_delete:
        acks.acknowledge_cumulative(position, ledgers)
    return _plan(ledgers, cursor, acks)


def _plan(ledgers: LedgerList, cursor: CursorRecoveryPlan, acks: AckState) -> CursorMovePlan:
    return CursorMovePlan(CursorPlace.of(ledgers, cursor.acks), CursorPlace.of(ledgers, acks), acks != cursor.acks)
