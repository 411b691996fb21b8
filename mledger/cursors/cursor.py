"""A durable cursor: what a subscription has acknowledged and where it reads next (C1 to C8, C10, C11).

Acknowledging changes the state in memory at once and gives a future that is done when that state is durable. A
change that could not be written stays in memory and is tried again; with the topic fenced, memory goes back to what is
durable.
"""

import asyncio
import enum
from collections.abc import Callable, Iterable, Sequence

from mledger.cursors.ack_records import check_properties
from mledger.cursors.acks import AckState
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.entry_bits import trim_words
from mledger.cursors.entry_time import find_by_time
from mledger.cursors.host import CursorHost
from mledger.cursors.persistence import CursorPersistence
from mledger.cursors.positions import (
    EARLIEST,
    LATEST,
    backlog,
    check_markable,
    count_from,
    end,
    mark_delete_after,
    next_valid,
    plan_reset,
    position_after_skip,
)
from mledger.cursors.reads import CursorReads
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.cursors.store import CursorState, CursorStore
from mledger.errors import InvalidPosition, ManagedLedgerClosed, ManagedLedgerFenced
from mledger.events import LostEntriesSkipped, ResetSinceConsumed, Rewound
from mledger.ledgers.entry import Entry
from mledger.ledgers.ledger_list import next_ledger_if_consumed
from mledger.ledgers.trim_plan import CursorMove
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import BatchDeletion
from mledger.metastore.runtime.logs import get_logger

log = get_logger(__name__)


class CursorStatus(enum.Enum):
    """What a cursor can do."""

    NO_LEDGER = "no ledger"  # its state is in the znode, or nothing was acknowledged since it was recovered
    OPEN = "open"  # it writes to a cursor ledger
    FENCED = "fenced"
    CLOSED = "closed"


class Cursor:
    """One subscription's place in a topic. Made by `ManagedLedger.open_cursor`."""

    def __init__(self, host: CursorHost, store: CursorStore, plan: CursorRecoveryPlan) -> None:
        self.name = store.name
        self._host = host
        self._acks = plan.acks
        self._properties = plan.properties
        self._cursor_properties = plan.cursor_properties
        self._reads = CursorReads(self, host, plan.read_position)
        self._stopped: MledgerError | None = None
        self._persistence = CursorPersistence(host, store, self._snapshot, self._restore)

    # -- looking

    @property
    def path(self) -> str:
        """Where its record is in the metadata store."""
        return self._persistence.path

    @property
    def mark_delete(self) -> Position:
        """It and every entry before it are acknowledged."""
        return self._acks.mark_delete

    @property
    def durable_mark_delete(self) -> Position:
        """The mark-delete position that a restart would find."""
        return self._persistence.durable.mark_delete

    @property
    def held_from(self) -> Position:
        """Entries above it are not to be trimmed: mark-delete, the durable one while that is lower."""
        return min(self.mark_delete, self.durable_mark_delete)

    @property
    def read_position(self) -> Position:
        """Where the next read begins."""
        return self._reads.position

    @property
    def holes(self) -> list[PositionRange]:
        """The ranges acknowledged above mark-delete, open below and closed above, in order."""
        return self._acks.ranges()

    @property
    def individually_deleted(self) -> str:
        """The same as Pulsar prints them."""
        return self._acks.describe_ranges()

    @property
    def backlog(self) -> int:
        """How many entries are not acknowledged (C8)."""
        return backlog(self._host.ledger_list, self._acks)

    @property
    def entries_to_read(self) -> int:
        """How many entries from the read position on are not acknowledged."""
        return count_from(self._host.ledger_list, self._acks, self.read_position)

    @property
    def properties(self) -> dict[str, int]:
        """Properties of the current position."""
        return dict(self._properties)

    @property
    def cursor_properties(self) -> dict[str, str]:
        """Properties of the cursor itself."""
        return dict(self._cursor_properties)

    @property
    def cursor_ledger(self) -> int:
        """The cursor ledger that its record names, -1 for none."""
        return self._persistence.ledger_id

    @property
    def status(self) -> CursorStatus:
        """What it can do now."""
        if isinstance(self._stopped, ManagedLedgerFenced):
            return CursorStatus.FENCED
        if self._stopped is not None:
            return CursorStatus.CLOSED
        return CursorStatus.OPEN if self._persistence.is_writing else CursorStatus.NO_LEDGER

    @property
    def is_failing(self) -> bool:
        """Whether the last write of its state failed, so that acknowledgements wait in memory for the next try (C5)."""
        return self._persistence.is_failing

    @property
    def behind_s(self) -> float:
        """Seconds since the oldest change of its state that is not durable; 0 where all is."""
        return self._persistence.behind_s

    def batch_deleted(self, position: Position) -> tuple[int, ...] | None:
        """Words of the partly acknowledged batch at `position`, 1 for each index not yet acknowledged; else None."""
        return self._acks.batch_words(position)

    def is_deleted(self, position: Position) -> bool:
        """Whether the entry is acknowledged."""
        return self._acks.is_deleted(position)

    # -- acknowledging

    def acknowledge(self, positions: Iterable[Position]) -> "asyncio.Future[None]":
        """Acknowledge entries one by one, any number a call; done when durable (C2, C3).

        Raises:
            InvalidPosition: one is past the last confirmed entry; nothing is changed.
        """
        self.check()
        return self._after_change(bool(self._acks.acknowledge(positions, self._host.ledger_list)))

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int]) -> "asyncio.Future[None]":
        """Acknowledge batch indexes of one entry: those whose bit in the words of `ack_set` is 0; done when durable.

        Without acknowledgmentAtBatchIndexLevelEnabled only a whole batch counts: a part of one changes nothing (D11).
        """
        self.check()
        if trim_words(ack_set) and not self._host.config.deletion_at_batch_index_level_enabled:
            return self._after_change(False)
        return self._after_change(self._acks.acknowledge_batch(position, ack_set, self._host.ledger_list))

    def acknowledge_cumulative(
        self, position: Position, properties: dict[str, int] | None = None, *, ack_set: Sequence[int] = ()
    ) -> "asyncio.Future[None]":
        """Acknowledge everything up to `position`; done when durable. `properties` replace those of the old position.

        Without them there are none, as in Pulsar, but of the cursor of compaction: they name its compacted ledger.
        With `ack_set` the entry at `position` is a batch, acknowledged as by `acknowledge_batch`.

        Raises:
            InvalidPosition: it is past the last confirmed entry or below mark-delete; nothing is changed.
            InvalidProperties: no record can hold them.
        """
        self.check()
        if properties:
            check_properties(tuple(properties.items()), self._cursor_properties)
        check_markable(self._host.ledger_list, self._acks, position)
        if trim_words(ack_set) and not self._host.config.deletion_at_batch_index_level_enabled:
            position, ack_set = max(self.mark_delete, Position(position.ledger_id, position.entry_id - 1)), ()
        changed = self._acks.acknowledge_cumulative(position, self._host.ledger_list, ack_set)
        if properties is not None or (changed and self.name != COMPACTION):
            wanted = tuple((properties or {}).items())
            changed = changed or wanted != self._properties
            self._properties = wanted
        return self._after_change(changed)

    async def skip(self, n: int, *, include_deleted: bool = False) -> None:
        """Acknowledge the next `n` entries above mark-delete, counting deleted ones or not; durable on return (C6).

        Raises:
            InvalidPosition: `n` is negative.
        """
        self.check()
        if n < 0:
            raise InvalidPosition(f"{n} entries cannot be skipped: give 0 or more")
        position = position_after_skip(self._host.ledger_list, self._acks, n, count_deleted=include_deleted)
        await self._pass(position)

    async def clear_backlog(self) -> None:
        """Acknowledge every entry there is; durable on return (C7)."""
        self.check()
        await self._pass(self._host.ledger_list.last_confirmed)
        self._reads.move_to(end(self._host.ledger_list))

    async def _pass(self, position: Position) -> None:
        """Acknowledge everything up to `position`, durably; the properties stay: nobody consumed up to there."""
        ahead = position > self.mark_delete
        # where it stands there already, an earlier try may have failed: then that is not durable yet
        await self._after_change(ahead and self._acks.acknowledge_cumulative(position, self._host.ledger_list))

    def set_cursor_properties(self, properties: dict[str, str]) -> "asyncio.Future[None]":
        """Replace the cursor's own properties; done when durable in its record.

        Raises:
            InvalidProperties: no record can hold them.
        """
        self.check()
        check_properties(self._properties, tuple(properties.items()))
        self._cursor_properties = tuple(properties.items())
        return self._after_change(True)

    async def flush(self) -> None:
        """Make the state of now durable without waiting for the throttle."""
        self.check()
        await self._persistence.flush()

    # -- moving

    async def reset(self, to: Position | str, *, force: bool = False, batch: BatchDeletion | None = None) -> None:
        """Make `to` ("earliest", "latest" or a position) the first entry to be read; durable on return (C7).

        Everything above counts as not acknowledged but the indexes that `batch` deletes of the entry at `to`. A place
        where no entry is becomes the next valid one, unless `force`. The properties of the position stay. The cursor of
        compaction reads from there and keeps its mark-delete position, which says how far its compacted ledger goes.

        Raises:
            InvalidPosition: `to` is no place to reset to.
        """
        place = {"earliest": EARLIEST, "latest": LATEST}.get(to, to) if isinstance(to, str) else to
        if not isinstance(place, Position):
            raise InvalidPosition(f"{to!r} is no place to reset to: give earliest, latest or a position")
        if not self._host.config.deletion_at_batch_index_level_enabled:
            batch = None
        async with self._host.trim_lock:  # no ledger goes while the cursor moves into it
            self.check()
            plan = plan_reset(self._host.ledger_list, place, force=force)
            self._acks.reset(mark_delete_after(plan, self.name, self.mark_delete), batch)
            self._reads.move_to(plan.read_position)
            self._persistence.changed(anew=True)
            await self._persistence.flush()
        self._host.wake_readers()

    async def reset_to_time(self, time_ms: int, entry_time: Callable[[bytes], int]) -> Position:
        """Make the first entry published at or after `time_ms` the first to be read; where that is (C7).

        `entry_time` gives the publish time of a payload, ms since 1970. Found by binary search over the entries.
        """
        self.check()
        newest_before = await find_by_time(self._host.ledger_list, self._host.read_entry, time_ms, entry_time)
        if newest_before is None:
            await self.reset("earliest")
        else:
            await self.reset(next_valid(self._host.ledger_list, newest_before))
        return self.read_position

    def rewind(self) -> None:
        """Read again from after mark-delete (C7)."""
        self.check()
        old = self.read_position
        self._reads.move_to(next_valid(self._host.ledger_list, self.mark_delete))
        self._host.emit(Rewound(self._host.name, self.name, old, self.read_position))
        self._host.wake_readers()

    async def move_consumed(self, move: CursorMove) -> None:
        """Leave a fully consumed ledger for the start of the next, durably (R9)."""
        self.check()
        if next_ledger_if_consumed(self._host.ledger_list, self.mark_delete) != move.new:
            return
        self._acks.move_mark_delete(move.new)
        self._reads.pass_deleted()
        self._persistence.changed()
        self._host.emit(ResetSinceConsumed(self._host.name, self.name, move.old, move.new))
        await self._persistence.persist_without_ledger()

    async def persist_recovered(self) -> None:
        """Make durable what recovery moved; where that fails the state stays in memory and is tried again."""
        await self._persistence.persist_recovered()

    # -- reading

    async def read(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[Entry]:
        """The next entries that are not acknowledged, at most so many, payload bytes and up to `max_position`.

        At least one if there is one; none at the end. Moves the read position. A missing or empty ledger is passed
        (C11). With autoSkipNonRecoverableData what is listed and lost is acknowledged.

        Raises:
            NoSuchLedger, NoSuchEntry: what is listed is lost.
            LedgerOffloaded: the ledger is in tiered storage only.
        """
        return await self._reads.read(max_entries, max_bytes, max_position)

    async def read_or_wait(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[Entry]:
        """The same, parked until there is an entry (C10); nothing once the read position is past `max_position`.

        Raises:
            TopicTerminated: the read position is at the end of a terminated topic.
        """
        return await self._reads.read_or_wait(max_entries, max_bytes, max_position)

    @property
    def acks(self) -> AckState:
        """What is acknowledged; not to be changed."""
        return self._acks

    def check(self) -> None:
        """Raise what stopped the cursor, if anything did."""
        if self._stopped is not None:
            raise self._stopped

    def lose(self, ledger_id: int, first: int, last: int, reason: str) -> None:
        """Acknowledge entries `first` to `last` of a ledger, which are lost, unread."""
        host = self._host
        log.warning(
            "lost_entries_skipped",
            topic=host.name,
            cursor=self.name,
            ledger=ledger_id,
            first=first,
            last=last,
            reason=reason,
        )
        places = (Position(ledger_id, first), Position(ledger_id, last))
        self._after_change(bool(self._acks.acknowledge_run(ledger_id, first, last, host.ledger_list)))
        host.emit(LostEntriesSkipped(host.name, self.name, *places, reason))

    # -- persistence

    async def close(self) -> None:
        """The clean close (C3): whatever was acknowledged is durable on return.

        A second call waits for the first, and raises what that did. Who gives up waiting does not end the close.
        """
        if self._stopped is not None:
            await self._persistence.close_again()
            return
        self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} is closed")
        try:
            await self._persistence.close()
        finally:
            self._host.wake_readers()

    async def closed(self) -> None:
        """Return when a clean close that has begun has ended, whatever came of it."""
        await self._persistence.closed()

    async def remove(self, attached: Sequence[int] = ()) -> None:
        """Delete the cursor, its record, its ledger and those `attached`."""
        self.check()
        self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} is deleted")
        try:
            await self._persistence.remove(self._stopped, attached)
        finally:
            self._host.wake_readers()

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Another owner has the topic: back to what is durable, and nothing further (M7)."""
        if isinstance(self._stopped, ManagedLedgerFenced):
            return
        self._stopped = error
        self._persistence.fence(error)

    async def abandon(self) -> None:
        """Stop, and let go of the cursor ledger, without writing anything."""
        if self._stopped is None:
            self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} was abandoned")
        await self._persistence.abandon(self._stopped)

    def _snapshot(self) -> CursorState:
        return CursorState(self._acks.copy(), self._properties, self._cursor_properties)

    def _restore(self, state: CursorState) -> None:
        self._acks = state.acks.copy()
        self._properties, self._cursor_properties = state.properties, state.cursor_properties

    def _after_change(self, changed: bool) -> "asyncio.Future[None]":
        if changed:
            self._persistence.changed()
            self._reads.pass_deleted()
        return self._persistence.request()
