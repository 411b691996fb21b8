"""A topic's figures from its record and its cursors' records, decided over plain values; no I/O.

Records do not say how many entries an open ledger has, so that only closed ledgers count. The state of a cursor with a
cursor ledger is there; its record has an older one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from mledger.cursors.compaction import why_never_trimmed
from mledger.errors import InvalidLedgerList
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.retention import KEEP_NOTHING, RetentionLimits
from mledger.ledgers.shadow_topics import shadow_source
from mledger.ledgers.trim_plan import plan_trim, retention_keeps
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo, ManagedLedgerInfo

IN_ZNODE = "znode"
SNAPSHOT = "snapshot"
STATES = (IN_ZNODE, SNAPSHOT)
"""Where a cursor's figures come from, in the words of the table `cursors`."""

OVERDUE_MS = 3_600_000
"""How long ago a ledger could have been trimmed, at least, before it counts as not trimmed."""

_FOREVER_MS = 1 << 62
_BEFORE_ALL = Position(NO_CURSOR_LEDGER, NO_ENTRY)


class CursorFigures(NamedTuple):
    """A cursor by its record: entries of closed ledgers that it has not acknowledged, and for how long at least (ms).

    `holes` are the ranges acknowledged above its mark-delete.
    """

    state: str
    backlog: int
    age_ms: int
    holes: int


class RecordedCursor(Struct, frozen=True, array_like=True):
    """The same at any time; `since_ms` is when the first ledger that it needs was closed, 0 if that is not known."""

    state: str
    backlog: int
    since_ms: int
    holes: int

    def figures(self, now_ms: int) -> CursorFigures:
        """The figures now."""
        return CursorFigures(
            self.state, self.backlog, max(0, now_ms - self.since_ms) if self.since_ms else 0, self.holes
        )


class TopicFigures(Struct, frozen=True, array_like=True):
    """A topic's ledgers as recorded; `ledgers` counts the open one too."""

    ledgers: int
    entries: int
    size: int


@dataclass(frozen=True, slots=True)
class Untrimmed:
    """Ledgers that every cursor has consumed and retention does not keep, and that are still there; payload bytes."""

    ledgers: int = 0
    size: int = 0


NOTHING_UNTRIMMED = Untrimmed()


class ConsumedLedger(Struct, frozen=True, array_like=True):
    """A closed ledger that only retention keeps; `size_after` is the topic's size without it and those before."""

    closed_ms: int
    size: int
    size_after: int


def recorded_ledgers(info: ManagedLedgerInfo) -> LedgerList:
    """The topic's ledgers, each with the entries and bytes that its record has. InvalidLedgerList."""
    if not info.ledgers:
        return LedgerList(())
    for ledger in info.ledgers:
        if min(ledger.entries, ledger.size) < 0:
            raise InvalidLedgerList(
                f"ledger {ledger.ledger_id} is recorded with {ledger.entries} entries and {ledger.size} bytes"
            )
    last = info.ledgers[-1]
    return LedgerList(info.ledgers, current=last.ledger_id, live_entries=last.entries, live_size=last.size)


def topic_figures(ledgers: LedgerList) -> TopicFigures:
    """The figures of a topic with these ledgers."""
    return TopicFigures(len(ledgers), ledgers.total_entries, ledgers.total_size)


def recorded_cursor(record: ManagedCursorInfo, ledgers: LedgerList) -> RecordedCursor:
    """The figures of a cursor of a topic with these ledgers."""
    state = IN_ZNODE if record.cursors_ledger_id == NO_CURSOR_LEDGER else SNAPSHOT
    start = through = ledgers.count_through(record.mark_delete or _BEFORE_ALL)
    acknowledged, first = 0, None
    for lower, upper in sorted(record.ranges):
        begin, end = max(through, ledgers.count_through(lower)), ledgers.count_through(upper)
        if first is None and begin > through:
            first = through
        if end > begin:
            acknowledged += end - begin
            through = end
    backlog = ledgers.total_entries - start - acknowledged
    if not backlog:
        return RecordedCursor(state, 0, 0, len(record.ranges))
    oldest = ledgers.info(ledgers.entry_at(through if first is None else first).ledger_id)
    return RecordedCursor(state, backlog, oldest.timestamp, len(record.ranges))


def consumed_ledgers(
    topic: TopicName, info: ManagedLedgerInfo, ledgers: LedgerList, cursors: Mapping[str, Position]
) -> tuple[ConsumedLedger, ...]:
    """What of a topic could be trimmed if retention kept nothing (R10); `cursors` are the mark-deletes of all of them.

    The last ledger of the list never counts, nor do a shadow's ledgers, which are its source's.
    """
    if len(info.ledgers) < 2 or info.ledgers[0].timestamp <= 0 or shadow_source(info) is not None:
        return ()
    plan = plan_trim(ledgers, cursors, KEEP_NOTHING, _FOREVER_MS, never=why_never_trimmed(topic, cursors))
    left, found = ledgers.total_size, []
    for ledger in plan.deletions:
        left -= ledger.size
        found.append(ConsumedLedger(ledger.timestamp, ledger.size, left))
    return tuple(found)


def untrimmed(consumed: Sequence[ConsumedLedger], retention: RetentionLimits, now_ms: int) -> Untrimmed:
    """What of these ledgers could have been trimmed for an hour."""
    before_ms = now_ms - OVERDUE_MS
    if not consumed or consumed[0].closed_ms > before_ms:
        return NOTHING_UNTRIMMED
    count = size = 0
    for ledger in consumed:
        if retention_keeps(ledger.closed_ms, ledger.size_after, retention, before_ms):
            break
        if ledger.closed_ms <= before_ms:
            count += 1
            size += ledger.size
    return Untrimmed(count, size) if count else NOTHING_UNTRIMMED
