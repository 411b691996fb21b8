"""Key_Shared subscriptions: the messages of a key go to one consumer at a time, in order (D1 to D4, D7, D9).

- D2 A key's hash belongs to one consumer (`key_assignment`). When consumers join or leave, hashes move; a hash of
  which the old consumer still holds entries drains: the new one gets nothing of it until those are acknowledged or
  taken back. With `out_of_order` nothing waits for anything.
- D3, D7 What cannot go out now (no permits, draining, nobody's) waits in the replay list, and later entries of its
  hash wait behind it. Reading goes on for other consumers as long as no more entries wait than the look-ahead allows.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from pyroaring import BitMap

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.dispatcher import Delivery
from mledger.broker.dispatch.keys.key_assignment import make_assignment
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.tracked_dispatcher import TrackedDispatcher
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.dispatch.waiting.position_set import entries_at
from mledger.broker.dispatch.waiting.replay_list import KeyedReplayList
from mledger.broker.dispatch.waiting.unacked_limit import BrokerUnackedLimit
from mledger.broker.dispatch.writability import permits_of
from mledger.broker.facts import FactsRun
from mledger.metastore.records.position import Position

_UNLIMITED = 1 << 60


class _Share:
    """What one consumer gets of a run."""

    __slots__ = ("consumer", "indexes", "left")

    def __init__(self, consumer: DispatchConsumer, left: int) -> None:
        self.consumer = consumer
        self.left = left  # messages it may still have
        self.indexes: list[int] = []


class _Draining:
    """A hash that moved while a consumer holds entries of it."""

    __slots__ = ("count", "holder")

    def __init__(self, holder: DispatchConsumer, count: int) -> None:
        self.holder = holder
        self.count = count


class KeySharedDispatcher(TrackedDispatcher):
    """Entries go to the consumers of their keys. The driver gives every run with its key hashes."""

    def __init__(
        self,
        settings: DispatchSettings,
        limiters: Iterable[DispatchRateLimiter] = (),
        *,
        sticky: bool = False,
        out_of_order: bool = False,
        delayed: DelayedIndex | None = None,
        broker_limit: BrokerUnackedLimit | None = None,
    ) -> None:
        """`sticky`: consumers give their ranges. `out_of_order`: `allowOutOfOrderDelivery`, of the first consumer."""
        super().__init__(settings, limiters, delayed=delayed, broker_limit=broker_limit)
        self.assignment = make_assignment(settings, sticky=sticky)
        self._sticky = sticky
        self._out_of_order = out_of_order
        self._replays: KeyedReplayList = KeyedReplayList(self.assignment.owner)
        self._moved: dict[int, _Draining] | None = {}  # hashes that drain; None: consumers have changed, find them anew
        self._may_replay = True  # something changed since no entry of the replay list could go out

    # -- consumers

    def add(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer subscribes; ConsumerNotAssignable if it cannot have key ranges."""
        self.assignment.add(consumer)
        super().add(consumer, now_ms)
        self._reassigned()

    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; what it held is replayed to the new owners of its keys."""
        if consumer not in self._members:
            return
        self.assignment.remove(consumer)
        super().remove(consumer, now_ms)
        self._reassigned()

    def _reassigned(self) -> None:
        """Consumers have changed: who has which hash, and which of them drain, is found when somebody asks.

        Many that come or go at once, as when a topic is unloaded, cost that once.
        """
        self._replays.regroup()
        self._may_replay = True
        self._moved = {} if self._out_of_order else None

    @property
    def _draining(self) -> dict[int, _Draining]:
        """The hashes that drain."""
        if self._moved is None:
            self._moved = self._find_draining()
        return self._moved

    def _find_draining(self) -> dict[int, _Draining]:
        found: dict[int, _Draining] = {}
        owner = self.assignment.owner
        for holder in self.consumers:
            held: Counter[int] = Counter()
            for ledger_id, entries in holder.pending.positions().ledgers():
                held.update(holder.pending.hashes_of(ledger_id, entries))
            for key_hash, count in held.items():
                if owner(key_hash) is not holder:
                    found[key_hash] = _Draining(holder, count)
        return found

    def draining(self, consumer: DispatchConsumer) -> dict[int, int]:
        """The hashes that a consumer holds though they belong to another one, with its entries of each."""
        return {key_hash: each.count for key_hash, each in self._draining.items() if each.holder is consumer}

    def _released(self, consumer: DispatchConsumer, ledger_id: int, entries: BitMap) -> None:
        draining_hashes = self._moved
        if not draining_hashes:  # those found later do not count what is released now
            return
        own = entries & consumer.pending.bits(ledger_id)
        if not own:
            return
        for key_hash in consumer.pending.hashes_of(ledger_id, own):
            draining = draining_hashes.get(key_hash)
            if draining is None or draining.holder is not consumer:
                continue
            draining.count -= 1
            if not draining.count:
                del draining_hashes[key_hash]
                self._may_replay = True

    def _became_available(self, consumer: DispatchConsumer) -> None:
        self._may_replay = True

    def _readable(self, most: int) -> tuple[int, bool]:
        return permits_of(self.consumers, most)

    # -- dispatch

    def _assign(
        self, number: int, facts: FactsRun, indexes: range | list[int], replayed: bool, out: list[Delivery]
    ) -> None:
        hashes = facts.key_hashes
        if hashes is None:
            raise ValueError(f"run {facts.ledger_id}:{facts.first_entry} has no key hashes: Key_Shared needs them")
        if replayed:
            self._learn(facts, indexes, hashes)
        elif self._goes_to_one(facts, indexes):
            self._deliver(_Share(self.consumers[0], 0), number, facts, indexes, out)
            return
        shares, left_over = self._share_out(facts, indexes, hashes, replayed)
        for share in shares:
            self._deliver(share, number, facts, share.indexes, out)
            if replayed:
                self._replays.take(facts.ledger_id, entries_at(facts.first_entry, share.indexes))
        if left_over and not replayed:
            entries = {facts.first_entry + index: hashes[index] for index in left_over}
            self._replays.add(facts.ledger_id, BitMap(entries), entries)

    def _share_out(
        self, facts: FactsRun, indexes: range | list[int], hashes: Sequence[int], replayed: bool
    ) -> tuple[list[_Share], list[int]]:
        """Who gets which entries of a run, and which wait."""
        messages = facts.messages
        shares: dict[DispatchConsumer, _Share] = {}
        routes: dict[int, _Share | None] = {}
        left_over: list[int] = []
        progress: dict[int, int] | None = {} if replayed and not self._out_of_order else None
        for index in indexes:
            key_hash = hashes[index]
            share = routes.get(key_hash, _NEW)
            if share is _NEW:
                share = routes[key_hash] = self._route(key_hash, replayed, shares)
            if share is None or share.left <= 0:
                left_over.append(index)
            elif progress is not None and not self._is_next(facts, index, key_hash, progress):
                routes[key_hash] = None
                left_over.append(index)
            else:
                share.left -= messages[index]
                share.indexes.append(index)
        return [share for share in shares.values() if share.indexes], left_over

    def _learn(self, facts: FactsRun, indexes: range | list[int], hashes: Sequence[int]) -> None:
        """The hashes of replayed entries are known now."""
        if self._replays.unhashed:
            entries = entries_at(facts.first_entry, indexes)
            first = facts.first_entry
            self._replays.add(facts.ledger_id, entries, {entry: hashes[entry - first] for entry in entries})

    def _goes_to_one(self, facts: FactsRun, indexes: range | list[int]) -> bool:
        """Whether one consumer owns all keys, nothing waits, and it may have all of a run."""
        if self._sticky or len(self.consumers) != 1 or len(self._replays) or len(indexes) != len(facts.messages):
            return False
        return self._allowance(self.consumers[0]) >= sum(facts.messages)

    def _allowance(self, consumer: DispatchConsumer) -> int:
        """How many messages a consumer may have now, at least 1 if any; a last batch may overshoot (D4)."""
        if not consumer.available:
            return 0
        if not consumer.writable:
            return 1
        most = self.settings.max_unacked_per_consumer
        return min(consumer.permits, max(1, most - consumer.unacked) if most > 0 else _UNLIMITED)

    def _route(self, key_hash: int, replayed: bool, shares: dict[DispatchConsumer, _Share]) -> _Share | None:
        """Who gets entries of a hash now; None if they wait."""
        owner = self.assignment.owner(key_hash)
        if owner is None:
            return None
        if not self._out_of_order:
            draining = self._draining.get(key_hash)
            if draining is not None and draining.holder is not owner:
                return None
            if not replayed and self._replays.has_key(key_hash):
                return None
        share = shares.get(owner)
        if share is None:
            share = shares[owner] = _Share(owner, self._allowance(owner))
        return share

    def _is_next(self, facts: FactsRun, index: int, key_hash: int, progress: dict[int, int]) -> bool:
        """Whether no entry of this hash waits before this one: others may have come while the replay was read."""
        waiting, given = self._replays.of_key(key_hash), progress.get(key_hash, 0)
        if waiting[given] != (facts.ledger_id, facts.first_entry + index):
            return False
        progress[key_hash] = given + 1
        return True

    def _deliver(
        self, share: _Share, number: int, facts: FactsRun, part: range | list[int], out: list[Delivery]
    ) -> None:
        consumer = share.consumer
        batches: Sequence[int] = (
            facts.messages if len(part) == len(facts.messages) else [facts.messages[i] for i in part]
        )
        counts = self._counts.of(facts.ledger_id, facts.first_entry, part) if self._counts else None
        sent = self._hold(consumer, facts, part, None if sum(batches) == len(part) else batches)
        out.append(Delivery(consumer, number, part, sent, counts))

    # -- replay

    def _plan_replay(self, count: int) -> Sequence[Position]:
        if not self._may_replay:
            return ()
        positions = self._replays.first(count, [each for each in self.consumers if each.available], self._may_go)
        self._may_replay = bool(positions)
        return positions

    def _may_go(self, key_hash: int) -> bool:
        draining = self._draining.get(key_hash)
        return draining is None or draining.holder is self.assignment.owner(key_hash)

    def _may_read_new(self) -> bool:
        """The look-ahead: how many entries may wait before reading stops (D7)."""
        if self._replays.unhashed:
            return False
        most = self.settings.look_ahead_per_consumer * len(self.consumers)
        per_subscription = self.settings.look_ahead_per_subscription
        if most <= 0 or 0 < per_subscription < most:
            most = per_subscription
        return most <= 0 or len(self._replays) < most

    def _replay_later(self, ledger_id: int, entries: BitMap, consumer: DispatchConsumer | None) -> None:
        if consumer is None:
            self._replays.unhashed.add(ledger_id, entries)
        else:
            self._replays.add(ledger_id, entries, consumer.pending.hashes(ledger_id))
        self._may_replay = True

    def _waiting(self, ledger_id: int, entries: BitMap) -> BitMap:
        return self._replays.waiting(ledger_id, entries)

    def _replayed(self, ledger_id: int, entries: BitMap) -> BitMap:
        self._may_replay = True
        return self._replays.take(ledger_id, entries)

    def _replayed_to(self, position: Position) -> None:
        self._may_replay = True
        self._replays.take_to(position)


_NEW = _Share(DispatchConsumer(None, ""), 0)
