"""A durable cursor: what a subscription has acknowledged and where it reads next (C1 to C8, C10, C11).

Acknowledging changes the state in memory at once and gives a future that is done when that state is durable. A
change that could not be written stays in memory and is tried again; with the topic fenced, memory goes back to what is
durable.
"""

import asyncio
import enum
from collections.abc import Callable, Iterable, Sequence

from metastore.errors import MledgerError
from metastore.position import Position, PositionRange
from metastore.records import BatchDeletion
from mledger.acks import AckState
from mledger.cursor_flush import Flusher, fail, succeed
from mledger.cursor_host import CursorHost
from mledger.cursor_reads import CursorReads
from mledger.cursor_recovery import CursorRecoveryPlan
from mledger.cursor_store import CursorState, CursorStore
from mledger.entry_bits import trim_words
from mledger.entry_time import find_by_time
from mledger.errors import InvalidPosition, ManagedLedgerClosed, ManagedLedgerFenced
from mledger.events import CursorStateNotPersisted, ResetSinceConsumed, Rewound
from mledger.reading import Entry
from mledger.trim import CursorMove, next_ledger_if_consumed
from mledger.walk import (
    EARLIEST,
    LATEST,
    backlog,
    check_markable,
    count_from,
    end,
    next_valid,
    plan_reset,
    position_after_skip,
)

RETRY_FIRST_S = 1.0
RETRY_LAST_S = 60.0
RETRIES = 10


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
        self._store = store
        self._acks = plan.acks
        self._properties = plan.properties
        self._cursor_properties = plan.cursor_properties
        self._reads = CursorReads(self, host, plan.read_position)
        self._durable = self._snapshot()
        self._changes = 0
        self._durable_changes = 0
        self._failures = 0
        self._retry: asyncio.TimerHandle | None = None
        self._stopped: MledgerError | None = None
        self._closing: asyncio.Task[None] | None = None
        rate = host.config.throttle_mark_delete
        self._flusher = Flusher(self._write, 1 / rate if rate > 0 else 0.0)

    # -- looking

    @property
    def path(self) -> str:
        """Where its record is in the metadata store."""
        return self._store.path

    @property
    def mark_delete(self) -> Position:
        """It and every entry before it are acknowledged."""
        return self._acks.mark_delete

    @property
    def durable_mark_delete(self) -> Position:
        """The mark-delete position that a restart would find."""
        return self._durable.mark_delete

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
        return self._store.ledger_id

    @property
    def status(self) -> CursorStatus:
        """What it can do now."""
        if isinstance(self._stopped, ManagedLedgerFenced):
            return CursorStatus.FENCED
        if self._stopped is not None:
            return CursorStatus.CLOSED
        return CursorStatus.OPEN if self._store.is_writing else CursorStatus.NO_LEDGER

    def batch_deleted(self, position: Position) -> tuple[int, ...] | None:
        """Words of the partly acknowledged batch at `position`, 1 for each index not yet acknowledged; else None."""
        return self._acks.batch_words(position)

    def is_deleted(self, position: Position) -> bool:
        """Whether the entry is acknowledged."""
        return self._acks.is_deleted(position)

    # -- acknowledging

    def acknowledge(self, positions: Iterable[Position]) -> "asyncio.Future[None]":
        """Acknowledge entries one by one, any number a call; done when durable (C2, C3).

        Raises InvalidPosition, and changes nothing, for a position past the last confirmed entry.
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

        With `ack_set` the entry at `position` is a batch, acknowledged as by `acknowledge_batch`. Raises
        InvalidPosition, and changes nothing, past the last confirmed entry or below mark-delete.
        """
        self.check()
        check_markable(self._host.ledger_list, self._acks, position)
        if trim_words(ack_set) and not self._host.config.deletion_at_batch_index_level_enabled:
            position, ack_set = max(self.mark_delete, Position(position.ledger_id, position.entry_id - 1)), ()
        changed = self._acks.acknowledge_cumulative(position, self._host.ledger_list, ack_set)
        if changed or properties is not None:
            wanted = tuple((properties or {}).items())
            changed = changed or wanted != self._properties
            self._properties = wanted
        return self._after_change(changed)

    async def skip(self, n: int, *, include_deleted: bool = False) -> None:
        """Acknowledge the next `n` entries above mark-delete, counting deleted ones or not; durable on return (C6)."""
        self.check()
        if n < 0:
            raise InvalidPosition(f"{n} entries cannot be skipped: give 0 or more")
        position = position_after_skip(self._host.ledger_list, self._acks, n, count_deleted=include_deleted)
        if position > self.mark_delete:
            await self.acknowledge_cumulative(position)

    async def clear_backlog(self) -> None:
        """Acknowledge every entry there is; durable on return (C7)."""
        self.check()
        last = self._host.ledger_list.last_confirmed
        if last > self.mark_delete:
            await self.acknowledge_cumulative(last)
        self._reads.move_to(end(self._host.ledger_list))

    def set_cursor_properties(self, properties: dict[str, str]) -> "asyncio.Future[None]":
        """Replace the cursor's own properties; done when durable in its record."""
        self.check()
        self._cursor_properties = tuple(properties.items())
        return self._after_change(True)

    async def flush(self) -> None:
        """Make the state of now durable without waiting for the throttle."""
        self.check()
        if self._durable_changes != self._changes:
            await self._flusher.flush()

    # -- moving

    async def reset(self, to: Position | str, *, force: bool = False, batch: BatchDeletion | None = None) -> None:
        """Make `to` ("earliest", "latest" or a position) the first entry to be read; durable on return (C7).

        Everything above counts as not acknowledged but the indexes that `batch` deletes of the entry at `to`. A place
        where no entry is becomes the next valid one, unless `force`.
        """
        place = {"earliest": EARLIEST, "latest": LATEST}.get(to, to) if isinstance(to, str) else to
        if not isinstance(place, Position):
            raise InvalidPosition(f"{to!r} is no place to reset to: give earliest, latest or a position")
        if not self._host.config.deletion_at_batch_index_level_enabled:
            batch = None
        async with self._host.trim_lock:  # no ledger goes while the cursor moves into it
            self.check()
            plan = plan_reset(self._host.ledger_list, place, force=force)
            self._acks.reset(plan.mark_delete, batch)
            self._properties = ()
            self._reads.move_to(plan.read_position)
            self._changes += 1
            await self._flusher.flush()
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
        self._changes += 1
        self._host.emit(ResetSinceConsumed(self._host.name, self.name, move.old, move.new))
        await self._persist_without_ledger()

    async def persist_recovered(self) -> None:
        """Make durable what recovery moved; where that fails the state stays in memory and is tried again."""
        self._changes += 1
        try:
            await self._persist_without_ledger()
        except ManagedLedgerFenced:
            raise
        except MledgerError as error:
            self._host.emit(CursorStateNotPersisted(self._host.name, self.name, str(error)))
            self._try_again_later()

    async def _persist_without_ledger(self) -> None:
        """Make the state durable, in the znode if the cursor has no ledger open and it fits there (R8)."""
        if self._flusher.busy or self._store.is_writing:
            await self._flusher.flush()
            return
        state, changes = self._snapshot(), self._changes
        if await self._store.write_to_znode(state):
            self._became_durable(state, changes)
        else:
            await self._flusher.flush()

    # -- reading

    async def read(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[Entry]:
        """The next entries that are not acknowledged, at most so many, payload bytes and up to `max_position`.

        At least one if there is one; none at the end. Moves the read position. A missing or empty ledger is passed
        (C11); one that is listed and gone raises NoSuchLedger, or is acknowledged with autoSkipNonRecoverableData.
        """
        return await self._reads.read(max_entries, max_bytes, max_position)

    async def read_or_wait(
        self, max_entries: int, max_bytes: int | None = None, max_position: Position | None = None
    ) -> list[Entry]:
        """The same, parked until there is an entry (C10); nothing once the read position is past `max_position`.

        Raises TopicTerminated at the end of a terminated topic.
        """
        return await self._reads.read_or_wait(max_entries, max_bytes, max_position)

    @property
    def acks(self) -> AckState:
        """What is acknowledged; not to be changed."""
        return self._acks

    def check(self) -> None:
        """Raise what stopped the cursor."""
        if self._stopped is not None:
            raise self._stopped

    def lose_ledger(self, ledger_id: int) -> None:
        """Acknowledge every entry of a ledger that is listed and gone."""
        host = self._host
        last = host.ledger_list.entries(ledger_id) - 1
        self._after_change(bool(self._acks.acknowledge_run(ledger_id, 0, last, host.ledger_list)))

    # -- persistence

    async def close(self) -> None:
        """The clean close (C3): whatever was acknowledged is durable on return.

        A second call waits for the first. Who gives up waiting does not end the close.
        """
        if self._stopped is not None:
            await self.closed()
            return
        self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} is closed")
        self._cancel_retry()
        self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        waiters = await self._flusher.stop()
        state, changes = self._snapshot(), self._changes
        try:
            await self._store.close(state, changed=self._durable_changes != changes)
        except BaseException as error:
            fail(waiters, error if isinstance(error, MledgerError) else MledgerError(f"close was cut off: {error!r}"))
            raise
        self._became_durable(state, changes)
        succeed(waiters)
        self._host.wake_readers()

    async def closed(self) -> None:
        """Return when a clean close that has begun has ended, whatever came of it."""
        if self._closing is not None:
            await asyncio.wait([self._closing])

    async def remove(self) -> None:
        """Delete the cursor, its record and its ledger."""
        self.check()
        self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} is deleted")
        self._cancel_retry()
        self._flusher.fail(self._stopped)
        await self._flusher.stop()
        await self._store.remove()
        self._host.wake_readers()

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Another owner has the topic: back to what is durable, and nothing further (M7)."""
        if isinstance(self._stopped, ManagedLedgerFenced):
            return
        self._stopped = error
        self._cancel_retry()
        self._flusher.fail(error)
        self._roll_back()

    async def abandon(self) -> None:
        """Stop, and let go of the cursor ledger, without writing anything."""
        if self._stopped is None:
            self._stopped = ManagedLedgerClosed(f"cursor {self.name} of {self._host.name} was abandoned")
        self._cancel_retry()
        await self._flusher.abandon(self._stopped)
        if self._closing is not None and not self._closing.done():
            self._closing.cancel()
            await asyncio.wait([self._closing])
        await self._store.abandon()

    def _snapshot(self) -> CursorState:
        return CursorState(self._acks.copy(), self._properties, self._cursor_properties)

    def _after_change(self, changed: bool) -> "asyncio.Future[None]":
        if changed:
            self._changes += 1
            self._reads.pass_deleted()
        if self._durable_changes == self._changes:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        return self._flusher.request()

    async def _write(self) -> None:
        state, changes = self._snapshot(), self._changes
        try:
            if state.cursor_properties != self._durable.cursor_properties:
                await self._store.write_properties(state.cursor_properties)
            if (state.acks, state.properties) != (self._durable.acks, self._durable.properties):
                await self._store.write(state)
        except ManagedLedgerFenced:
            self._roll_back()
            raise
        except MledgerError as error:
            self._host.emit(CursorStateNotPersisted(self._host.name, self.name, str(error)))
            self._try_again_later()
            raise
        self._failures = 0
        self._became_durable(state, changes)

    def _became_durable(self, state: CursorState, changes: int) -> None:
        before = self._durable.mark_delete
        self._durable, self._durable_changes = state, changes
        if state.mark_delete != before:
            self._host.mark_delete_moved(before, state.mark_delete)

    def _roll_back(self) -> None:
        self._acks = self._durable.acks.copy()
        self._properties = self._durable.properties
        self._cursor_properties = self._durable.cursor_properties
        self._changes = self._durable_changes

    def _try_again_later(self) -> None:
        self._failures += 1
        if self._failures <= RETRIES and self._retry is None and self._stopped is None:
            delay = min(RETRY_LAST_S, RETRY_FIRST_S * 2 ** (self._failures - 1))
            self._retry = asyncio.get_running_loop().call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._stopped is None and self._durable_changes != self._changes:
            self._flusher.request()

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
