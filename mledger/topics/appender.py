"""A topic's write path: batches into the current ledger, rollover, recovery from failed adds (M4, M5).

- A batch is one append to the writer. A batch that exceeds the ledger's limit is split: the rest
  goes to the next ledger.
- During a ledger switch, batches wait in order. Every entry is in exactly one ledger of the list.
- If no new ledger can be created, writes continue to the full one: rollover is postponed, no write
  is rejected.
- After a failed or fenced add, the ledger's true end is determined first. Entries in the ledger are
  acknowledged; the others are added again, in order, once each.
- An add that exceeds its time-out has failed: its ledger is recovered at once.
- A batch fails if ledger after ledger fails without storing a single entry: bookies may never
  accept it (Q11).
- What is appended before callers are told that a batch failed, fails with it: it would overtake that.
- Fencing by another owner is final (M7): everything pending fails, and nothing else is changed.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.client.plans.entry_sizes import checked_batch
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
from mledger.ledgers.entries.entry_cache import TopicCache
from mledger.ledgers.entries.open_ledger import Appended, Batch, OpenLedger
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.metastore.errors import MetadataError, MledgerError, NodeTooLarge, SessionExpired, StoreUnavailable
from mledger.topics.services.maintenance import Maintenance

RETRY_DELAYS_S = (0.1, 0.3, 1.0)
EMPTY_LEDGER_DELAYS_S = (0.0, 0.1, 0.3, 1.0, 3.0, 3.0, 3.0)  # after each ledger in a row that failed without an entry
ROLLOVER_POSTPONED_S = 10.0
SWITCH_AGAIN_MS = 60_000  # after a switch that failed half-way, if nobody appends
RECHECK_MS = 1000
AGE_SPREAD = 0.05  # a ledger without traffic rolls over later at random, by at most this share of the limit
TAKEN = (LedgerFenced, LedgerConflict, NoSuchLedger)  # another client fenced, closed or deleted the ledger


class EndedLedger(Struct, frozen=True):
    """A ledger that accepts no more entries, and its true end."""

    ledger_id: int
    end: LedgerEnd


class AddTimedOut(BookieUnavailable):
    """No ack quorum within managedLedgerAddEntryTimeoutSeconds."""


class LedgerKeeper(Protocol):
    """The managed ledger's list of ledgers, as the write path needs it."""

    async def verify_owner(self, *, fenced: bool = False) -> None:
        """Raise ManagedLedgerFenced if there is another owner; `fenced`: a client fenced the ledger."""

    async def install(self, ended: EndedLedger, writer: LedgerWriter) -> None:
        """List `writer`'s ledger as the current one and record the end of `ended`, in one update."""

    def confirmed(self, ledger: OpenLedger) -> None:
        """Note that more entries of the current ledger are acknowledged."""

    def switch_failed(self, reason: MledgerError) -> None:
        """Report that no new ledger could be created; the next append tries again."""


class Appender:
    """Accepts batches in order and keeps a ledger open for them; one task at a time switches ledgers."""

    def __init__(
        self,
        writer: LedgerWriter,
        factory: LedgerFactory,
        keeper: LedgerKeeper,
        config: ManagedLedgerConfig,
        maintenance: Maintenance,
        cache: TopicCache | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._cache = cache
        self._factory = factory
        self._keeper = keeper
        self._config = config
        self._waiting: deque[tuple[Batch, Sequence[bytes]]] = deque()
        self._stopped: MledgerError | None = None
        self._failing: Exception | None = None  # until callers are told
        self._switching: asyncio.Task[None] | None = None
        self._stopping = asyncio.Lock()
        self._largest = factory.largest_entry
        self._ended: EndedLedger | None = None
        self._now_ms = maintenance.now_ms
        self._due = maintenance.alarm(self._roll_if_due)
        self._last_ledger_id = writer.ledger_id
        self._last_append_ms = 0
        self._postponed_until = 0.0
        self._add_timer: asyncio.TimerHandle | None = None
        self._failed_empty = 0  # ledgers in a row that failed without an entry
        self._unlisted: list[LedgerWriter] = []  # created, and perhaps listed: no response arrived
        self._current: OpenLedger | None = None
        self._use(writer)

    @property
    def current(self) -> OpenLedger | None:
        """The ledger open for writing; None between the end of one and the creation of the next."""
        return self._current

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Replace the settings; quorums apply to the next ledger."""
        self._config = config
        if self._current is not None:
            self._current.configure(config)
        self._set_roll_alarm()

    def append(self, payloads: Sequence[bytes]) -> "asyncio.Future[Appended]":
        """Accept a batch; the future gives its positions once all entries are acknowledged (M5).

        Raises the error that stopped the topic (fenced, closed, terminated), EntryTooLarge,
        ValueError for an empty batch, and TypeError for entries that are not bytes.
        """
        if self._stopped is not None:
            raise self._stopped
        payloads = checked_batch(payloads, self._largest)
        batch = Batch(self._loop.create_future(), len(payloads))
        current = self._current
        if self._failing is not None:
            self._factory.counters.batches_failed += 1
            batch.fail(self._failing)
        elif self._switching is None and current is not None and current.failure is None:
            self._push(current, batch, payloads)
        else:
            self._waiting.append((batch, payloads))
            self._switch()
        return batch.future

    async def stop(self, reason: MledgerError) -> EndedLedger:
        """Accept no more batches, wait for those accepted, close the current ledger; returns its end.

        Later appends raise `reason`. Raises the error that prevents the close of the ledger.
        """
        if self._stopped is None:
            self._stopped = reason
        async with self._stopping:
            return await self._stop()

    async def _stop(self) -> EndedLedger:
        await self._switched()
        if self._current is not None:
            await self._current.drain()
        await self._switched()  # an add may have failed: then its entries were added to another ledger
        self._cancel_timers()
        if isinstance(self._stopped, ManagedLedgerFenced):
            raise self._stopped
        if self._current is not None:
            self._ended = await self._end(self._current)
            self._current = None
        assert self._ended is not None, "there is a current ledger or an ended one"
        return self._ended

    def resume(self) -> None:
        """Accept batches again after `stop` failed."""
        if not isinstance(self._stopped, ManagedLedgerFenced):
            self._stopped = None

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Fail everything pending, since another owner has the topic; change nothing."""
        self._stopped = error
        self._cancel_timers()
        if self._current is not None:
            self._current.fail_all(error)
        self._fail_waiting(error)

    async def abandon(self, reason: MledgerError) -> None:
        """Stop without writing anything; pending batches fail with `reason`."""
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
        """Replace the current ledger with a new one, whatever its limits; a no-op if it is empty."""
        if self._stopped is None and (self._current is None or self._current.pushed):
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
        counters = self._factory.counters
        self._current = OpenLedger(
            writer, self._config, self._keeper.confirmed, self._failed, self._now_ms(), counters, self._cache
        )
        self._last_ledger_id = writer.ledger_id
        self._last_append_ms = self._current.created_ms
        self._ended = None
        self._set_roll_alarm()

    def _set_roll_alarm(self) -> None:
        """Schedule the next check of the ledger's age and idle time, spread at random over topics."""
        limits = self._config.maximum_rollover_time_ms, self._config.inactive_ledger_roll_over_time_ms
        if self._current is None or not any(limits):
            return
        now, dues = self._now_ms(), []
        for limit_ms, since in zip(limits, (self._current.created_ms, self._last_append_ms), strict=True):
            if limit_ms:
                due_ms = since + limit_ms
                if due_ms <= now:
                    due_ms = now + max(RECHECK_MS, limit_ms)
                dues.append(due_ms + int(limit_ms * AGE_SPREAD * random.random()))
        self._due.set(min(dues))

    def _roll_if_due(self) -> None:
        current, now, idle_ms = self._current, self._now_ms(), self._config.inactive_ledger_roll_over_time_ms
        if self._switching is not None or self._stopped is not None:
            return
        idle = 0 < idle_ms <= now - self._last_append_ms
        if current is None or current.writer.closed or current.is_full(now) or (idle and current.pushed):
            self._switch()
        else:  # the ledger is empty or was written to recently
            self._set_roll_alarm()

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
            self._add_timer = self._loop.call_later(self._config.add_entry_timeout_s, self._check_add_timeout)
        if not postponed and ledger.is_full(now):
            self._switch()

    def _check_add_timeout(self) -> None:
        """Fail the current ledger once its oldest add exceeds managedLedgerAddEntryTimeoutSeconds."""
        self._add_timer = None
        current, limit = self._current, self._config.add_entry_timeout_s
        if current is None or (oldest := current.oldest_at) is None:
            return
        waited = self._loop.time() - oldest
        if waited < limit:
            self._add_timer = self._loop.call_later(limit - waited, self._check_add_timeout)
            return
        self._factory.counters.adds_timed_out += 1
        current.fail(
            AddTimedOut(
                f"ledger {current.ledger_id}: an add was not acknowledged within {limit} s "
                "(managedLedgerAddEntryTimeoutSeconds); check that its bookies are up"
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
            self._due.set(self._now_ms() + SWITCH_AGAIN_MS)
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
        self._fail_until_told(error)
        if self._current is not None:
            self._current.fail_all(error)
        self._fail_waiting(error)

    def _push_waiting(self) -> None:
        while self._waiting and self._switching is None and self._current is not None and self._current.failure is None:
            batch, payloads = self._waiting.popleft()
            self._push(self._current, batch, payloads)

    def _fail_waiting(self, error: Exception) -> None:
        self._factory.counters.batches_failed += len(self._waiting)
        while self._waiting:
            self._waiting.popleft()[0].fail(error)

    def _fail_until_told(self, error: Exception) -> None:
        """Fail what is appended before the callbacks of batches that are failed next."""
        self._failing = error
        self._loop.call_soon(setattr, self, "_failing", None)

    async def _switch_to_next(self) -> None:
        """End the current ledger and list a new one; a healthy ledger ends only once the new one exists."""
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
        """Wait longer after each ledger that failed without an entry; in the end fail the waiting batches."""
        self._failed_empty = 0 if ledger.failure is None or ended.end.entries else self._failed_empty + 1
        if self._failed_empty > len(EMPTY_LEDGER_DELAYS_S):
            self._give_up(
                NotEnoughBookies(
                    f"no bookie acknowledged an entry in {self._failed_empty} ledgers in a row, the last of them "
                    f"{ledger.ledger_id}: {ledger.failure}; check the bookies' logs: the entry may exceed their "
                    "frame size (nettyMaxFrameSizeBytes)"
                )
            )
            self._failed_empty = 0
        elif self._failed_empty:
            await asyncio.sleep(EMPTY_LEDGER_DELAYS_S[self._failed_empty - 1])

    async def _make_ahead(self) -> LedgerWriter | None:
        try:
            await self._keeper.verify_owner()  # else an owner that rolls over often keeps ahead of the next one
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
        assert self._ended is not None, "a new ledger follows one that has ended"
        try:
            self._factory.on_step("list ledger")
            await self._keeper.install(self._ended, following)
        except (ManagedLedgerError, NodeTooLarge):  # it was not listed, or this owner has lost the topic
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
        """Delete an unused ledger; if that fails, its pending record stays and a replay deletes it."""
        with contextlib.suppress(BookieError, MetadataError):
            await self._factory.discard(following)

    async def _end(self, ledger: OpenLedger) -> EndedLedger:
        """End a ledger: acknowledge the entries in it, put the others first among the waiting ones."""
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
        """The end of a ledger whose writer failed: the last acknowledged entry, or what recovery finds."""
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
            except NoSuchLedger:
                # another client deleted it: its acknowledged entries are lost, and stay listed
                return EndedLedger(failed.ledger_id, LedgerEnd(failed.confirmed, failed.confirmed_size))
            except BookieError:
                if delay is None:
                    raise
                await asyncio.sleep(delay)
        raise AssertionError("unreachable")
