"""What subscriptions with several consumers share (D1, D3, D4, D7, D8).

- D1 A consumer with too many unacknowledged messages gets nothing until half of them are left; its permits stay.
  A subscription or a broker with too many reads nothing new until then, but still replays.
- D3 What consumers hold is tracked. What is taken back from them (negative acknowledgement, disconnect, redelivery)
  is replayed before new reads, in the order of positions, and its redelivery count goes up by one: the count that
  goes out is how often the entry was delivered before. What is acknowledged meanwhile leaves the replay list.
  Delayed entries join the replay list when they are due.
- D4 Unacknowledged messages are counted like permits: batches by their messages not yet acknowledged.
- D8 One normal read and one replay read may be in flight. A new replay read waits for the last one.
- When the last consumer leaves, what it held stays in the replay list, and reading goes on where it was: nothing of
  the backlog is read twice, and counts and delays are kept.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from pyroaring import BitMap

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.dispatcher import NOTHING, Delivery, Dispatched, Dispatcher, NextRead
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.waiting.delayed_bucket import StoredBucket
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.dispatch.waiting.position_set import PositionSet, by_ledger, run
from mledger.broker.dispatch.waiting.redelivery_counts import RedeliveryCounts
from mledger.broker.dispatch.waiting.replay_list import KeyedReplayList
from mledger.broker.dispatch.waiting.unacked_limit import BrokerUnackedLimit
from mledger.broker.dispatch.writability import StuffedConsumers
from mledger.broker.facts import FactsRun
from mledger.metastore.records.position import Position

_BROKER_LIMIT_MS = 100  # how often one that the broker's limit holds looks whether it still does


class TrackedDispatcher(Dispatcher):
    """A dispatcher that knows which consumer holds what."""

    _replays: PositionSet | KeyedReplayList

    def __init__(
        self,
        settings: DispatchSettings,
        limiters: Iterable[DispatchRateLimiter] = (),
        *,
        delayed: DelayedIndex | None = None,
        broker_limit: BrokerUnackedLimit | None = None,
    ) -> None:
        """`delayed` keeps entries that are not due; with None, all entries go out at once."""
        super().__init__(settings, limiters)
        self.delayed = delayed
        self.unacked = 0
        self._broker_limit = broker_limit
        self._held_by_broker = False
        self._members: set[DispatchConsumer] = set()
        self._stuffed = StuffedConsumers()
        self._blocked = False
        self._counts = RedeliveryCounts()
        self._replaying: NextRead | None = None  # in flight
        self._replay_is_stale = False

    @property
    def replay_count(self) -> int:
        """How many entries wait to be replayed."""
        return len(self._replays)

    @property
    def blocked(self) -> bool:
        """Whether the subscription has so many unacknowledged messages that it gets no new ones (D1)."""
        return self._blocked

    # -- what subclasses decide

    @abstractmethod
    def _readable(self, most: int) -> tuple[int, bool]:
        """The permits of those who may be sent messages, counted up to `most`, and whether one is writable."""

    @abstractmethod
    def _plan_replay(self, count: int) -> Sequence[Position]:
        """The entries to replay now, at most `count`, in order."""

    def _may_read_new(self) -> bool:
        """Whether new entries may be read though some wait to be replayed that cannot go out."""
        return True

    @abstractmethod
    def _assign(
        self, number: int, facts: FactsRun, indexes: range | list[int], replayed: bool, out: list[Delivery]
    ) -> None:
        """Give the entries at `indexes` of a run to consumers; what nobody can take is or stays replayed (D7)."""

    @abstractmethod
    def _replay_later(self, ledger_id: int, entries: BitMap, consumer: DispatchConsumer | None) -> None:
        """Add entries to the replay list that `consumer` still holds, or of which nothing is known."""

    @abstractmethod
    def _replayed(self, ledger_id: int, entries: BitMap) -> BitMap:
        """Remove entries from the replay list; returns those that were in it."""

    @abstractmethod
    def _replayed_to(self, position: Position) -> None:
        """Remove all entries up to `position` from the replay list."""

    @abstractmethod
    def _became_available(self, consumer: DispatchConsumer) -> None:
        """A consumer has permits again, is no longer blocked, or is writable again."""

    def _released(self, consumer: DispatchConsumer, ledger_id: int, entries: BitMap) -> None:
        """A consumer is about to lose these entries, of which it may hold only some."""

    # -- consumers

    def add(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer subscribes."""
        self.consumers.append(consumer)
        self._members.add(consumer)
        self._became_available(consumer)

    def flow(self, consumer: DispatchConsumer, permits: int) -> None:
        """A consumer may be sent so many messages more (D1); a blocked one keeps them until it is unblocked."""
        consumer.permits += permits
        self._became_available(consumer)

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; what it held is replayed, to others or to the next one."""
        if consumer not in self._members:
            return
        self.consumers.remove(consumer)
        self._members.remove(consumer)
        self._stuffed.forget(consumer)
        self._take_back(consumer, list(consumer.pending.positions().ledgers()))
        consumer.blocked = False
        if not self.consumers and self._broker_limit is not None:
            self._broker_limit.forget(self)

    # -- reads

    def plan_read(self, now_ms: int, *, tailing: bool = False) -> NextRead | None:
        """Replays first (D3), then new entries; None while nobody may be sent anything or reads are in flight (D8)."""
        if self._replaying is not None or not self.consumers:
            return None
        for consumer in self._stuffed.writable_again():
            self._became_available(consumer)
        messages, writable = self._readable(self.settings.max_read_batch * 1_000)
        if messages <= 0:
            return None
        self._collect_due(now_ms)
        if self._replays:
            limits = self._limits(messages, writable, now_ms, tailing)
            if limits is None:
                return None
            entries, max_bytes, throttled = limits
            positions = self._plan_replay(entries)
            if positions:
                self._number += 1
                read = NextRead(len(positions), max_bytes, positions, False, self._number, throttled)
                self._replaying, self._replay_is_stale = read, False
                return read
        if self._holds_new_reads(now_ms):
            return None
        if self.settings.max_unacked_per_subscription > 0:
            messages = min(messages, self.settings.max_unacked_per_subscription - self.unacked)
        return self._plan_normal(messages, writable, now_ms, tailing)

    def _holds_new_reads(self, now_ms: int) -> bool:
        self._held_by_broker = self._broker_limit is not None and self._broker_limit.holds(self)
        if self._blocked or self._held_by_broker:
            return True
        if self.delayed is not None and self.delayed.pauses_reads(now_ms + self.wall_ahead_ms):
            return True
        return not self._may_read_new()

    def _collect_due(self, now_ms: int) -> None:
        """Delayed entries that are due join the replay list (D3)."""
        delayed = self.delayed
        if delayed is None:
            return
        due_ms, wall_ms = delayed.next_due_ms(), now_ms + self.wall_ahead_ms
        if due_ms is not None and due_ms <= wall_ms:
            for ledger_id, entries in delayed.due(wall_ms).ledgers():
                self._replay_later(ledger_id, entries, None)

    def dispatch(self, read: NextRead, runs: Sequence[FactsRun], now_ms: int) -> Dispatched:
        """Divide what a read brought over the consumers (D2, D7)."""
        replayed = read.positions is not None
        if not (self._end_replay(read, runs) if replayed else self._end_read(read)):
            return NOTHING
        out: list[Delivery] = []
        for number, facts in enumerate(runs):
            indexes = self._still_replayed(facts) if replayed else range(len(facts.messages))
            if self.delayed is not None:
                indexes = self._leave_delayed(facts, indexes, replayed, now_ms + self.wall_ahead_ms)
            if indexes:
                self._assign(number, facts, indexes, replayed, out)
        if runs and not replayed and self.delayed is not None:
            last = runs[-1]
            self.delayed.have_read(Position(last.ledger_id, last.first_entry + len(last.messages) - 1))
        self._account(read, runs, out)
        return Dispatched(out)

    def _account(self, read: NextRead, runs: Sequence[FactsRun], out: Sequence[Delivery]) -> None:
        """Learn sizes from what came, count what goes out against the rates (D5, D10)."""
        entries = size = messages = 0
        for facts in runs:
            entries += len(facts.messages)
            messages += sum(facts.messages)
            size += sum(facts.sizes)
        self._size.came(entries, messages, size)
        if read.throttled and out:
            sent = sum(len(delivery.indexes) for delivery in out)
            if sent < entries:
                size = sum(runs[each.run].sizes[i] for each in out for i in each.indexes)
            self._count(read, sent, sum(each.messages for each in out), size)

    def _still_replayed(self, facts: FactsRun) -> range | list[int]:
        """The entries of a replay that were not acknowledged while it was read."""
        count = len(facts.messages)
        left = self._waiting(facts.ledger_id, run(facts.first_entry, facts.first_entry + count))
        if len(left) == count:
            return range(count)
        return [entry - facts.first_entry for entry in left]

    @abstractmethod
    def _waiting(self, ledger_id: int, entries: BitMap) -> BitMap:
        """Which of these entries are in the replay list."""

    def _leave_delayed(
        self, facts: FactsRun, indexes: range | list[int], replayed: bool, wall_ms: int
    ) -> range | list[int]:
        """Keep the entries that are not due in the delayed index; returns the others."""
        due_times, delayed = facts.deliver_at_ms, self.delayed
        assert delayed is not None
        if not self.settings.holds_delayed:
            return indexes
        if due_times is None:
            if not replayed:
                delayed.saw_undelayed()
            return indexes
        now, kept = [], BitMap()
        for index in indexes:
            entry, due_ms = facts.first_entry + index, due_times[index]
            if due_ms and not (replayed and due_ms <= wall_ms) and delayed.add(facts.ledger_id, entry, due_ms, wall_ms):
                kept.add(entry)
                continue
            if not due_ms and not replayed:
                delayed.saw_undelayed()
            now.append(index)
        if replayed and kept:
            self._replayed(facts.ledger_id, kept)
        return now if kept else indexes

    def _end_replay(self, read: NextRead, runs: Sequence[FactsRun]) -> bool:
        """A replay read is no longer in flight; what it did not bring is acknowledged (D8)."""
        if read is not self._replaying:
            raise ValueError(f"{read} is not in flight")
        self._replaying = None
        if self._replay_is_stale:
            return False
        assert read.positions is not None
        if sum(len(facts.messages) for facts in runs) < len(read.positions):
            missing = PositionSet()
            for ledger_id, entries in by_ledger(read.positions).items():
                missing.add(ledger_id, entries)
            for facts in runs:
                missing.take(facts.ledger_id, run(facts.first_entry, facts.first_entry + len(facts.messages)))
            for ledger_id, entries in missing.ledgers():
                self._replayed(ledger_id, entries)
                self._counts.forget(ledger_id, entries)
        return True

    def failed_read(self, read: NextRead, now_ms: int) -> None:
        """A read failed: try again at `wake_at`, with the least batch (D10). ValueError if it is not in flight."""
        if read.positions is None:
            super().failed_read(read, now_ms)
            return
        if read is not self._replaying:
            raise ValueError(f"{read} is not in flight")
        self._replaying = None
        self._size.failed(now_ms)

    def wake_at(self, now_ms: int) -> int | None:
        """When delayed entries are due, or a rate or a pause after a failed read ends; soon, if the broker holds it."""
        if self._readable(1)[0] <= 0:
            return None
        free = self._free_at_ms(now_ms)
        times = [free] if free > now_ms else []
        due = None if self.delayed is None or self._replaying is not None else self.delayed.next_due_ms()
        if due is not None:
            times.append(max(due - self.wall_ahead_ms, free))
        if self._held_by_broker:
            times.append(now_ms + _BROKER_LIMIT_MS)
        return min(times, default=None)

    def rewind(self) -> None:
        """The cursor moved: nothing counts that was held, replayed or delayed."""
        super().rewind()
        self._replay_is_stale = self._replaying is not None
        self._replays.clear()
        self._counts = RedeliveryCounts()
        if self.delayed is not None:
            self.delayed.clear()
        for consumer in self.consumers:
            for ledger_id, entries in consumer.pending.positions().ledgers():
                self._released(consumer, ledger_id, entries)
            consumer.pending.clear()
            self._fewer_unacked(consumer, consumer.unacked)

    # -- what is held

    def _hold(
        self, consumer: DispatchConsumer, facts: FactsRun, indexes: range | list[int], batches: Sequence[int] | None
    ) -> int:
        """A consumer is sent these entries; returns how many messages that is. `batches` is None if each has one."""
        messages = len(indexes) if batches is None else sum(batches)
        consumer.permits -= messages
        self._stuffed.sent(consumer)
        consumer.pending.hold(facts.ledger_id, facts.first_entry, indexes, batches, facts.key_hashes)
        consumer.unacked += messages
        self.unacked += messages
        consumer.blocked = _is_blocked(consumer.blocked, consumer.unacked, self.settings.max_unacked_per_consumer)
        self._blocked = _is_blocked(self._blocked, self.unacked, self.settings.max_unacked_per_subscription)
        if self._broker_limit is not None:
            self._broker_limit.add(messages)
        return messages

    def configure(self, settings: DispatchSettings) -> None:
        """Other limits apply from now on, to what consumers hold already, too (D1); another tick to later ones (D3)."""
        if self.delayed is not None and settings.delayed_tick_ms != self.settings.delayed_tick_ms:
            self.delayed.set_tick(settings.delayed_tick_ms)
        super().configure(settings)
        self._blocked = _is_blocked(self._blocked, self.unacked, settings.max_unacked_per_subscription)
        for consumer in self.consumers:
            consumer.blocked = _is_blocked(consumer.blocked, consumer.unacked, settings.max_unacked_per_consumer)
            self._became_available(consumer)

    def _fewer_unacked(self, consumer: DispatchConsumer, messages: int) -> None:
        """A consumer has so many unacknowledged messages less: it and the subscription may be unblocked (D1)."""
        consumer.unacked -= messages
        self.unacked -= messages
        if consumer.blocked and not _is_blocked(True, consumer.unacked, self.settings.max_unacked_per_consumer):
            consumer.blocked = False
            self._became_available(consumer)
        self._blocked = _is_blocked(self._blocked, self.unacked, self.settings.max_unacked_per_subscription)
        if self._broker_limit is not None:
            self._broker_limit.add(-messages)

    def _take_back(self, consumer: DispatchConsumer, held: Iterable[tuple[int, BitMap]]) -> None:
        """Entries that a consumer holds are to be replayed; others are ignored."""
        for ledger_id, entries in held:
            own = entries & consumer.pending.bits(ledger_id)
            if not own:
                continue
            self._replay_later(ledger_id, own, consumer)
            self._released(consumer, ledger_id, own)
            _, messages = consumer.pending.take(ledger_id, own)
            self._counts.taken_back(ledger_id, own)
            self._fewer_unacked(consumer, messages)

    def redeliver(self, consumer: DispatchConsumer, positions: Sequence[Position] | None, epoch: int = 0) -> None:
        """A consumer gives back what it holds of `positions`, or all; it and others may get it again (D3)."""
        consumer.epoch = max(consumer.epoch, epoch)
        before = consumer.unacked
        if positions is None:
            self._take_back(consumer, list(consumer.pending.positions().ledgers()))
        else:
            self._take_back(consumer, by_ledger(positions).items())
        if consumer.blocked and consumer.unacked < before:
            consumer.blocked = False  # it may wait for just these (D1)
            self._became_available(consumer)

    # -- acknowledgements

    def acknowledged(self, consumer: DispatchConsumer, positions: Sequence[Position]) -> None:
        """Entries are acknowledged as a whole, whoever holds them; they are not replayed either."""
        for ledger_id, entries in by_ledger(positions).items():
            left = self._acknowledged(consumer, ledger_id, entries)
            if not left:
                continue
            for other in self.consumers:
                if other is not consumer and left:
                    left = self._acknowledged(other, ledger_id, left)
            if left:
                self._replayed(ledger_id, left)
                self._counts.forget(ledger_id, left)

    def _acknowledged(self, consumer: DispatchConsumer, ledger_id: int, entries: BitMap) -> BitMap:
        """A consumer holds these no longer; returns the ones it did not hold."""
        self._released(consumer, ledger_id, entries)
        gone, messages = consumer.pending.take(ledger_id, entries)
        if not gone:
            return entries
        if self._counts:
            self._counts.forget(ledger_id, gone)
        self._fewer_unacked(consumer, messages)
        return BitMap() if len(gone) == len(entries) else entries - gone

    def acknowledged_part(self, consumer: DispatchConsumer, position: Position, messages: int) -> None:
        """So many messages more of a batch are acknowledged, not all (D4)."""
        for holder in (consumer, *self.consumers):
            left = holder.pending.messages(position)
            if not left:
                continue
            if messages >= left:
                self.acknowledged(holder, (position,))
            else:
                self._fewer_unacked(holder, holder.pending.take_part(position, messages))
            return

    def acknowledged_to(self, position: Position) -> None:
        """Every entry up to `position` is acknowledged: nobody holds, replays or waits for any of them."""
        for consumer in self.consumers:
            for ledger_id, entries in consumer.pending.positions().take_to(position).ledgers():
                self._acknowledged(consumer, ledger_id, entries)
        self._replayed_to(position)
        self._counts.forget_to(position)
        if self.delayed is not None:
            self.delayed.acknowledged_to(position)

    # -- restarts

    def restore(self, buckets: Iterable[StoredBucket], unacknowledged: PositionSet, now_ms: int) -> None:
        """Begin with the delayed index as it was stored; call it before the first read, which then does not rewind.

        `unacknowledged`: what the cursor has not acknowledged up to the end of the last bucket. The driver reads on
        behind that.
        """
        if self.delayed is None:
            return
        for ledger_id, entries in self.delayed.restore(buckets, unacknowledged, now_ms + self.wall_ahead_ms).ledgers():
            self._replay_later(ledger_id, entries, None)
        self._rewind = False


def _is_blocked(blocked: bool, unacked: int, most: int) -> bool:
    """Whether so many unacknowledged messages are too many: from `most` on, until half of that is left; 0: never."""
    return most > 0 and (unacked >= most or (blocked and unacked > most // 2))
