"""Makes one cursor's state durable, with retries, and tracks what is durable (C3, C5, R8).

- A failed write is retried as long as the cursor is open, at intervals up to RETRY_LAST_S; metrics
  and the log report it.
- If a state is too large for one entry, its mark-delete is written with the acknowledgements above
  it that were durable before. The rest stays in memory, is retried, and is reported as an error:
  nothing is dropped silently.
- A reset that could not be written is undone, and what was acknowledged since it began fails with it (C7).
- When the topic is fenced, the state in memory returns to the durable one (M7).
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

from mledger.config import ManagedLedgerConfig
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.host import CursorHost
from mledger.cursors.persistence.attached_ledgers import CursorAttachments
from mledger.cursors.persistence.flush import Flusher, fail, succeed
from mledger.cursors.persistence.store import CursorState, CursorStore
from mledger.errors import AckStateTooLarge, ManagedLedgerClosed, ManagedLedgerFenced
from mledger.events import CursorStateNotPersisted
from mledger.ledgers.background import outcome
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

RETRY_FIRST_S = 1.0
RETRY_LAST_S = 60.0
LOG_EVERY_S = 60.0


def plan_partial(state: CursorState, durable: CursorState | None) -> CursorState:
    """The part to write of a `state` that is too large: its mark-delete and what `durable` has above it.

    `durable` is None if the cursor was reset since: earlier acknowledgements do not count then.
    """
    acks = AckState(state.mark_delete) if durable is None else durable.acks.copy()
    acks.move_mark_delete(state.mark_delete)
    return CursorState(acks, state.properties, state.cursor_properties)


class CursorPersistence:
    """Persists one cursor; `snapshot` copies its current state, `restore` puts an earlier one back."""

    def __init__(
        self,
        host: CursorHost,
        store: CursorStore,
        snapshot: Callable[[], CursorState],
        restore: Callable[[CursorState], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._host = host
        self._store = store
        self._snapshot = snapshot
        self._restore = restore
        self.durable = snapshot()
        self._changes = 0
        self._durable_changes = 0
        self._reset_change = 0  # the number of the change that was the last reset
        self._undo: Callable[[], None] | None = None  # of that reset, until it is durable
        self._uncertain = False  # a write has failed: the stored state may be newer than `durable`
        self._sent: Position | None = None  # the lowest mark-delete of writes whose outcome is not known
        self._changed_at: float | None = None
        self._failures = 0
        self._logged_at = -LOG_EVERY_S
        self._retry: asyncio.TimerHandle | None = None
        self._ended = False
        self._closing: asyncio.Task[None] | None = None
        self._flusher = Flusher(self._write, 0.0)
        self.configure(host.config)

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Replace the settings: how often states are written."""
        rate = config.throttle_mark_delete
        self._flusher.interval_s = 1 / rate if rate > 0 else 0.0

    # -- state

    @property
    def durable_mark_delete(self) -> Position:
        """The mark-delete position of the durable state."""
        return self.durable.mark_delete

    @property
    def held_from(self) -> Position:
        """The lowest mark-delete position that may be stored: `durable_mark_delete`, or one of a write not known of."""
        return min(self.durable.mark_delete, self._sent or self.durable.mark_delete)

    @property
    def path(self) -> str:
        """The path of the cursor's record."""
        return self._store.path

    @property
    def ledger_id(self) -> int:
        """The cursor ledger that its record names, -1 for none."""
        return self._store.ledger_id

    @property
    def attached(self) -> CursorAttachments:
        """The ledgers that its own properties name."""
        return self._store.attached

    @property
    def is_writing(self) -> bool:
        """Whether a cursor ledger is open for writing."""
        return self._store.is_writing

    @property
    def is_failing(self) -> bool:
        """Whether the last write failed and is to be retried."""
        return self._failures > 0

    @property
    def behind_s(self) -> float:
        """Seconds since the oldest change that is not durable; 0 if all are."""
        return 0.0 if self._changed_at is None else self._loop.time() - self._changed_at

    # -- changes

    def changed(self, *, undo: Callable[[], None] | None = None) -> None:
        """Note that the state changed; with `undo` by a reset, after which the durable state does not count.

        `undo` puts back the state before the reset, if that cannot be written.
        """
        if self._changed_at is None:
            self._changed_at = self._loop.time()
        self._changes += 1
        if undo is not None:
            self._reset_change, self._undo = self._changes, undo

    def request(self) -> "asyncio.Future[None]":
        """A future that is done when the current state is durable, or has the error of the write."""
        if self._durable_changes == self._changes:
            done: asyncio.Future[None] = self._loop.create_future()
            done.set_result(None)
            return done
        return self._flusher.request()

    async def flush(self) -> None:
        """Make the current state durable without waiting for the throttle."""
        if self._durable_changes != self._changes:
            await self._flusher.flush()

    async def persist_without_ledger(self) -> None:
        """Make the state durable, in the znode if the cursor has no ledger open and it fits there (R8)."""
        if self._flusher.busy or self._store.is_writing:
            await self._flusher.flush()
            return
        state, changes, at = self._snapshot(), self._changes, self._loop.time()
        self._send(state)
        try:
            written = await self._store.write_to_znode(state)
        except BaseException as error:
            self._uncertain = True
            if not isinstance(error, MledgerError):
                self._try_later()  # its caller was cancelled: nobody else would ask
            elif not isinstance(error, ManagedLedgerFenced):
                self._failed(error)
            raise
        if written:
            self._became_durable(state, changes, at)
        else:
            await self._flusher.flush()

    async def persist_recovered(self) -> None:
        """Make a move by recovery durable; if that fails, the state stays in memory and is retried."""
        self.changed()
        try:
            await self.persist_without_ledger()
        except ManagedLedgerFenced:
            raise
        except MledgerError as error:
            log.info("cursor_move_not_durable", topic=self._host.name, cursor=self._store.name, error=error)
        except BaseException:  # the recovery was cancelled: nobody has the cursor, and nobody would end its retries
            self._end()
            raise

    # -- ending

    async def close(self) -> None:
        """Make everything acknowledged durable (C3). Cancelling the caller does not cancel the close."""
        self._end()
        self._closing = self._loop.create_task(self._close())
        await outcome(self._closing, self._abandoned)

    def _abandoned(self) -> MledgerError:
        return ManagedLedgerClosed(f"cursor {self._store.name} of {self._host.name} was abandoned while it was closed")

    async def closed(self) -> None:
        """Wait until nothing more is written: for a clean close, and for a write that a cancelled `remove` left."""
        if self._closing is not None:
            await asyncio.wait([self._closing])
        await self._flusher.idle()
        await self._store.idle()

    async def close_again(self) -> None:
        """Wait for the clean close and raise its error."""
        if self._closing is not None:
            await asyncio.wait([self._closing])
            if not self._closing.cancelled():
                self._closing.result()

    async def remove(self, why: MledgerError, attached: Sequence[int] = (), compacted: Collection[int] = ()) -> None:
        """Delete the cursor as `CursorStore.remove` does; fail pending writes with `why`."""
        self._end()
        self._flusher.fail(why)
        await self._flusher.stop()
        await self._store.remove(attached, compacted)

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Write nothing more, and return to the durable state (M7)."""
        self._end()
        self._flusher.fail(error)
        self._roll_back()

    async def abandon(self, error: MledgerError) -> None:
        """Stop and release the cursor ledger without writing anything; fail pending writes with `error`."""
        self._end()
        await self._flusher.abandon(error)
        if self._closing is not None and not self._closing.done():
            self._closing.cancel()
            await asyncio.wait([self._closing])
        await self._store.abandon()

    def _end(self) -> None:
        self._ended = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    async def _close(self) -> None:
        waiters = await self._flusher.stop()
        state, changes, at = self._snapshot(), self._changes, self._loop.time()
        try:
            try:
                await self._store.close(state, changed=self._uncertain or self._durable_changes != changes)
            except AckStateTooLarge as error:
                partial = self._partial(state)
                await self._store.close(partial, changed=self._uncertain or partial != self.durable)
                raise self._became_partly_durable(partial, error) from None
        except BaseException as error:
            fail(
                waiters,
                error if isinstance(error, MledgerError) else MledgerError(f"the close was interrupted: {error!r}"),
            )
            raise
        self._became_durable(state, changes, at)
        succeed(waiters)

    # -- writing

    async def _write(self) -> None:
        state, changes, at = self._snapshot(), self._changes, self._loop.time()
        try:
            try:
                await self._put(state)
            except AckStateTooLarge as error:
                partial = self._partial(state)
                await self._put(partial)
                raise self._became_partly_durable(partial, error) from None
        except ManagedLedgerFenced:
            self._roll_back()
            raise
        except MledgerError as error:
            self._undo_reset(changes, error)
            self._failed(error)
            raise
        except Exception as error:  # it is retried as well
            unexpected = MledgerError(f"the write ended unexpectedly: {error!r}")
            self._undo_reset(changes, unexpected)
            self._failed(unexpected)
            raise
        self._became_durable(state, changes, at)

    async def _put(self, state: CursorState) -> None:
        try:
            if self._uncertain or state.cursor_properties != self.durable.cursor_properties:
                await self._store.write_properties(state.cursor_properties)
            if self._must_write(state):
                self._send(state)
                await self._store.write(state)
        except AckStateTooLarge:  # nothing was sent
            raise
        except BaseException:
            self._uncertain = True
            raise
        self._uncertain = False

    def _send(self, state: CursorState) -> None:
        self._sent = min(state.mark_delete, self._sent or state.mark_delete)

    def _must_write(self, state: CursorState) -> bool:
        """Whether `state` is to be written: it differs from the durable one, or a reset is to be answered.

        Only a write shows that a later owner has not moved the cursor since from where the reset puts it.
        """
        reset = self._reset_change > self._durable_changes
        before = self.durable
        return self._uncertain or reset or (state.acks, state.properties) != (before.acks, before.properties)

    def _partial(self, state: CursorState) -> CursorState:
        return plan_partial(state, self.durable if self._durable_changes >= self._reset_change else None)

    def _became_partly_durable(self, partial: CursorState, error: AckStateTooLarge) -> AckStateTooLarge:
        """Record that `partial` is durable; returns the error to raise."""
        self._keep(partial)
        return AckStateTooLarge(
            f"{error}; mark-delete {partial.mark_delete} is durable with {partial.acks.deleted_count:,} entries above "
            "it; the others are acknowledged in memory only and would be delivered again after a restart"
        )

    def _became_durable(self, state: CursorState, changes: int, at: float) -> None:
        """Record that `state`, taken after `changes` changes at the loop's time `at`, is durable."""
        self._failures = 0
        self._uncertain = False
        self._logged_at = -LOG_EVERY_S
        self._durable_changes = changes
        if changes >= self._reset_change:
            self._undo = None
        self._changed_at = None if changes == self._changes else at
        self._keep(state)

    def _keep(self, state: CursorState) -> None:
        before = self.held_from
        self.durable, self._sent = state, None
        if state.mark_delete != before:
            self._host.mark_delete_moved(before, state.mark_delete)

    def _roll_back(self) -> None:
        self._restore(self.durable)
        self._changes = self._durable_changes
        self._changed_at = self._undo = None

    def _undo_reset(self, changes: int, error: MledgerError) -> None:
        """Put back the state before a reset that a failed write of `changes` changes had in it.

        Nobody has been answered since: who waits for a later write of the state after it fails too.
        """
        undo = self._undo
        if undo is not None and changes >= self._reset_change:
            self._undo, self._reset_change = None, 0
            self._flusher.fail(error)
            undo()
            self.changed()

    def _failed(self, error: MledgerError) -> None:
        self._host.emit(CursorStateNotPersisted(self._host.name, self._store.name, str(error)))
        if self._loop.time() - self._logged_at >= LOG_EVERY_S:
            self._logged_at = self._loop.time()
            log.error(
                "cursor_state_not_durable",
                topic=self._host.name,
                cursor=self._store.name,
                failures=self._failures + 1,
                error=error,
                hint="the write is retried",
            )
        self._failures += 1
        self._try_later()

    def _try_later(self) -> None:
        if self._retry is None and not self._ended:
            delay = min(RETRY_LAST_S, RETRY_FIRST_S * 2 ** min(max(self._failures - 1, 0), 10))
            self._retry = self._loop.call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if not self._ended and (self._uncertain or self._durable_changes != self._changes):
            self._flusher.request()


class MemoryPersistence:
    """Persistence of a cursor in memory only (C9): every change counts as durable at once.

    `mark_delete` gives the current mark-delete position.
    """

    path = ""
    ledger_id = NO_CURSOR_LEDGER
    is_writing = False
    is_failing = False
    behind_s = 0.0

    def __init__(self, host: CursorHost, mark_delete: Callable[[], Position]) -> None:
        self._host = host
        self._mark_delete = mark_delete
        self._before = mark_delete()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.set_result(None)

    @property
    def durable_mark_delete(self) -> Position:
        """The current mark-delete position."""
        return self._mark_delete()

    @property
    def held_from(self) -> Position:
        """The current mark-delete position."""
        return self._mark_delete()

    def changed(self, *, undo: Callable[[], None] | None = None) -> None:
        """Report a moved mark-delete, since ledgers may be consumed now."""
        before, self._before = self._before, self._mark_delete()
        if self._before != before:
            self._host.mark_delete_moved(before, self._before)

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Take no notice: nothing is written."""

    def request(self) -> "asyncio.Future[None]":
        """A future that is done."""
        return self._done

    async def flush(self) -> None:
        """Write nothing."""

    async def persist_without_ledger(self) -> None:
        """Write nothing."""

    async def persist_recovered(self) -> None:
        """Write nothing."""

    async def close(self) -> None:
        """Write nothing."""

    async def closed(self) -> None:
        """Wait for nothing."""

    async def close_again(self) -> None:
        """Wait for nothing."""

    async def remove(self, why: MledgerError, attached: Sequence[int] = (), compacted: Collection[int] = ()) -> None:
        """Delete nothing."""

    def fence(self, error: MledgerError) -> None:
        """Keep the state: no durable one differs from it."""

    async def abandon(self, error: MledgerError) -> None:
        """Release nothing."""
