"""Drives a dispatcher over a cursor: does the reads that it plans and writes what it decides.

A subscription has one driver. It reads in batches: a task for each read, none for a message. A
normal read that finds nothing is parked, and planned again when entries are published.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from mledger.broker.dispatch.dispatcher import Delivery, Dispatcher, NextRead
from mledger.broker.topics.delayed.delayed_buckets import DelayedBuckets
from mledger.broker.topics.subscriptions.consumer import Consumer, OutgoingEntries
from mledger.broker.topics.subscriptions.entry_runs import DispatchRun, ReadFacts, dispatch_runs
from mledger.broker.topics.subscriptions.read_ahead import ReadAhead
from mledger.cursors.cursor import Cursor
from mledger.ledgers.entries.entry import PayloadRun
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.failed_rounds import log_failure
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import steady_ms, wall_clock_ms
from mledger.topics.managed_ledger import ManagedLedger

log = get_logger(__name__)

STEP_MS = 50
"""What the wall's clock may gain or lose before that counts as somebody setting it."""


class DispatchDriver:
    """One dispatcher at work on one cursor, whose normal reads are `reads`.

    `read_facts` reads what the dispatcher needs of an entry. `delays` keeps its index of delayed entries.
    """

    def __init__(
        self,
        managed_ledger: ManagedLedger,
        cursor: Cursor,
        dispatcher: Dispatcher,
        reads: ReadAhead,
        read_facts: ReadFacts,
        on_unwanted: Callable[[list[Position]], None],
        delays: DelayedBuckets | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self._managed_ledger = managed_ledger
        self._cursor = cursor
        self._ahead = reads
        self._read_facts = read_facts
        self._on_unwanted = on_unwanted
        self.delays = delays
        if delays is not None:
            delays.on_change = self.run
        self._loop = asyncio.get_running_loop()
        self._parked: NextRead | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._now_ms = 0
        self._stopped = False

    @property
    def at_end(self) -> bool:
        """Whether everything that was published was read."""
        return self._ahead.position > self._managed_ledger.last_confirmed

    @property
    def read_position(self) -> Position:
        """Where the next read of new entries begins."""
        return self._ahead.position

    def now_ms(self) -> int:
        """The time, in milliseconds; it never goes back, and goes on as it did when somebody sets the wall's clock."""
        wall_ms, now_ms = wall_clock_ms(), steady_ms()
        if abs(wall_ms - self.dispatcher.wall_ahead_ms - now_ms) > STEP_MS:
            self.dispatcher.wall_ahead_ms = wall_ms - now_ms
        self._now_ms = max(self._now_ms, wall_ms - self.dispatcher.wall_ahead_ms)
        return self._now_ms

    def stop(self) -> None:
        """Read and write nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        self._ahead.close()
        if self.delays is not None:
            self.delays.stop()

    def run(self) -> None:
        """Start what may be read now; call it after anything happened that may allow more."""
        if self._stopped:
            return
        now_ms = self.now_ms()
        dispatcher = self.dispatcher
        parked, self._parked = self._parked, None
        if parked is not None:
            dispatcher.dispatch(parked, (), now_ms)
        while (read := dispatcher.plan_read(now_ms, tailing=parked is not None)) is not None:
            if read.positions is None:
                if read.rewind:
                    self._ahead.rewind()
                if self.at_end:
                    self._parked = read
                    continue
                if runs := self._ahead.read_now(read.entries, read.max_bytes):
                    self._dispatch(read, runs)
                    continue
            task = self._loop.create_task(self._read(read))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self.delays is not None:
            self.delays.run(now_ms + dispatcher.wall_ahead_ms)
        self._set_timer(now_ms)

    def tell_active(self) -> None:
        """Tell consumers of a failover subscription which of them is active, if that changed."""
        for notice in self.dispatcher.notices(self.now_ms()):
            consumer = cast("Consumer", notice.consumer.key)
            consumer.connection.tell_active(consumer, notice.is_active)

    def _set_timer(self, now_ms: int) -> None:
        at_ms = self.dispatcher.wake_at(now_ms)
        if self._timer is not None:
            if at_ms == self._timer_at_ms:
                return
            self._timer.cancel()
            self._timer = None
        if at_ms is not None:
            self._timer_at_ms = at_ms
            self._timer = self._loop.call_later(max(0, at_ms - now_ms) / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self.tell_active()
        self.run()

    async def _read(self, read: NextRead) -> None:
        try:
            if read.positions is None:
                runs = await self._ahead.read(read.entries, read.max_bytes)
            else:
                runs = (await self._cursor.read_positions(read.positions)).runs
        except Exception as error:
            if self._stopped:
                return
            topic, cursor = self._managed_ledger.name, self._cursor.name
            log_failure(log, "dispatch_read_failed", error, topic=topic, cursor=cursor)
            self.dispatcher.failed_read(read, self.now_ms())
        else:
            if self._stopped:
                return
            self._dispatch(read, runs)
        self.run()

    def _dispatch(self, read: NextRead, runs: Sequence[PayloadRun]) -> None:
        words = self._cursor.batch_deleted if self._cursor.acks.has_batches else None
        found, unwanted = dispatch_runs(runs, self._read_facts, words)
        if unwanted:
            self._on_unwanted(unwanted)
        dispatched = self.dispatcher.dispatch(read, [run.facts for run in found], self.now_ms())
        if dispatched.read_from is not None:
            self._ahead.go_back(dispatched.read_from)
        if read.positions is None:
            self._ahead.dispatched()
        for delivery in dispatched.deliveries:
            deliver(found[delivery.run], delivery)


def deliver(run: DispatchRun, delivery: Delivery) -> None:
    """Send a consumer its share of a run."""
    consumer = cast("Consumer", delivery.consumer.key)
    indexes, payloads, first = delivery.indexes, run.payloads, run.facts.first_entry
    if isinstance(indexes, range) and indexes.step == 1:
        entry_ids: Sequence[int] = range(first + indexes.start, first + indexes.stop)
        entries = payloads if len(indexes) == len(payloads) else payloads[indexes.start : indexes.stop]
    else:
        entry_ids, entries = [first + index for index in indexes], [payloads[index] for index in indexes]
    outgoing = OutgoingEntries(run.facts.ledger_id, entry_ids, entries, delivery.redeliveries, run.ack_sets)
    consumer.send(outgoing, delivery.messages, run.facts.chunks_at(indexes), wall_clock_ms())
