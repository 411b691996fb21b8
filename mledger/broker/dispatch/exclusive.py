"""Exclusive and failover subscriptions: one consumer gets everything, in order (D1, D2, D4, D5, D8, D9, D10).

- D1 A read asks for as many messages as the active consumer has permits.
- D2 An exclusive subscription has one consumer. A failover subscription has one active consumer, chosen by
  `plan_active`; when it changes while others were being served, the new one waits for the failover delay, so that
  acknowledgements of the old one still arrive, and then reads again from the first entry not acknowledged. Consumers
  come one by one, when they start as when a broker or a connection is back, and who comes first need not be the one
  that stays active: while there was none, the first one waits for that delay too. Where it is known which consumers
  are to come back, as after a seek, the wait ends when all are there.
- D4 Permits are messages; the last batch may overshoot them. What is beyond goes out with the next read.
- Entries are not tracked for a single consumer: redelivery reads again from the first entry not acknowledged, and
  counts stay 0. There is no limit of unacknowledged messages.
"""

from collections.abc import Iterable, Sequence

from mledger.broker.dispatch.active_consumer import plan_active
from mledger.broker.dispatch.consumer import ConsumerBusy, DispatchConsumer
from mledger.broker.dispatch.dispatcher import (
    NOTHING,
    ActiveNotice,
    Delivery,
    Dispatched,
    Dispatcher,
    NextRead,
)
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.facts import FactsRun
from mledger.metastore.records.position import Position


class ExclusiveDispatcher(Dispatcher):
    """One active consumer gets all entries in order."""

    def __init__(
        self,
        settings: DispatchSettings,
        limiters: Iterable[DispatchRateLimiter] = (),
        *,
        failover: bool = False,
        topic: str = "",
        partition: int = -1,
        returning: Iterable[str] = (),
    ) -> None:
        """`topic` is its full name, `partition` its index or -1: they choose the active consumer (`plan_active`).

        `returning` are the names of consumers that were closed, and are expected back.
        """
        super().__init__(settings, limiters)
        self.returning = list(returning) if failover else []
        self._failover = failover
        self._topic = topic
        self._partition = partition
        self._serving_from_ms = 0  # the failover delay ends
        self._gathered_by_ms: int | None = None  # the wait for other consumers ends, or has ended and served nobody
        self._announce_at_ms: int | None = None
        self._newcomers: list[DispatchConsumer] = []
        self.active: DispatchConsumer | None = None

    # -- consumers

    def add(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer subscribes; a second one of an exclusive subscription raises ConsumerBusy (D2)."""
        if self.consumers and not self._failover:
            raise ConsumerBusy(f"the exclusive subscription has consumer {self.consumers[0].name!r}: close it first")
        self.consumers.append(consumer)
        if not self._choose(now_ms) and self._announce_at_ms is None:
            self._newcomers.append(consumer)
        if self.returning:
            self._came_back(consumer, now_ms)

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; the next one takes its place."""
        if consumer not in self.consumers:
            return
        self.consumers.remove(consumer)
        if consumer in self._newcomers:
            self._newcomers.remove(consumer)
        self._choose(now_ms)

    def notices(self, now_ms: int) -> list[ActiveNotice]:
        """All of a failover subscription after a change, newcomers if nothing changed (D2)."""
        told: Sequence[DispatchConsumer] = ()
        if self._announce_at_ms is not None and now_ms >= self._announce_at_ms:
            told, self._announce_at_ms, self._gathered_by_ms = self.consumers, None, None
            self._newcomers.clear()
            self.returning.clear()
        elif self._newcomers:
            told, self._newcomers = self._newcomers, []
        return [ActiveNotice(consumer, consumer is self.active) for consumer in told]

    def _choose(self, now_ms: int) -> bool:
        """Choose the active consumer; returns whether it changed."""
        hashing = self.settings.failover_consistent_hashing
        before, after = self.active, plan_active(self.consumers, self._topic, self._partition, hashing)
        if after is before:
            return False
        self.active = after
        self.rewind()
        if after is None:
            self._announce_at_ms = None
        elif self._failover:
            if before is None:
                self._serving_from_ms = self._end_of_wait(now_ms)
            elif now_ms >= self._serving_from_ms:
                self._serving_from_ms = now_ms + self.settings.failover_delay_ms
                self.returning.clear()
            self._announce_at_ms = self._serving_from_ms
        return True

    def _end_of_wait(self, now_ms: int) -> int:
        """Until when nobody is served. One that leaves during the wait for others does not begin it anew later.

        Else a client that polls, each time for less than the delay, would get nothing for good.
        """
        if self._gathered_by_ms is None:
            self._gathered_by_ms = now_ms + self.settings.failover_delay_ms
        if now_ms < self._gathered_by_ms:
            return self._gathered_by_ms
        self.returning.clear()
        return now_ms

    def _came_back(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """Expect a consumer no longer; the last one ends the wait, in which nobody was served."""
        if consumer.name in self.returning:
            self.returning.remove(consumer.name)
        if not self.returning and now_ms < self._serving_from_ms:
            self._serving_from_ms = self._announce_at_ms = now_ms

    # -- reads

    def plan_read(self, now_ms: int, *, tailing: bool = False) -> NextRead | None:
        """The next read for the active consumer; None without permits or while its failover delay runs."""
        active = self.active
        if active is None or not active.available or now_ms < self._serving_from_ms:
            return None
        return self._plan_normal(active.permits, active.writable, now_ms, tailing)

    def dispatch(self, read: NextRead, runs: Sequence[FactsRun], now_ms: int) -> Dispatched:
        """As many entries as there are permits for; the driver reads the rest again (D4)."""
        active = self.active
        if not self._end_read(read) or active is None:
            return NOTHING
        deliveries: list[Delivery] = []
        read_from = None
        entries = total = size = 0
        for number, run in enumerate(runs):
            if active.permits <= 0:
                read_from = Position(run.ledger_id, run.first_entry)
                break
            messages, count = sum(run.messages), len(run.messages)
            if messages > active.permits:
                count, messages = _prefix(run.messages, active.permits)
            indexes: Sequence[int] = range(count)
            if active.key_ranges:
                indexes = _of_ranges(run, count, active)
                messages = sum(run.messages[i] for i in indexes)
            if indexes:
                deliveries.append(Delivery(active, number, indexes, messages, None))
            active.permits -= messages
            active.stuffed = not active.writable
            entries += count
            total += messages
            size += sum(run.sizes[:count]) if count < len(run.sizes) else sum(run.sizes)
            if count < len(run.messages):
                read_from = Position(run.ledger_id, run.first_entry + count)
                break
        self._size.came(entries, total, size)
        self._count(read, entries, total, size)
        return Dispatched(deliveries, read_from)

    def wake_at(self, now_ms: int) -> int | None:
        """When the failover delay, a rate or a pause after a failed read ends, if one of them is waited for."""
        times = []
        if self._announce_at_ms is not None:
            times.append(self._announce_at_ms)
        if self.active is not None and self.active.available and self._normal is None:
            free = max(self._serving_from_ms, self._free_at_ms(now_ms))
            if free > now_ms:
                times.append(free)
        return min(times, default=None)

    # -- acknowledgements

    def acknowledged(self, consumer: DispatchConsumer, positions: Sequence[Position]) -> None:
        """Nothing is tracked for a single consumer."""

    def acknowledged_part(self, consumer: DispatchConsumer, position: Position, messages: int) -> None:
        """Nothing is tracked for a single consumer."""

    def acknowledged_to(self, position: Position) -> None:
        """Nothing is tracked for a single consumer."""

    def redeliver(self, consumer: DispatchConsumer, positions: Sequence[Position] | None, epoch: int = 0) -> None:
        """The active consumer gets everything again that is not acknowledged, whatever it asks for: order holds."""
        consumer.epoch = max(consumer.epoch, epoch)
        if consumer is self.active:
            self.rewind()


def _prefix(messages: Sequence[int], permits: int) -> tuple[int, int]:
    """How many entries go out for `permits`, and their messages: the last one may overshoot (D4)."""
    total = 0
    for count, batch in enumerate(messages):
        if total >= permits:
            return count, total
        total += batch
    return len(messages), total


def _of_ranges(run: FactsRun, count: int, consumer: DispatchConsumer) -> list[int]:
    """Which of the first `count` entries have a key in the consumer's ranges."""
    hashes = run.key_hashes
    if hashes is None:
        raise ValueError(f"{consumer!r} asks for key ranges: its entries need their key hashes")
    return [i for i in range(count) if consumer.asks_for(hashes[i])]
