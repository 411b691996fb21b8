"""Shared subscriptions: entries go to whoever has permits, in turn (D1, D2, D3, D4, D7, D9).

- D2 Consumers with the lowest priority number come first; among them each has a turn of at most
  `dispatcherMaxRoundRobinBatchSize` messages. A consumer alone on its level takes what it has permits for.
- D4 A turn ends before the batch that exceeds it, but has at least one entry, which may overshoot the permits.
- D7 What nobody has permits for waits in the replay list.
- D9 A consumer that is not writable gets one entry, and no more until it is.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from pyroaring import BitMap

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.delayed_index import DelayedIndex
from mledger.broker.dispatch.dispatcher import Delivery
from mledger.broker.dispatch.position_set import PositionSet, entries_at
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.round_robin import RoundRobin
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.tracked_dispatcher import TrackedDispatcher
from mledger.broker.dispatch.unacked_limit import BrokerUnackedLimit
from mledger.broker.facts import FactsRun
from mledger.metastore.records.position import Position


class SharedDispatcher(TrackedDispatcher):
    """Consumers take entries in turn."""

    def __init__(
        self,
        settings: DispatchSettings,
        limiters: Iterable[DispatchRateLimiter] = (),
        *,
        delayed: DelayedIndex | None = None,
        broker_limit: BrokerUnackedLimit | None = None,
    ) -> None:
        """As TrackedDispatcher."""
        super().__init__(settings, limiters, delayed=delayed, broker_limit=broker_limit)
        self._replays: PositionSet = PositionSet()
        self._ready = RoundRobin()
        self._stuffed: list[DispatchConsumer] = []

    # -- consumers

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; what it held is replayed, to others or to the next one."""
        super().remove(consumer, now_ms)
        self._ready.remove(consumer)

    def _became_available(self, consumer: DispatchConsumer) -> None:
        if consumer in self._members:
            self._ready.offer(consumer)

    def _readable(self, most: int) -> tuple[int, bool]:
        if self._stuffed:
            waiting, self._stuffed = self._stuffed, []
            for consumer in waiting:
                if consumer.writable:
                    self._became_available(consumer)
                elif consumer in self._members:
                    self._stuffed.append(consumer)
        return self._ready.permits(most)

    # -- dispatch

    def _assign(
        self, number: int, facts: FactsRun, indexes: range | list[int], replayed: bool, out: list[Delivery]
    ) -> None:
        messages = facts.messages
        count = len(indexes)
        batches: Sequence[int] = messages if count == len(messages) else [messages[i] for i in indexes]
        singles = sum(batches) == count
        sums = [] if singles else [0, *accumulate(batches)]
        at = 0
        while at < count:
            turn = self._ready.next()
            if turn is None:
                break
            consumer, alone = turn
            most = self._turn(consumer, alone)
            if not consumer.writable:
                stop = at + 1
            elif singles:
                stop = min(count, at + most)
            else:
                stop = max(at + 1, bisect_right(sums, sums[at] + most) - 1)
            part = indexes[at:stop]
            self._deliver(consumer, number, facts, part, None if singles else batches[at:stop], out)
            if not alone:
                self._ready.turned(consumer)
            at = stop
        if replayed:
            if at:
                self._replays.take(facts.ledger_id, entries_at(facts.first_entry, indexes[:at]))
        elif at < count:
            self._replays.add(facts.ledger_id, entries_at(facts.first_entry, indexes[at:]))

    def _turn(self, consumer: DispatchConsumer, alone: bool) -> int:
        """How many messages a consumer's turn has, at least 1."""
        most = consumer.permits
        if not alone:
            most = min(most, self.settings.max_round_robin_batch)
        if self.settings.max_unacked_per_consumer > 0:
            most = min(most, self.settings.max_unacked_per_consumer - consumer.unacked)
        return max(1, most)

    def _deliver(
        self,
        consumer: DispatchConsumer,
        number: int,
        facts: FactsRun,
        part: range | list[int],
        batches: Sequence[int] | None,
        out: list[Delivery],
    ) -> None:
        counts = self._counts.of(facts.ledger_id, facts.first_entry, part) if self._counts else None
        sent = self._hold(consumer, facts, part, batches)
        if consumer.stuffed:
            self._stuffed.append(consumer)
        out.append(Delivery(consumer, number, part, sent, counts))

    # -- replay

    def _plan_replay(self, count: int) -> Sequence[Position]:
        return self._replays.first(count)

    def _replay_later(self, ledger_id: int, entries: BitMap, consumer: DispatchConsumer | None) -> None:
        self._replays.add(ledger_id, entries)

    def _waiting(self, ledger_id: int, entries: BitMap) -> BitMap:
        return entries & (self._replays.bits(ledger_id) or BitMap())

    def _replayed(self, ledger_id: int, entries: BitMap) -> BitMap:
        return self._replays.take(ledger_id, entries)

    def _replayed_to(self, position: Position) -> None:
        self._replays.take_to(position)
