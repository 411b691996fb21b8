"""Which ledgers of a topic can go, decided over plain values; no I/O.

R9: a cursor whose mark-delete is the last entry of a fully consumed ledger moves to the start of
the next, durably, before anything is deleted. R10: a trim removes a prefix of the list: ledgers
wholly below the slowest durable cursor (all closed ledgers if there is no cursor), never the
current one, that exceed retention in time or in size. A ledger with an offloaded copy stays, and so
do all after it, until both copies can be deleted together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from mledger.events import EndTrim, Event, LastConfirmedLedgerDeletion, RemovingLedger
from mledger.ledgers.ledger_list import LedgerList, next_ledger_if_consumed
from mledger.ledgers.retention import KEEP_ALL, RetentionLimits
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo


class CursorMove(Struct, frozen=True):
    """A cursor's mark-delete moves from the end of a consumed ledger to the start of the next (R9)."""

    cursor: str
    old: Position
    new: Position


@dataclass(frozen=True, slots=True)
class TrimPlan:
    """What trimming does: first `moves`, durably, then `deletions` in order.

    `remaining` is the list afterwards, as recorded; `remaining_ledgers` and `remaining_size`
    (payload bytes, including the current ledger) count it. `kept_because` says why the first
    remaining ledger stays.
    """

    moves: tuple[CursorMove, ...]
    deletions: tuple[LedgerInfo, ...]
    remaining: tuple[LedgerInfo, ...]
    remaining_ledgers: int
    remaining_size: int
    last_confirmed: Position
    kept_because: str

    @property
    def last_confirmed_deleted(self) -> bool:
        """Whether the ledger of the last confirmed entry is deleted."""
        return any(info.ledger_id == self.last_confirmed.ledger_id for info in self.deletions)

    def events_before(self, topic: str) -> tuple[Event, ...]:
        """The events to emit before the list is updated (R11)."""
        if not self.last_confirmed_deleted:
            return ()
        return (LastConfirmedLedgerDeletion(topic, self.last_confirmed.ledger_id, self.last_confirmed),)

    def events_after(self, topic: str) -> tuple[Event, ...]:
        """The events to emit once the list is updated, in order (R11)."""
        if not self.deletions:
            return ()
        removed = (RemovingLedger(topic, info.ledger_id, info.size) for info in self.deletions)
        return (EndTrim(topic, self.remaining_ledgers, self.remaining_size), *removed)


def plan_moves(ledgers: LedgerList, cursors: Mapping[str, Position]) -> tuple[CursorMove, ...]:
    """The moves of R9 for durable cursors, given as durable mark-deletes by name, in order of names."""
    moves = []
    for cursor in sorted(cursors):
        new = next_ledger_if_consumed(ledgers, cursors[cursor])
        if new is not None:
            moves.append(CursorMove(cursor, cursors[cursor], new))
    return tuple(moves)


def plan_trim(
    ledgers: LedgerList,
    cursors: Mapping[str, Position],
    retention: RetentionLimits,
    now_ms: int,
    *,
    through: Position | None = None,
    last: int | None = None,
    never: str = "",
) -> TrimPlan:
    """Decide moves and deletions from the durable cursors' durable mark-deletes (R9, R10).

    With `through` (truncate), delete every closed ledger without an entry above that position,
    whatever cursors and `retention` say. Else delete a consumed ledger once its retention time has
    passed, or if the ledgers after it reach the retention size. The last ledger of a terminated topic always stays, as
    in Pulsar, to which it is still the current one: readers may come to it. No ledger above `last` is deleted.
    If `never` says why not, no ledger is deleted at all.
    """
    moves = plan_moves(ledgers, cursors)
    positions = [*{**cursors, **{move.cursor: move.new for move in moves}}.values()]
    needed_from = min((position.ledger_id for position in positions), default=None)
    deletions: list[LedgerInfo] = []
    deleted_size = 0
    kept_because = never or "no ledger is left"
    for info in () if never else ledgers.infos:
        reason = None
        if info.ledger_id == ledgers.current:
            reason = f"ledger {info.ledger_id} is open for writing"
        elif last is not None and info.ledger_id > last:
            reason = f"ledger {info.ledger_id} is above {last}, the last to delete"
        elif info.offload is not None:
            reason = f"ledger {info.ledger_id} has an offloaded copy"
        elif info.ledger_id == ledgers.last_of_terminated:
            reason = f"ledger {info.ledger_id} is the last one of a terminated topic"
        elif through is not None:
            reason = _not_truncated(info, through)
        else:
            reason = _kept(info, ledgers.total_size - deleted_size - info.size, needed_from, retention, now_ms)
        if reason is not None:
            kept_because = reason
            break
        deletions.append(info)
        deleted_size += info.size
    return TrimPlan(
        moves=moves,
        deletions=tuple(deletions),
        remaining=ledgers.infos[len(deletions) :],
        remaining_ledgers=len(ledgers) - len(deletions),
        remaining_size=ledgers.total_size - deleted_size,
        last_confirmed=ledgers.last_confirmed,
        kept_because=kept_because,
    )


def plan_no_trim(ledgers: LedgerList, cursors: Mapping[str, Position], why: str) -> TrimPlan:
    """A plan with moves only; `why` says why unneeded ledgers stay."""
    return plan_trim(ledgers, cursors, KEEP_ALL, 0, never=why)


def _not_truncated(info: LedgerInfo, through: Position) -> str | None:
    """Why a truncation through `through` keeps a closed ledger; None if it can be deleted."""
    if not info.entries or Position(info.ledger_id, info.entries - 1) <= through:
        return None
    return f"ledger {info.ledger_id} has entries that came after the truncation began"


def _kept(
    info: LedgerInfo, size_after: int, needed_from: int | None, retention: RetentionLimits, now_ms: int
) -> str | None:
    """Why a closed ledger stays, or None; `size_after` is the size of the topic without it."""
    if needed_from is not None and info.ledger_id >= needed_from:
        return f"ledger {info.ledger_id} is not consumed by every durable cursor"
    if retention_keeps(info.timestamp, size_after, retention, now_ms):
        return f"ledger {info.ledger_id} is kept by retention"
    return None


def retention_keeps(closed_ms: int, size_after: int, retention: RetentionLimits, now_ms: int) -> bool:
    """Whether retention keeps a consumed ledger; `size_after` is the size of the topic without it (R10)."""
    expired = retention.retention_time_ms >= 0 and now_ms - closed_ms > retention.retention_time_ms
    over_size = retention.retention_size >= 0 and size_after >= retention.retention_size
    return not (expired or over_size)
