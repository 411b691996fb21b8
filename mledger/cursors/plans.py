"""The effect on a cursor of a skip, clear, reset or new properties, over plain values; no I/O (C6, C7).

Dry runs of commands use these plans. They share their decisions with `Cursor`: `positions`,
`AckState`.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.backlog import backlog
from mledger.cursors.positions import (
    mark_delete_after,
    next_valid,
    place_of,
    plan_position_expiry,
    plan_reset,
    position_after_skip,
)
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.errors import InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedCursorInfo


class CursorPlace(Struct, frozen=True):
    """A cursor's position: mark-delete, read position, backlog, and the number of ranges above it."""

    mark_delete: Position
    read_position: Position
    backlog: int
    holes: int

    @classmethod
    def of(cls, ledgers: LedgerList, acks: AckState) -> "CursorPlace":
        """The place of a cursor that reads from after mark-delete."""
        return cls(acks.mark_delete, next_valid(ledgers, acks.mark_delete), backlog(ledgers, acks), acks.range_count)


class CursorMovePlan(Struct, frozen=True):
    """A cursor's move; if `changed` is false, the cursor is there already and there is nothing to do."""

    before: CursorPlace
    after: CursorPlace
    changed: bool

    @property
    def acknowledged(self) -> int:
        """How many entries the move acknowledges; negative if entries will be delivered again."""
        return self.before.backlog - self.after.backlog


def plan_skip(
    ledgers: LedgerList, cursor: CursorRecoveryPlan, n: int, *, include_deleted: bool = False
) -> CursorMovePlan:
    """What `Cursor.skip` would do: acknowledge the next `n` entries. InvalidPosition if `n` is negative."""
    if n < 0:
        raise InvalidPosition(f"{n} entries cannot be skipped: give 0 or more")
    position = position_after_skip(ledgers, cursor.acks, n, count_deleted=include_deleted)
    return _acknowledged_to(ledgers, cursor, position)


def plan_clear_backlog(ledgers: LedgerList, cursor: CursorRecoveryPlan) -> CursorMovePlan:
    """What `Cursor.clear_backlog` would do: acknowledge every entry."""
    return _acknowledged_to(ledgers, cursor, ledgers.last_confirmed)


def plan_expire_through(ledgers: LedgerList, cursor: CursorRecoveryPlan, position: Position) -> CursorMovePlan:
    """What `Cursor.expire_through` would do: acknowledge up to `position`, nothing if it is past the end."""
    return _acknowledged_to(ledgers, cursor, plan_position_expiry(ledgers, cursor.mark_delete, position))


def plan_reset_to(ledgers: LedgerList, cursor: CursorRecoveryPlan, to: Position | str) -> CursorMovePlan:
    """What `Cursor.reset` would do: `to` ("earliest", "latest" or a position) is the first entry to read."""
    acks = cursor.acks.copy()
    acks.reset(mark_delete_after(plan_reset(ledgers, place_of(to)), cursor.cursor, cursor.mark_delete))
    return _plan(ledgers, cursor, acks)


def plan_new_record(ledgers: LedgerList, to: Position | str, now_ms: int) -> ManagedCursorInfo:
    """A fresh record for a cursor that reads from `to` on; `to` as for `plan_reset_to` (M12)."""
    return ManagedCursorInfo(mark_delete=plan_reset(ledgers, place_of(to)).mark_delete, last_active=now_ms)


def plan_properties(
    current: Sequence[tuple[str, str]], new: Mapping[str, str], removed: Sequence[str]
) -> dict[str, str]:
    """The cursor's properties with `new` set and `removed` deleted; existing ones keep their order."""
    return {key: value for key, value in (dict(current) | dict(new)).items() if key not in removed}


def _acknowledged_to(ledgers: LedgerList, cursor: CursorRecoveryPlan, position: Position) -> CursorMovePlan:
    acks = cursor.acks.copy()
    if position > acks.mark_delete:
        acks.acknowledge_cumulative(position, ledgers)
    return _plan(ledgers, cursor, acks)


def _plan(ledgers: LedgerList, cursor: CursorRecoveryPlan, acks: AckState) -> CursorMovePlan:
    return CursorMovePlan(CursorPlace.of(ledgers, cursor.acks), CursorPlace.of(ledgers, acks), acks != cursor.acks)
