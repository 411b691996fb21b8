"""Makes one cursor's state durable, now and again until it is, and knows what is durable (C3, C5, R8).

- A write that failed is tried again for as long as the cursor is open, after at most RETRY_LAST_S; metrics and the log
  tell of it.
- Of a state too large for one entry mark-delete is written with what above it was durable before. The rest stays in
  memory, is tried again, and is told as an error: nothing is dropped without a word.
- With the topic fenced, memory goes back to what is durable (M7).
"""

import asyncio
from collections.abc import Callable, Sequence

from mledger.cursors.acks import AckState
from mledger.cursors.flush import Flusher, fail, succeed
from mledger.cursors.host import CursorHost
from mledger.cursors.store import CursorState, CursorStore
from mledger.errors import AckStateTooLarge, ManagedLedgerFenced
from mledger.events import CursorStateNotPersisted
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs import get_logger

log = get_logger(__name__)

RETRY_FIRST_S = 1.0
RETRY_LAST_S = 60.0
LOG_EVERY_S = 60.0


def plan_partial(state: CursorState, durable: CursorState | None) -> CursorState:
    """What is written of a `state` that is too large: its mark-delete, with what of `durable` lies above it.

    `durable` is None where the cursor was reset since: what was acknowledged before does not count then.
    """
    acks = AckState(state.mark_delete) if durable is None else durable.acks.copy()
    acks.move_mark_delete(state.mark_delete)
    return CursorState(acks, state.properties, state.cursor_properties)


class CursorPersistence:
    """The durable side of one cursor; `snapshot` copies its state of now, `restore` puts an earlier one back."""

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
        self._begun_anew = 0  # the change that was a reset
        self._unsure = False  # a write has failed since: what is stored may be newer than `durable`
        self._changed_at: float | None = None
        self._failures = 0
        self._logged_at = -LOG_EVERY_S
        self._retry: asyncio.TimerHandle | None = None
        self._ended = False
        self._closing: asyncio.Task[None] | None = None
        rate = host.config.throttle_mark_delete
        self._flusher = Flusher(self._write, 1 / rate if rate > 0 else 0.0)

    # -- looking

    @property
    def path(self) -> str:
        """Where the cursor's record is."""
        return self._store.path

    @property
    def ledger_id(self) -> int:
        """The cursor ledger that its record names, -1 for none."""
        return self._store.ledger_id

    @property
    def is_writing(self) -> bool:
        """Whether a cursor ledger is open for writing."""
        return self._store.is_writing

    @property
    def is_failing(self) -> bool:
        """Whether the last write failed, so that it is to be tried again."""
        return self._failures > 0

    @property
    def behind_s(self) -> float:
        """Seconds since the oldest change that is not durable; 0 where all is."""
        return 0.0 if self._changed_at is None else self._loop.time() - self._changed_at

    # -- changes

    def changed(self, *, anew: bool = False) -> None:
        """Note that the state changed; `anew`: by a reset, so that what was durable does not count any more."""
        if self._changed_at is None:
            self._changed_at = self._loop.time()
        self._changes += 1
        if anew:
            self._begun_anew = self._changes

    def request(self) -> "asyncio.Future[None]":
        """A future that is done when the state of now is durable, or has the error of the write."""
        if self._durable_changes == self._changes:
            done: asyncio.Future[None] = self._loop.create_future()
            done.set_result(None)
            return done
        return self._flusher.request()

    async def flush(self) -> None:
        """Make the state of now durable without waiting for the throttle."""
        if self._durable_changes != self._changes:
            await self._flusher.flush()

    async def persist_without_ledger(self) -> None:
        """Make the state durable, in the znode if the cursor has no ledger open and it fits there (R8)."""
        if self._flusher.busy or self._store.is_writing:
            await self._flusher.flush()
            return
        state, changes, at = self._snapshot(), self._changes, self._loop.time()
        try:
            written = await self._store.write_to_znode(state)
        except BaseException as error:
            self._unsure = True
            if isinstance(error, MledgerError) and not isinstance(error, ManagedLedgerFenced):
                self._failed(error)
            raise
        if written:
            self._became_durable(state, changes, at)
        else:
            await self._flusher.flush()

    async def persist_recovered(self) -> None:
        """Make durable what recovery moved; where that fails the state stays in memory and is tried again."""
        self.changed()
        try:
            await self.persist_without_ledger()
        except ManagedLedgerFenced:
            raise
        except MledgerError as error:
            log.info("cursor_move_not_durable", topic=self._host.name, cursor=self._store.name, error=error)

    # -- ending

    async def close(self) -> None:
        """Whatever was acknowledged is durable on return (C3). Who gives up waiting does not end the close."""
        self._end()
        self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def closed(self) -> None:
        """Return when a clean close that has begun has ended, whatever came of it."""
        if self._closing is not None:
            await asyncio.wait([self._closing])

    async def close_again(self) -> None:
        """The same for who comes second: raises what the clean close raised."""
        await self.closed()
        if self._closing is not None and not self._closing.cancelled():
            self._closing.result()

    async def remove(self, why: MledgerError, attached: Sequence[int] = ()) -> None:
        """Delete the cursor's record, its ledger and those `attached`; `why` for those who wait for a write."""
        self._end()
        self._flusher.fail(why)
        await self._flusher.stop()
        await self._store.remove(attached)

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Write nothing further; memory goes back to what is durable (M7)."""
        self._end()
        self._flusher.fail(error)
        self._roll_back()

    async def abandon(self, error: MledgerError) -> None:
        """Stop, and let go of the cursor ledger, without writing anything; `error` for those who wait."""
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
                await self._store.close(state, changed=self._unsure or self._durable_changes != changes)
            except AckStateTooLarge as error:
                partial = self._partial(state)
                await self._store.close(partial, changed=self._unsure or partial != self.durable)
                raise self._became_partly_durable(partial, error) from None
        except BaseException as error:
            fail(waiters, error if isinstance(error, MledgerError) else MledgerError(f"close was cut off: {error!r}"))
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
            self._failed(error)
            raise
        self._became_durable(state, changes, at)

    async def _put(self, state: CursorState) -> None:
        try:
            if self._unsure or state.cursor_properties != self.durable.cursor_properties:
                await self._store.write_properties(state.cursor_properties)
            if self._unsure or (state.acks, state.properties) != (self.durable.acks, self.durable.properties):
                await self._store.write(state)
        except AckStateTooLarge:  # nothing of it was sent
            raise
        except BaseException:
            self._unsure = True
            raise
        self._unsure = False

    def _partial(self, state: CursorState) -> CursorState:
        return plan_partial(state, self.durable if self._durable_changes >= self._begun_anew else None)

    def _became_partly_durable(self, partial: CursorState, error: AckStateTooLarge) -> AckStateTooLarge:
        """Note it; the error to raise."""
        self._keep(partial)
        return AckStateTooLarge(
            f"{error}; mark-delete {partial.mark_delete} is durable with {partial.acks.deleted_count:,} entries above "
            "it, the others are acknowledged in memory only and would be delivered again after a restart"
        )

    def _became_durable(self, state: CursorState, changes: int, at: float) -> None:
        """`state` is, which was taken after `changes` changes at the loop's time `at`."""
        self._failures = 0
        self._unsure = False
        self._logged_at = -LOG_EVERY_S
        self._durable_changes = changes
        self._changed_at = None if changes == self._changes else at
        self._keep(state)

    def _keep(self, state: CursorState) -> None:
        before, self.durable = self.durable.mark_delete, state
        if state.mark_delete != before:
            self._host.mark_delete_moved(before, state.mark_delete)

    def _roll_back(self) -> None:
        self._restore(self.durable)
        self._changes = self._durable_changes
        self._changed_at = None

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
                hint="it is tried again",
            )
        self._failures += 1
        if self._retry is None and not self._ended:
            delay = min(RETRY_LAST_S, RETRY_FIRST_S * 2 ** min(self._failures - 1, 10))
            self._retry = self._loop.call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if not self._ended and self._durable_changes != self._changes:
            self._flusher.request()
