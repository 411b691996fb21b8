"""A topic's write path: batches into the current ledger, rollover, going on after a failed add (M4, M5).

- A batch is one append to the writer; one that passes the ledger's limit is split, its rest goes to the next ledger.
- While a ledger is being switched, batches wait in order; every entry is in exactly one ledger of the list.
- A full ledger goes on being written if no other can be made: rollover is postponed, not the write refused.
- After a failed or fenced add the ledger's true end is settled first: what is in it is acknowledged, the rest is
  added again, in order, once each.
- An add that waits for longer than its time-out is a failed one: its ledger is recovered, not waited for.
- What is added to ledger after ledger, none of which gets a single entry, fails: bookies may never take it (Q11).
- Another owner fences for good (M7): everything pending fails, nothing further is touched.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.client.plans.entry_sizes import checked_size
from mledger.bookie.errors import (
    BookieError,
    BookieUnavailable,
    LedgerClosed,
    LedgerConflict,
    LedgerFenced,
    NoSuchLedger,
    NotEnoughBookies,
)
from mledger.config import ManagedLedgerConfig
from mledger.errors import ManagedLedgerError, ManagedLedgerFenced
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.open_ledger import Appended, Batch, OpenLedger
from mledger.metastore.errors import MetadataError, MledgerError, SessionExpired, StoreUnavailable
from mledger.topics.maintenance import Maintenance

RETRY_DELAYS_S = (0.1, 0.3, 1.0)
EMPTY_LEDGER_DELAYS_S = (0.0, 0.1, 0.3, 1.0, 3.0, 3.0, 3.0)  # after each ledger in a row that failed without an entry
ROLLOVER_POSTPONED_S = 10.0
LOOK_AGAIN_MS = 1000
AGE_SPREAD = 0.05  # of the maximum age: as much later, by chance, a ledger without traffic is rolled over
TAKEN = (LedgerFenced, LedgerConflict, NoSuchLedger)  # another client has had a hand in the ledger


@dataclass(frozen=True, slots=True)
class EndedLedger:
    """A ledger that takes no more entries, and its true end."""

    ledger_id: int
    end: LedgerEnd


class AddTimedOut(BookieUnavailable):
    """No ack quorum within managedLedgerAddEntryTimeoutSeconds."""


class LedgerKeeper(Protocol):
    """What the write path asks of the managed ledger, which holds the list."""

    async def verify_owner(self, *, fenced: bool = False) -> None:
        """Raise ManagedLedgerFenced if another owner is seen; `fenced`: it may be who fenced the ledger."""

    async def install(self, ended: EndedLedger, writer: LedgerWriter) -> None:
        """List `writer`'s ledger as the current one, and `ended` as it ended, in one update."""

    def confirmed(self, ledger: OpenLedger) -> None:
        """More entries of the current ledger are acknowledged."""

    def switch_failed(self, reason: MledgerError) -> None:
        """The current ledger ended and no other could be made; the next append tries again."""


class Appender:
    """Takes batches in order and keeps a ledger open for them; one task at a time switches ledgers."""

    def __init__(
        self,
        writer: LedgerWriter,
        factory: LedgerFactory,
        keeper: LedgerKeeper,
        config: ManagedLedgerConfig,
        maintenance: Maintenance,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._factory = factory
        self._keeper = keeper
        self._config = config
        self._waiting: deque[tuple[Batch, Sequence[bytes]]] = deque()
        self._stopped: MledgerError | None = None
        self._switching: asyncio.Task[None] | None = None
        self._stopping = asyncio.Lock()
        self._largest = min(config.max_message_size, writer.largest_entry)
        self._ended: EndedLedger | None = None
        self._now_ms = maintenance.now_ms
        self._due = maintenance.alarm(self._roll_if_due)
        self._last_ledger_id = writer.ledger_id
        self._last_append_ms = 0
        self._postponed_until = 0.0
        self._add_timer: asyncio.TimerHandle | None = None
        self._failed_empty = 0  # ledgers in a row that failed without an entry
        self._unlisted: list[LedgerWriter] = []  # made, and perhaps listed: the answer never came
        self._current: OpenLedger | None = None
        self._use(writer)

    @property
    def current(self) -> OpenLedger | None:
        """The ledger written to; None after it ended and before another is there."""
        return self._current

    def append(self, payloads: Sequence[bytes]) -> "asyncio.Future[Appended]":
        """Take a batch; the future gives where its entries are once all are acknowledged (M5).

        Raises what stopped the topic (fenced, closed, terminated), EntryTooLarge, ValueError for an empty batch.
        """
        if self._stopped is not None:
            raise self._stopped
        if not payloads:
            raise ValueError("an empty batch: give at least one entry")
        checked_size(payloads, self._largest, "", "maxMessageSize here and the frame limit of the bookies")
        batch = Batch(self._loop.create_future(), len(payloads))
        current = self._current
        if self._switching is None and current is not None and current.failure is None:
            self._push(current, batch, payloads)
        else:
            self._waiting.append((batch, payloads))
            self._switch()
        return batch.future

    async def stop(self, reason: MledgerError) -> EndedLedger:
        """Take no more batches, wait for those taken, close the current ledger: where it ended.

        Later appends get `reason`. Raises what kept the ledger from being closed.
        """
        if self._stopped is None:
            self._stopped = reason
        async with self._stopping:
            return await self._stop()

    async def _stop(self) -> EndedLedger:
        await self._switched()
        if self._current is not None:
            await self._current.drain()
        await self._switched()  # an add may have failed: settled, and added again, by then
        self._cancel_timers()
        if isinstance(self._stopped, ManagedLedgerFenced):
            raise self._stopped
        if self._current is not None:
            self._ended = await self._end(self._current)
            self._current = None
        assert self._ended is not None, "there is a ledger to write to, or one that has ended"
        return self._ended

    def resume(self) -> None:
        """Take batches again after a `stop` that was in vain."""
        if not isinstance(self._stopped, ManagedLedgerFenced):
            self._stopped = None

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Another owner has the topic: fail everything pending, touch nothing."""
        self._stopped = error
        self._cancel_timers()
        if self._current is not None:
            self._current.fail_all(error)
        self._fail_waiting(error)

    async def abandon(self, reason: MledgerError) -> None:
        """Drop the writers' connections' interest; writes nothing. What is pending fails with `reason`."""
        self._stopped = self._stopped or reason
        self._cancel_timers()
        if self._switching is not None:
            self._switching.cancel()
            await asyncio.wait([self._switching])
        if self._current is not None:
            self._current.fail_all(reason)
            await self._current.writer.abandon()
            self._current = None
        self._fail_waiting(reason)
        for writer in self._unlisted:
            await writer.abandon()

    async def roll_over(self) -> None:
        """Close the current ledger behind another, whatever its limits say; nothing if it has no entries."""
        if self._stopped is None and self._current is not None and self._current.pushed:
            self._switch()
        await self._switched()

    def _cancel_timers(self) -> None:
        self._due.cancel()
        if self._add_timer is not None:
            self._add_timer.cancel()
            self._add_timer = None

    async def _switched(self) -> None:
        while self._switching is not None:
            await asyncio.wait([self._switching])

    def _use(self, writer: LedgerWriter) -> None:
        self._current = OpenLedger(
            writer, self._config, self._keeper.confirmed, self._failed, self._now_ms(), self._factory.counters
        )
        self._last_ledger_id = writer.ledger_id
        self._last_append_ms = self._current.created_ms
        self._ended = None
        self._look_later()

    def _look_later(self) -> None:
        """Have it looked whether the current ledger is too old or idle for too long; of many topics not all at once."""
        limits = self._config.maximum_rollover_time_ms, self._config.inactive_ledger_roll_over_time_ms
        if self._current is None or not any(limits):
            return
        now, dues = self._now_ms(), []
        for limit_ms, since in zip(limits, (self._current.created_ms, self._last_append_ms), strict=True):
            if limit_ms:
                due_ms = since + limit_ms
                if due_ms <= now:
                    due_ms = now + max(LOOK_AGAIN_MS, limit_ms)
                dues.append(due_ms + int(limit_ms * AGE_SPREAD * random.random()))
        self._due.set(min(dues))

    def _roll_if_due(self) -> None:
        current, now = self._current, self._now_ms()
        if current is None or self._switching is not None or self._stopped is not None:
            return
        idle_ms = self._config.inactive_ledger_roll_over_time_ms
        idle = 0 < idle_ms <= now - self._last_append_ms and current.pushed > 0
        if idle or current.is_full(now):
            self._switch()
        else:  # nothing is written yet, or only lately
            self._look_later()

    def _push(self, ledger: OpenLedger, batch: Batch, payloads: Sequence[bytes]) -> None:
        now = self._now_ms()
        self._last_append_ms = now
        postponed = bool(self._postponed_until) and self._loop.time() < self._postponed_until
        room = len(payloads) if postponed else ledger.room(now)
        if room < len(payloads):
            self._waiting.appendleft((batch, payloads[room:]))
            payloads = payloads[:room]
        ledger.push(batch, payloads)
        if self._add_timer is None and self._config.add_entry_timeout_s:
            self._add_timer = self._loop.call_later(self._config.add_entry_timeout_s, self._look_at_adds)
        if not postponed and ledger.is_full(now):
            self._switch()

    def _look_at_adds(self) -> None:
        """Give the current ledger up when its oldest add has waited for longer than managedLedgerAddEntryTimeout."""
        self._add_timer = None
        current, limit = self._current, self._config.add_entry_timeout_s
        if current is None or (oldest := current.oldest_at) is None:
            return
        waited = self._loop.time() - oldest
        if waited < limit:
            self._add_timer = self._loop.call_later(limit - waited, self._look_at_adds)
            return
        self._factory.counters.adds_timed_out += 1
        current.fail(
            AddTimedOut(
                f"ledger {current.ledger_id}: an add was not acknowledged within {limit} s "
                "(managedLedgerAddEntryTimeoutSeconds); see whether its bookies are up"
            )
        )

    def _failed(self, ledger: OpenLedger) -> None:
        if ledger is self._current:
            self._switch()

    def _switch(self) -> None:
        if self._switching is None and not isinstance(self._stopped, ManagedLedgerFenced):
            self._switching = self._loop.create_task(self._switch_ledger())

    async def _switch_ledger(self) -> None:
        try:
            await self._switch_to_next()
        except ManagedLedgerFenced as error:
            self.fence(error)
            return
        except MledgerError as error:
            self._give_up(error)
            self._keeper.switch_failed(error)
            return
        except Exception as error:
            self._give_up(error)
            raise
        finally:
            self._switching = None
        self._push_waiting()
        if self._current is not None and self._current.failure is not None:
            self._switch()

    def _give_up(self, error: Exception) -> None:
        if self._current is not None:
            self._current.fail_all(error)
        self._fail_waiting(error)

    def _push_waiting(self) -> None:
        while self._waiting and self._switching is None and self._current is not None and self._current.failure is None:
            batch, payloads = self._waiting.popleft()
            self._push(self._current, batch, payloads)

    def _fail_waiting(self, error: BaseException) -> None:
        self._factory.counters.batches_failed += len(self._waiting)
        while self._waiting:
            self._waiting.popleft()[0].fail(error)

    async def _switch_to_next(self) -> None:
        """End the current ledger and list another; a healthy one is only ended once the other is there."""
        current, following = self._current, None
        if current is not None and current.failure is None:
            following = await self._make_ahead()
            if following is None:
                return
        try:
            if current is not None:
                self._ended = await self._end(current)
                self._current = None
                await self._count_empty(current, self._ended)
            if following is None:
                await self._keeper.verify_owner()
                following = await self._make()
        except MledgerError:
            if following is not None:
                await self._discard(following)
            raise
        await self._install(following)

    async def _count_empty(self, ledger: OpenLedger, ended: EndedLedger) -> None:
        """Wait ever longer after ledgers that failed without an entry, and in the end fail what waits to be added."""
        self._failed_empty = 0 if ledger.failure is None or ended.end.entries else self._failed_empty + 1
        if self._failed_empty > len(EMPTY_LEDGER_DELAYS_S):
            self._fail_waiting(
                NotEnoughBookies(
                    f"no bookies acknowledged it in {self._failed_empty} ledgers, the last of which was "
                    f"{ledger.ledger_id}: {ledger.failure}; see their logs: they may take smaller entries only "
                    "(nettyMaxFrameSizeBytes)"
                )
            )
            self._failed_empty = 0
        elif self._failed_empty:
            await asyncio.sleep(EMPTY_LEDGER_DELAYS_S[self._failed_empty - 1])

    async def _make_ahead(self) -> LedgerWriter | None:
        try:
            await self._keeper.verify_owner()  # one that rolls over often would else stay ahead of who takes over
            return await self._factory.create_data_ledger(self._last_ledger_id)
        except SessionExpired:
            await self._keeper.verify_owner()
            raise
        except (BookieError, MetadataError) as error:
            self._postponed_until = self._loop.time() + ROLLOVER_POSTPONED_S
            self._due.set(self._now_ms() + int(1000 * ROLLOVER_POSTPONED_S))
            self._keeper.switch_failed(error)
            return None

    async def _make(self) -> LedgerWriter:
        for delay in RETRY_DELAYS_S:
            try:
                return await self._factory.create_data_ledger(self._last_ledger_id)
            except BookieError:
                await asyncio.sleep(delay)
        return await self._factory.create_data_ledger(self._last_ledger_id)

    async def _install(self, following: LedgerWriter) -> None:
        assert self._ended is not None, "a ledger is listed behind one that has ended"
        try:
            self._factory.on_step("list ledger")
            await self._keeper.install(self._ended, following)
        except ManagedLedgerError:  # it was not listed, or who has listed it is no owner any more
            await self._discard(following)
            raise
        except BaseException:
            self._unlisted.append(following)
            raise
        self._factory.settled(following.ledger_id)
        unlisted, self._unlisted = self._unlisted, []
        for writer in unlisted:
            await self._discard(writer)
        self._factory.on_step("ledger listed")
        self._use(following)

    async def _discard(self, following: LedgerWriter) -> None:
        """Delete a ledger made for nothing; where that fails its pending record stays, and a replay finishes it."""
        with contextlib.suppress(BookieError, MetadataError):
            await self._factory.discard(following)

    async def _end(self, ledger: OpenLedger) -> EndedLedger:
        """End a ledger; what is in it is acknowledged, the rest waits, first in order."""
        await ledger.drain()
        if ledger.failure is None:
            try:
                return await self._close(ledger)
            except TAKEN as error:
                ledger.failure = error
        ended = await self._settle(ledger)
        self._waiting.extendleft(reversed(ledger.end_at(ended.end)))
        return ended

    async def _close(self, ledger: OpenLedger) -> EndedLedger:
        self._factory.on_step("close ledger")
        metadata = await ledger.writer.close()
        return EndedLedger(ledger.ledger_id, LedgerEnd(metadata.last_entry + 1, metadata.length))

    async def _settle(self, failed: OpenLedger) -> EndedLedger:
        """Where a ledger ends whose writer failed: at the acknowledged entries, or where recovery finds its end."""
        if isinstance(failed.failure, AddTimedOut):
            failed.writer.give_up(failed.failure)
        elif not isinstance(failed.failure, TAKEN):
            with contextlib.suppress(*TAKEN, LedgerClosed, StoreUnavailable):
                return await self._close(failed)
        await self._keeper.verify_owner(fenced=isinstance(failed.failure, TAKEN))
        for delay in (*RETRY_DELAYS_S, None):
            try:
                reader = await self._factory.open(failed.ledger_id)
                return EndedLedger(failed.ledger_id, LedgerEnd(reader.last_entry + 1, reader.length))
            except (
                NoSuchLedger
            ):  # deleted behind its owner's back: what was acknowledged in it is lost, and stays listed
                return EndedLedger(failed.ledger_id, LedgerEnd(failed.confirmed, failed.confirmed_size))
            except BookieError:
                if delay is None:
                    raise
                await asyncio.sleep(delay)
        raise AssertionError("unreachable")
