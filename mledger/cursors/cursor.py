"""A durable cursor: what a subscription has acknowledged and where it reads next (C1 to C8, C10, C11).

An acknowledgement changes the state in memory at once and returns a future that is done when that
state is durable. A change that could not be written stays in memory and is retried. When the topic
is fenced, the state in memory returns to the durable one.
"""

import asyncio
import contextlib
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident

from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.config import ManagedLedgerConfig
from mledger.cursors.acks.ack_records import Properties
from mledger.cursors.acks.entry_bits import trim_words
from mledger.cursors.acks.exact_positions import exact_position, exact_words
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor_properties import CursorProperties, check_properties
from mledger.cursors.entry_time import find_by_time, find_newest_matching, publish_time
from mledger.cursors.host import CursorHost
from mledger.cursors.persistence.cursor_persistence import CursorPersistence, MemoryPersistence
from mledger.cursors.persistence.store import CursorStore
from mledger.cursors.positions import (
    EARLIEST,
    ResetPlan,
    mark_delete_after,
    next_valid,
    place_of,
    plan_ledger_expiry,
    plan_position_expiry,
    plan_reset,
    position_after_skip,
)
from mledger.cursors.reads import CursorReads
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.errors import InvalidPosition, ManagedLedgerClosed, ManagedLedgerFenced
from mledger.events import LostEntriesSkipped, ResetSinceConsumed, Rewound
from mledger.ledgers.entries.entry import Entry, PayloadRun, entries_of
from mledger.ledgers.entries.position_reads import PositionsFound
from mledger.ledgers.ledger_list import next_ledger_if_consumed
from mledger.ledgers.trim_plan import CursorMove
from mledger.metastore.errors import MledgerError, RecordError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import BatchDeletion
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)


class CursorStatus(enum.Enum):
    """The status of a cursor."""

    NO_LEDGER = "no ledger"  # its state is in the znode, or nothing was acknowledged since it was recovered
    OPEN = "open"  # it writes to a cursor ledger
    FENCED = "fenced"
    CLOSED = "closed"


class Cursor(CursorProperties):
    """One subscription's position in a topic. `ManagedLedger.open_cursor` creates it."""

    def __init__(self, host: CursorHost, store: CursorStore | None, plan: CursorRecoveryPlan) -> None:
        self.name = plan.cursor
        self._host = host
        self._acks = plan.acks
        self._properties = plan.properties
        self._cursor_properties = plan.cursor_properties
        self._reads = CursorReads(self, host, plan.read_position)
        self._stopped: MledgerError | None = None
        self._thread = get_ident()
        self._persistence = (
            MemoryPersistence(host, lambda: self._acks.mark_delete)
            if store is None
            else CursorPersistence(host, store, self._snapshot, self._restore)
        )

    # -- state

    @property
    def status(self) -> CursorStatus:
        """Its current status."""
        if isinstance(self._stopped, ManagedLedgerFenced):
            return CursorStatus.FENCED
        if self._stopped is not None:
            return CursorStatus.CLOSED
        return CursorStatus.OPEN if self._persistence.is_writing else CursorStatus.NO_LEDGER

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Replace the settings."""
        self._persistence.configure(config)

    # -- acknowledging

    def acknowledge(self, positions: Iterable[Position]) -> "asyncio.Future[None]":
        """Acknowledge individual entries, any number per call; done when durable (C2, C3).

        Raises:
            InvalidPosition: a position is past the last confirmed entry; nothing is changed.
        """
        self.check()
        return self._after_change(bool(self._acks.acknowledge(positions, self._host.ledger_list)))

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int]) -> "asyncio.Future[None]":
        """Acknowledge the batch indexes of one entry whose bit in `ack_set` is 0; done when durable.

        Without acknowledgmentAtBatchIndexLevelEnabled only a whole batch counts: a partial one
        changes nothing (D11).
        """
        self.check()
        position, ack_set = exact_position(position), exact_words(ack_set)
        if trim_words(ack_set) and not self._host.config.deletion_at_batch_index_level_enabled:
            return self._after_change(False)
        return self._after_change(self._acks.acknowledge_batch(position, ack_set, self._host.ledger_list))

    def acknowledge_cumulative(
        self, position: Position, properties: dict[str, int] | None = None, *, ack_set: Sequence[int] = ()
    ) -> "asyncio.Future[None]":
        """Acknowledge everything up to `position`; done when durable.

        `properties` replace those of the old position. Without `properties` the new position has
        none, as in Pulsar, except that compaction's cursor keeps them: they name its compacted
        ledger. With `ack_set` the entry at `position` is a batch, acknowledged as by
        `acknowledge_batch`.

        Raises:
            InvalidPosition: it is past the last confirmed entry or below mark-delete; nothing is
            changed.
            InvalidProperties: no record can hold them.
        """
        self.check()
        if properties:
            check_properties(tuple(properties.items()), self._cursor_properties)
        position, ack_set = exact_position(position), exact_words(ack_set)
        self._acks.check_markable(position, self._host.ledger_list)
        if trim_words(ack_set) and not self._host.config.deletion_at_batch_index_level_enabled:
            position, ack_set = max(self.mark_delete, Position(position.ledger_id, position.entry_id - 1)), ()
        changed = self._acks.acknowledge_cumulative(position, self._host.ledger_list, ack_set)
        if properties is not None or (changed and self.name != COMPACTION):
            wanted = tuple((properties or {}).items())
            changed = changed or wanted != self._properties
            self._properties = wanted
        return self._after_change(changed)

    async def skip(self, n: int, *, include_deleted: bool = False) -> None:
        """Acknowledge the next `n` entries above mark-delete; durable on return (C6).

        `include_deleted` counts individually deleted entries too.

        Raises:
            InvalidPosition: `n` is negative.
        """
        self.check()
        if n < 0:
            raise InvalidPosition(f"{n} entries cannot be skipped: give 0 or more")
        position = position_after_skip(self._host.ledger_list, self._acks, n, count_deleted=include_deleted)
        await self._pass(position)

    async def clear_backlog(self, through: Position | None = None) -> None:
        """Acknowledge every entry of the topic, or only those up to `through`; durable on return (C7)."""
        self.check()
        end = self._host.ledger_list.last_confirmed
        await self._pass(end if through is None else min(through, end))

    async def find_newest_matching(
        self, matches: Callable[[Entry], bool], *, unacknowledged: bool = True
    ) -> Position | None:
        """The newest entry that `matches`, by bisection: matching entries must precede all others.

        Searches above mark-delete, or with `unacknowledged` false the whole topic. None if the
        first entry does not match.
        """
        self.check()
        lower = self.mark_delete if unacknowledged else self._host.ledger_list.first_position
        return await find_newest_matching(lambda: self._host.ledger_list, self._host.read_entry, matches, lower)

    async def expire_before(self, time_ms: int, entry_time: Callable[[bytes], int] = publish_time) -> int:
        """Acknowledge the entries published before `time_ms` (ms since 1970); what it does is durable on return.

        Returns by how many entries the backlog shrank. Ledgers that were closed before expire
        unread. A lost entry does not expire, and one without a publish time only with a later one.
        """
        self.check()
        host = self._host

        reached = plan_ledger_expiry(host.ledger_list, self.mark_delete, time_ms)
        with contextlib.suppress(NoSuchLedger, NoSuchEntry, RecordError):
            found = await find_by_time(lambda: host.ledger_list, host.read_entry, time_ms, entry_time, reached)
            reached = found or reached
        self.check()  # one that was closed or fenced meanwhile must not acknowledge
        return await self._expire(reached) if reached > self.mark_delete else 0

    async def expire_through(self, position: Position) -> int:
        """Acknowledge the entries up to `position`, nothing if it is past the end; durable on return.

        Returns by how many entries the backlog shrank.
        """
        self.check()
        return await self._expire(plan_position_expiry(self._host.ledger_list, self.mark_delete, position))

    async def _expire(self, position: Position) -> int:
        before = self.backlog
        durable = self._pass(position)
        expired = before - self.backlog  # before more is appended
        await durable
        return expired

    def _pass(self, position: Position) -> "asyncio.Future[None]":
        """Acknowledge everything up to `position`; done when durable. Nothing was consumed: the properties stay."""
        position = exact_position(position)
        ahead = position > self.mark_delete
        # if it is there already, an earlier attempt may have failed: then that is not durable yet
        return self._after_change(ahead and self._acks.acknowledge_cumulative(position, self._host.ledger_list))

    async def flush(self) -> None:
        """Make the current state durable without waiting for the throttle."""
        self.check()
        await self._persistence.flush()

    # -- moving

    async def reset(self, to: Position | str, *, force: bool = False, batch: BatchDeletion | None = None) -> None:
        """Make `to` ("earliest", "latest" or a position) the first entry to read; durable on return (C7).

        Everything from there on counts as not acknowledged, except the indexes that `batch` deletes
        of the entry at `to`. A position without an entry becomes the next valid one, unless
        `force`. The properties of the position stay. Compaction's cursor reads from there but keeps
        its mark-delete position, which says how far its compacted ledger extends.

        Raises:
            InvalidPosition: `to` is not a position to reset to.
            MledgerError: it is not durable; the cursor is where it was, without what was acknowledged since the call.
        """
        place = exact_position(place_of(to))
        if not self._host.config.deletion_at_batch_index_level_enabled:
            batch = None
        elif batch is not None:
            batch = BatchDeletion(exact_position(batch.position), tuple(exact_words(batch.words)))
        async with self._host.trim_lock:  # no trim removes a ledger while the cursor moves into it
            self.check()
            plan = plan_reset(self._host.ledgers_to_start_in, place, force=force)
            if batch is not None and not self._host.ledger_list.exists(batch.position):
                batch = None  # what comes there later is another one
            mark_delete = mark_delete_after(plan, self.name, self.mark_delete)
            await self._reset(ResetPlan(mark_delete, plan.read_position), self._properties, batch)

    async def begin_anew(self, properties: Mapping[str, int]) -> None:
        """If the position still has `properties`, forget them and all acknowledgements; durable on return.

        Compaction's cursor does so when its compacted ledger is gone: a reset keeps both.
        """
        async with self._host.trim_lock:
            self.check()
            if self.properties != properties:
                return
            await self._reset(plan_reset(self._host.ledgers_to_start_in, EARLIEST), ())

    async def _reset(self, plan: ResetPlan, properties: Properties, batch: BatchDeletion | None = None) -> None:
        """Move there, forgetting acknowledgements; durable on return. Where that fails, nothing has moved."""
        before, read_position = self._snapshot(), self.read_position

        def undo() -> None:
            self._acks, self._properties = before.acks, before.properties
            self._reads.move_to(read_position)
            self._host.wake_readers()

        self._acks.reset(plan.mark_delete, batch)
        self._properties = properties
        self._reads.move_to(plan.read_position)
        self._persistence.changed(undo=undo)
        await self._persistence.flush()
        self._host.wake_readers()

    async def reset_to_time(self, time_ms: int, entry_time: Callable[[bytes], int]) -> Position:
        """Make the first entry published at or after `time_ms` the first to read; returns its position (C7).

        `entry_time` gives the publish time of a payload, in ms since 1970. The search is binary.
        """
        self.check()
        newest_before = await find_by_time(lambda: self._host.ledger_list, self._host.read_entry, time_ms, entry_time)
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

    def read_after(self, position: Position) -> None:
        """Read on after `position`, if the next entry to read is not behind it; acknowledges nothing."""
        self.check()
        if self.read_position <= position:
            self._reads.move_to(next_valid(self._host.ledger_list, position))
            self._host.wake_readers()

    async def move_consumed(self, move: CursorMove) -> None:
        """Leave a fully consumed ledger for the start of the next, durably (R9)."""
        self.check()
        if next_ledger_if_consumed(self._host.ledger_list, self.mark_delete) != move.new:
            return
        self._acks.move_mark_delete(move.new)
        self._acks.advance(self._host.ledger_list)
        self._reads.pass_deleted()
        self._persistence.changed()
        self._host.emit(ResetSinceConsumed(self._host.name, self.name, move.old, move.new))
        await self._persistence.persist_without_ledger()

    def pass_trimmed(self) -> None:
        """Move to the first ledger of the topic if mark-delete is below it: its ledgers were deleted (R6)."""
        first = self._host.ledger_list.first_position
        if self._stopped is None and self.mark_delete < first:
            self._acks.move_mark_delete(first)
            self._acks.advance(self._host.ledger_list)
            self._after_change(True)

    async def persist_recovered(self) -> None:
        """Make a move by recovery durable; if that fails, the state stays in memory and is retried."""
        await self._persistence.persist_recovered()

    # -- reading

    async def read(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[Entry]:
        """The next unacknowledged entries, within `max_entries`, `max_bytes` and `max_position`.

        At least one if there is one; none at the end. Moves the read position. Missing and empty
        ledgers are skipped (C11). With autoSkipNonRecoverableData lost entries are acknowledged.

        Raises:
            NoSuchLedger, NoSuchEntry: a listed ledger or an entry of one is lost.
            LedgerOffloaded: the ledger is in tiered storage only.
        """
        return entries_of(await self._reads.read_runs(max_entries, max_bytes, max_position))

    async def read_or_wait(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[Entry]:
        """Read as `read` does, but wait until there is an entry (C10).

        Returns nothing once the read position is past `max_position`.

        Raises:
            TopicTerminated: the read position is at the end of a terminated topic.
            ValueError: `max_entries` is below 1: it would wait for ever.
        """
        if max_entries < 1:
            raise ValueError(f"a read of {max_entries} entries never finds one: give 1 or more")
        return await self._reads.wait(lambda: self.read(max_entries, max_bytes, max_position), max_position)

    async def read_runs(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[PayloadRun]:
        """Read as `read` does, but return runs: no object is made per entry, and cached runs are not copied (D6)."""
        return await self._reads.read_runs(max_entries, max_bytes, max_position)

    def read_cached(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[PayloadRun]:
        """Read as `read_runs` does, but only what the cache holds: nothing if the next entry is not cached (D6)."""
        return self._reads.read_cached(max_entries, max_bytes, max_position)

    async def read_positions(self, positions: Iterable[Position]) -> PositionsFound:
        """The entries at scattered `positions`, in order, as few requests; the read position stays (D3).

        Missing are positions that are acknowledged or have no entry any more: nobody needs them.
        Raises as `read`.
        """
        self.check()
        wanted = list(positions)
        live = [position for position in wanted if not self._acks.is_deleted(position)]
        found = await self._host.read_positions(live)
        self.check()
        if len(live) == len(wanted):
            return found
        gone = {position for position in wanted if self._acks.is_deleted(position)}
        return PositionsFound(found.runs, tuple(sorted(gone.difference(live).union(found.missing))))

    def set_active(self, active: bool) -> None:
        """Set whether consumers follow the topic by this cursor; only then are new entries cached for it (D6)."""
        self._reads.set_active(active)

    def lose(self, ledger_id: int, first: int, last: int, reason: str) -> None:
        """Acknowledge the lost entries `first` to `last` of a ledger without reading them."""
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
        """Close cleanly (C3): everything acknowledged is durable on return.

        Of a fenced cursor nothing is left to write: what was not durable has failed (M7). A second
        call waits for the first and raises the same error. Cancelling the caller does not cancel
        the close.
        """
        if self._stopped is not None:
            await self._persistence.close_again()
            return
        self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} is closed")
        self._reads.set_active(False)
        try:
            await self._persistence.close()
        finally:
            self._host.wake_readers()

    async def closed(self) -> None:
        """Wait until nothing of it is written any more, once it was closed or its deletion has begun."""
        await self._persistence.closed()

    async def remove(self, attached: Sequence[int] = ()) -> None:
        """Delete the cursor, its record, its ledger and the ledgers `attached`."""
        self.check()
        self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} is deleted")
        self._reads.set_active(False)
        try:
            await self._persistence.remove(self._stopped, attached, self.named_compacted())
        finally:
            self._host.wake_readers()

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Stop and return to the durable state, since another owner has the topic (M7)."""
        if isinstance(self._stopped, ManagedLedgerFenced):
            return
        self._stopped = error
        self._persistence.fence(error)

    async def abandon(self) -> None:
        """Stop and release the cursor ledger without writing anything."""
        if self._stopped is None:
            self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} was abandoned")
        await self._persistence.abandon(self._stopped)
