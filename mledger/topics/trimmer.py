"""Trims consumed ledgers from a topic, as `plan_trim` decides (R9, R10).

First the trimmer makes the moves of R9 durable, also those of cursors that were closed. Then one
update removes the ledgers from the list and records each for deletion. Then it deletes the ledgers,
in order, and their records. A ledger that cannot be deleted stays recorded, and the next trim tries
again.

Retention is read right before ledgers are removed (M10). If it cannot be read, nothing is removed.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

from mledger.admin.policies.trim_policy import RECENT_S, TrimPolicy
from mledger.bookie.errors import BookieError
from mledger.cursors.cursor import Cursor
from mledger.cursors.usable_cursor import act_on_usable
from mledger.errors import CursorNotFound, ManagedLedgerClosed, RetentionUnknown
from mledger.events import Event
from mledger.ledgers.background import Background
from mledger.ledgers.entries.entry_reader import EntryReader
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.retention import KEEP_NOTHING, RetentionLimits
from mledger.ledgers.trim_plan import CursorMove, TrimPlan, plan_moves, plan_no_trim, plan_trim
from mledger.metastore.errors import MetadataError, MledgerError, StoreUnavailable
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.topics.services.maintenance import Maintenance
from mledger.topics.topic_ledgers import TopicLedgers

log = get_logger(__name__)

RETRY_MS = 60_000
SOONEST_MS = 500
DELETED_AT_ONCE = 50
FOLLOW_MS = 15 * 60_000  # policies that retain something are read again
GONE = (CursorNotFound, ManagedLedgerClosed)  # a cursor that was deleted meanwhile, or a topic that closes


class TrimmedTopic(Protocol):
    """The managed ledger, as trimming needs it."""

    @property
    def name(self) -> str:
        """The managed ledger's name."""

    @property
    def ledger_list(self) -> LedgerList:
        """Its current list of ledgers."""

    @property
    def trim_lock(self) -> asyncio.Lock:
        """Held while ledgers are removed from the list."""

    @property
    def open_cursors(self) -> Mapping[str, Cursor]:
        """Its recovered cursors."""

    @property
    def new_cursors(self) -> Mapping[str, Position]:
        """Positions of cursors whose creation is under way or of unknown outcome, by name."""

    @property
    def can_trim(self) -> bool:
        """Whether the topic is open and every cursor's state is known."""

    async def usable_cursor(self, name: str) -> Cursor:
        """The cursor, recovered again if it was closed; raises as `CursorContainer.usable`."""

    def ledgers_dropped(self) -> None:
        """Move cursors off the ledgers that were removed from the list."""

    def emit(self, event: Event) -> None:
        """Pass an event to the listener."""


class Trimmer:
    """Trims one topic: on request, after consumption, and when a retention time has passed."""

    def __init__(
        self,
        topic: TrimmedTopic,
        ledgers: TopicLedgers,
        factory: LedgerFactory,
        reader: EntryReader,
        policy: TrimPolicy,
        background: Background,
        maintenance: Maintenance,
    ) -> None:
        self._topic = topic
        self._ledgers = ledgers
        self._factory = factory
        self._reader = reader
        self._policy = policy
        self._background = background
        self._now_ms = maintenance.now_ms
        self._one_at_a_time = asyncio.Lock()
        self._wanted = False
        self._running = False
        self._later = maintenance.alarm(self.trim_later)
        self._dropping: list[int] = []  # being removed from the list
        self._undeleted: dict[int, None] = {}  # removed from the list, in order

    @property
    def dropping(self) -> Collection[int]:
        """Ledgers that an update under way or of unknown outcome removes from the list."""
        return self._dropping

    def plan(self) -> TrimPlan:
        """What a trim would do now, under the retention read last; changes nothing."""
        return self._plan_from(self._positions() | self._held(), self._policy.known)

    async def read_retention(self) -> None:
        """Read the effective retention, for `plan`; a failure is logged."""
        try:
            await self._policy.check_known(await self._policy.retention(RECENT_S))
        except RetentionUnknown:
            pass  # nothing is planned, and a trim says why
        except MledgerError as error:
            log.warning("retention_unknown", topic=self._topic.name, error=error)

    async def trim(self, *, through: Position | None = None, last: int | None = None, asked: bool = True) -> TrimPlan:
        """Move cursors off consumed ledgers, delete ledgers, and retry earlier failed deletions.

        Returns the plan carried out. `through` and `last` as in `plan_trim`. `asked`: a caller requests it;
        else nothing is removed while automatic trimming is off (M10). Raises PoliciesUnavailable if
        retention cannot be read, RetentionUnknown if it is the default of brokers and not given, and errors of the
        writes of a cursor's move or of the list. A failed deletion is logged and retried.
        """
        async with self._one_at_a_time:
            async with self._topic.trim_lock:
                await self._settle_drop()
                await self._move_cursors()
                plan = await self._decide(through, last, asked=asked)
                now_ms = self._now_ms()
                if plan.deletions:
                    await self._drop(plan)
            await self._delete()  # of many ledgers that takes long, and cursors may be reset meanwhile
        self._schedule(plan, now_ms)
        return plan

    def trim_later(self) -> None:
        """Trim in the background, once for all requests that arrive meanwhile."""
        self._wanted = True
        if not self._running and self._topic.can_trim:
            self._running = True
            self._background.spawn(self._trim_while_wanted(), "trim")

    def stop(self) -> None:
        """Cancel the scheduled trim."""
        self._later.cancel()

    async def try_trim(self) -> None:
        """Trim; a failure is logged and retried later."""
        try:
            await self.trim(asked=False)
        except MledgerError as error:
            log.warning("trim_failed", topic=self._topic.name, error=error)
            self._try_later()
        except Exception:
            self._try_later()
            raise

    def delete_later(self, ledger_id: int) -> None:
        """Delete a ledger that is recorded for deletion at a next trim, since an attempt has failed."""
        self._undeleted[ledger_id] = None
        self._try_later()

    def _try_later(self) -> None:
        due_ms = self._now_ms() + RETRY_MS
        if self._topic.can_trim and (self._later.due_ms is None or self._later.due_ms > due_ms):
            self._later.set(due_ms)

    async def _trim_while_wanted(self) -> None:
        try:
            while self._wanted and self._topic.can_trim:
                self._wanted = False
                await self.try_trim()
        finally:
            self._running = False

    async def _decide(self, through: Position | None, last: int | None, *, asked: bool) -> TrimPlan:
        """The plan under current retention and policies, which are read only if the plan depends on them."""
        if through is not None:
            return self._plan(KEEP_NOTHING, through, last)
        plan = self._first_unneeded(last)
        if not plan.deletions:
            return plan
        if not asked:
            if why := await self._policy.why_not():
                return plan_no_trim(self._topic.ledger_list, self._settled_positions(), why)
            plan = self._plan(await self._policy.retention(RECENT_S), last=last)
        if plan.deletions:
            retention = await self._policy.retention()
            plan = self._plan(retention, last=last)
            if plan.deletions:  # a policy may have gone since `why_not` saw it
                await self._policy.check_known(retention)
        return plan

    def _first_unneeded(self, last: int | None = None) -> TrimPlan:
        """The plan without retention, of the first ledger only: it tells whether there is any, of many thousand."""
        first = next(iter(self._topic.ledger_list), None)
        return self._plan(KEEP_NOTHING, last=first if last is None or first is None else min(first, last))

    def _plan(self, retention: RetentionLimits, through: Position | None = None, last: int | None = None) -> TrimPlan:
        return self._plan_from(self._settled_positions(), retention, through, last)

    def _plan_from(
        self,
        positions: Mapping[str, Position],
        retention: RetentionLimits,
        through: Position | None = None,
        last: int | None = None,
    ) -> TrimPlan:
        ledgers = self._topic.ledger_list
        never = self._policy.why_never(positions) if through is None else ""  # a truncation deletes it, as in Pulsar
        return plan_trim(ledgers, positions, retention, self._now_ms(), through=through, last=last, never=never)

    def _positions(self) -> dict[str, Position]:
        return {name: cursor.held_from for name, cursor in self._topic.open_cursors.items()}

    def _settled_positions(self) -> dict[str, Position]:
        """Positions after the moves; a cursor that has since consumed a ledger holds it until its move."""
        positions = self._positions()
        late = {move.cursor for move in plan_moves(self._topic.ledger_list, positions)}
        settled = {name: Position(at.ledger_id, NO_ENTRY) if name in late else at for name, at in positions.items()}
        return settled | self._held()

    def _held(self) -> dict[str, Position]:
        """Positions of new cursors: each holds the whole ledger it stands in, since it cannot move yet."""
        return {name: Position(at.ledger_id, NO_ENTRY) for name, at in self._topic.new_cursors.items()}

    async def _move_cursors(self) -> None:
        moves = plan_moves(self._topic.ledger_list, self._positions())
        if moves:
            self._factory.on_step("move cursors")
            for outcome in await asyncio.gather(*map(self._move, moves), return_exceptions=True):
                if isinstance(outcome, BaseException) and not isinstance(outcome, GONE):
                    raise outcome

    async def _move(self, move: CursorMove) -> None:
        """Make a move durable; a cursor that was closed, which nobody else would move, is recovered for it."""
        usable = partial(self._topic.usable_cursor, move.cursor)
        await act_on_usable(usable, lambda cursor: cursor.move_consumed(move))

    async def _drop(self, plan: TrimPlan) -> None:
        gone = self._dropping = [info.ledger_id for info in plan.deletions]  # before the first await
        await self._ledgers.verify_owner()
        name = self._topic.name
        for event in plan.events_before(name):
            self._topic.emit(event)
        self._factory.on_step("drop ledgers")
        await self._ledgers.drop(gone)
        self._dropping = []
        self._undeleted |= dict.fromkeys(gone)
        self._factory.on_step("ledgers dropped")
        for ledger_id in gone:
            self._reader.forget(ledger_id)
        self._topic.ledgers_dropped()
        for event in plan.events_after(name):
            self._topic.emit(event)

    async def _settle_drop(self) -> None:
        """Find out which ledgers the last update removed from the list if its outcome is unknown."""
        if self._dropping:
            await self._ledgers.verify_owner()
            gone, self._dropping = self._dropping, []
            self._undeleted |= dict.fromkeys(ledger_id for ledger_id in gone if ledger_id not in self._ledgers.list)
            self._topic.ledgers_dropped()

    async def _delete(self) -> None:
        waiting = deque(self._undeleted)

        async def work() -> None:
            while waiting:
                ledger_id = waiting.popleft()
                try:
                    await self._factory.delete(ledger_id)
                except (BookieError, MetadataError) as error:
                    if isinstance(error, StoreUnavailable):  # others would wait as long each, and a reset for them
                        waiting.clear()
                    log.warning("ledger_not_deleted", topic=self._topic.name, ledger=ledger_id, error=error)
                else:
                    del self._undeleted[ledger_id]

        await asyncio.gather(*(work() for _ in range(min(DELETED_AT_ONCE, len(waiting)))))

    def _schedule(self, plan: TrimPlan, planned_ms: int) -> None:
        """Schedule the next trim: for the end of retention, a failed deletion, or changed policies."""
        self.stop()
        if not self._topic.can_trim:
            return
        delays = [RETRY_MS] if self._undeleted else []
        if self._first_unneeded().deletions:  # only retention, or disabled trimming, keeps them
            delays.append(FOLLOW_MS)
            kept_ms = self._policy.known.retention_time_ms
            if kept_ms > 0 and plan.remaining[0].timestamp:
                left_ms = plan.remaining[0].timestamp + kept_ms + 1 - planned_ms
                if left_ms > 0:
                    delays.append(max(SOONEST_MS, left_ms))
        if delays:
            self._later.set(planned_ms + min(delays))
