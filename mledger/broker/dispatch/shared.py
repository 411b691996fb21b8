"""Shared subscriptions: entries go to whoever has permits, in turn (D1, D2, D3, D4, D7, D9).

- D2 Consumers with the lowest priority number come first; among them each has a turn of at most
  `dispatcherMaxRoundRobinBatchSize` messages. A consumer alone on its level takes what it has permits for.
- D2 The chunks of a message go to the consumer that got its first one, whatever permits it has: nobody else can use
  them, and it needs them all before it can acknowledge any.
- D4 A turn ends before the batch that exceeds it, but has at least one entry, which may overshoot the permits.
- D7 What nobody has permits for waits in the replay list.
- D9 A consumer that is not writable gets one entry, and no more until it is.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from pyroaring import BitMap

from mledger.broker.dispatch.chunk_owners import ChunkOwners
from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.dispatcher import Delivery
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.round_robin import RoundRobin
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.tracked_dispatcher import TrackedDispatcher
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.dispatch.waiting.position_set import PositionSet, entries_at
from mledger.broker.dispatch.waiting.unacked_limit import BrokerUnackedLimit
from mledger.broker.facts import FactsRun, MessageChunk
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
        self._chunks = ChunkOwners()

    # -- consumers

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; what it held is replayed, to others or to the next one."""
        super().remove(consumer, now_ms)
        self._ready.remove(consumer)
        self._chunks.taken_back(consumer, None)

    def redeliver(self, consumer: DispatchConsumer, positions: Sequence[Position] | None, epoch: int = 0) -> None:
        """A consumer gives back what it holds of `positions`, or all; it and others may get it again (D3)."""
        super().redeliver(consumer, positions, epoch)
        self._chunks.taken_back(consumer, positions)

    def rewind(self) -> None:
        """The cursor moved: nothing counts that was held, replayed or delayed."""
        super().rewind()
        self._chunks.clear()

    def _became_available(self, consumer: DispatchConsumer) -> None:
        if consumer in self._members:
            self._ready.offer(consumer)

    def _readable(self, most: int) -> tuple[int, bool]:
        return self._ready.permits(most)

    # -- dispatch

    def _assign(
        self, number: int, facts: FactsRun, indexes: range | list[int], replayed: bool, out: list[Delivery]
    ) -> None:
        chunks = facts.chunks
        if chunks is None:
            self._take_turns(number, facts, indexes, replayed, out)
            return
        at = 0
        while at < len(indexes):
            chunk, stop = chunks[indexes[at]], at + 1
            if chunk is None:
                while stop < len(indexes) and chunks[indexes[stop]] is None:
                    stop += 1
            if chunk is None or chunk.number == 0:
                self._take_turns(number, facts, indexes[at:stop], replayed, out)
            else:
                self._give_on(number, facts, indexes[at:stop], chunk, replayed, out)
            at = stop

    def _give_on(
        self,
        number: int,
        facts: FactsRun,
        part: range | list[int],
        chunk: MessageChunk,
        replayed: bool,
        out: list[Delivery],
    ) -> None:
        """Give a later chunk to who has the one before it; where nobody has, it waits behind what is replayed."""
        consumer, entries = self._chunks.owner(chunk), entries_at(facts.first_entry, part)
        if consumer is None:
            position = Position(facts.ledger_id, facts.first_entry + part[0])
            if replayed and self._replays.first(1) == [position]:
                self._take_turns(number, facts, part, replayed, out)
            elif not replayed:
                self._replays.add(facts.ledger_id, entries)
            return
        if replayed:
            self._replays.take(facts.ledger_id, entries)
        self._deliver(consumer, number, facts, part, [facts.messages[i] for i in part], out)

    def _take_turns(
        self, number: int, facts: FactsRun, indexes: range | list[int], replayed: bool, out: list[Delivery]
    ) -> None:
        """Give entries to consumers in turn; of chunks, one at a time."""
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
        if facts.chunks is not None:
            self._note_chunks(consumer, facts, facts.chunks, part)
        out.append(Delivery(consumer, number, part, sent, counts))

    def _note_chunks(
        self,
        consumer: DispatchConsumer,
        facts: FactsRun,
        chunks: Sequence[MessageChunk | None],
        part: range | list[int],
    ) -> None:
        for index in part:
            chunk = chunks[index]
            if chunk is not None:
                self._chunks.went(chunk, Position(facts.ledger_id, facts.first_entry + index), consumer)

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
