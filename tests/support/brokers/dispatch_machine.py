"""Consumers that join, leave, stall, acknowledge and give back at random, against a plain model of who holds what."""

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.facts import EntryFacts
from mledger.metastore.records.position import Position
from tests.support.brokers.driven_dispatcher import LEDGER, DrivenDispatcher, SentEntry

BATCH = 5  # messages of the largest batch
HASHES = tuple(range(1_000, 65_536, 9_000))
SETTINGS = DispatchSettings(
    max_read_batch=6,
    max_round_robin_batch=3,
    max_unacked_per_consumer=16,
    max_unacked_per_subscription=50,
    failure_backoff_ms=5,
    max_failure_backoff_ms=10,
    consistent_hashing=False,
    look_ahead_per_consumer=4,
    look_ahead_per_subscription=10,
)

picks = st.integers(0, 1_000)
batches = st.lists(st.tuples(st.sampled_from((1, 1, 1, 2, BATCH)), st.sampled_from(HASHES)), min_size=3, max_size=12)


@dataclass
class Holder:
    """What the model knows of a consumer."""

    consumer: DispatchConsumer
    permits: int = 0
    held: dict[Position, int] = field(default_factory=dict)  # the messages left of each entry
    gave_back: bool = False  # and was sent nothing since: it may be above its limit


class DispatchMachine(RuleBasedStateMachine):
    """The steps that every dispatcher with tracked entries goes through; subclasses say what it promises."""

    def dispatcher(self, delayed):
        """The dispatcher to test."""
        raise NotImplementedError

    def check_delivery(self, sent: SentEntry, holder: Holder) -> None:
        """Check what only this kind of dispatcher promises, before the model takes the delivery in."""

    def overshoots(self, position: Position) -> bool:
        """Whether an entry goes to a consumer whatever limits that has."""
        return False

    def given_back(self, positions: list[Position]) -> list[Position]:
        """What a consumer gives back that gives these back."""
        return positions

    def least_permits(self) -> int:
        """More permits than this remain to a consumer."""
        return -BATCH

    @initialize(
        entries=batches,
        permits=st.lists(st.integers(1, 20), min_size=1, max_size=2),
    )
    def start(self, entries, permits):
        self.sub = DrivenDispatcher(self.dispatcher(DelayedIndex(tick_ms=1, strict=True)))
        self.holders: dict[str, Holder] = {}
        self.joined = 0
        self.deliveries: dict[Position, int] = {}
        for count in permits:
            self.join(count, 0)
        self.publish(entries)
        self.pump()

    # -- what happens

    @rule(entries=batches)
    def publish(self, entries):
        self.sub.publish(*(EntryFacts(messages, 10, key_hash) for messages, key_hash in entries))

    @rule(entries=batches)
    def publish_to_tails(self, entries):
        """Entries are published and read at once."""
        self.publish(entries)
        self.pump()

    @rule(delay=st.integers(1, 30), key_hash=st.sampled_from(HASHES))
    def publish_delayed(self, delay, key_hash):
        self.sub.publish(EntryFacts(1, 10, key_hash, self.sub.now_ms + delay))

    @rule(wait=st.integers(1, 20))
    def wait(self, wait):
        self.sub.now_ms += wait

    @precondition(lambda self: len(self.holders) < 4)
    @rule(permits=st.integers(0, 20), priority=st.integers(0, 1))
    def join(self, permits, priority):
        self.joined += 1
        name = f"c{self.joined}"
        self.holders[name] = Holder(self.sub.consumer(name, permits, priority), permits)

    def pick(self, number) -> Holder:
        return [*self.holders.values()][number % len(self.holders)]

    @precondition(lambda self: self.holders)
    @rule(number=picks)
    def hand_over(self, number):
        """A consumer gives everything back, and what it gave back is being read when it changes again."""
        holder = self.pick(number)
        holder.held.clear()
        self.sub.dispatcher.redeliver(holder.consumer, None)
        self.sub.begin_read()

    @precondition(lambda self: self.holders)
    @rule(number=picks)
    def leave(self, number):
        holder = self.pick(number)
        del self.holders[holder.consumer.name]
        self.sub.dispatcher.remove(holder.consumer, self.sub.now_ms)
        self.sub.dispatcher.flow(holder.consumer, 10)  # late

    @precondition(lambda self: self.holders)
    @rule(number=picks, permits=st.integers(1, 20))
    def flow(self, number, permits):
        holder = self.pick(number)
        holder.permits += permits
        self.sub.dispatcher.flow(holder.consumer, permits)

    @precondition(lambda self: self.holders)
    @rule(number=picks)
    def stall_or_go_on(self, number):
        consumer = self.pick(number).consumer
        consumer.writable = not consumer.writable

    @rule()
    def pump(self):
        """Read until nothing more comes, as a driver whose reads come from memory."""
        while self.sub.begin_read() is not None:
            idle = self.sub.reads[-1].positions is None and not self.sub.in_flight[-1][1]
            self.take_in(-1)
            if idle:
                break

    @rule()
    def begin_read(self):
        self.sub.begin_read()

    @precondition(lambda self: self.sub.in_flight)
    @rule(number=picks)
    def end_read(self, number):
        self.take_in(number % len(self.sub.in_flight))

    @precondition(lambda self: self.sub.in_flight)
    @rule(number=picks)
    def fail_read(self, number):
        read, runs = self.sub.in_flight.pop(number % len(self.sub.in_flight))
        self.sub.dispatcher.failed_read(read, self.sub.now_ms)
        if read.positions is None and runs:  # the cursor stays where it was
            self.sub.read_position = runs[0].first_entry

    @precondition(lambda self: self.holders)
    @rule(number=picks, by=picks, some=st.lists(picks, min_size=1, max_size=6))
    def acknowledge(self, number, by, some):
        holder = self.pick(number)
        if not holder.held:
            return
        held = sorted(holder.held)
        positions = list({held[each % len(held)] for each in some})
        for position in positions:
            del holder.held[position]
        self.sub.acknowledge(self.pick(by).consumer, *positions)

    @precondition(lambda self: self.holders)
    @rule(number=picks, which=picks)
    def acknowledge_part(self, number, which):
        holder = self.pick(number)
        batches = sorted(position for position, left in holder.held.items() if left > 1)
        if not batches:
            return
        position = batches[which % len(batches)]
        holder.held[position] -= 1
        facts = self.sub.facts[position]
        self.sub.facts[position] = facts._replace(messages=facts.messages - 1)
        self.sub.dispatcher.acknowledged_part(holder.consumer, position, 1)

    @precondition(lambda self: self.holders)
    @rule(number=picks, which=picks)
    def acknowledge_late(self, number, which):
        """A consumer acknowledges what it held once; it may be on its way to another one."""
        held = {position for each in self.holders.values() for position in each.held}
        waiting = sorted(position for position in self.deliveries if position not in self.sub.acknowledged | held)
        if waiting:
            self.sub.acknowledge(self.pick(number).consumer, waiting[which % len(waiting)])

    @rule(entry_id=st.integers(0, 60))
    def expire(self, entry_id):
        if any(read.positions is None for read, _ in self.sub.in_flight):
            return  # what was read before it expired may still go out
        last = Position(LEDGER, entry_id)
        self.sub.acknowledged.update(position for position in self.sub.facts if position <= last)
        for holder in self.holders.values():
            holder.held = {position: left for position, left in holder.held.items() if position > last}
        self.sub.dispatcher.acknowledged_to(last)

    @precondition(lambda self: self.holders)
    @rule(number=picks, some=st.none() | st.lists(picks, max_size=4))
    def redeliver(self, number, some):
        holder = self.pick(number)
        held = sorted(holder.held)
        positions = None
        if some is not None:
            positions = self.given_back([held[each % len(held)] for each in some if held])
            positions.append(Position(LEDGER, 10_000))
        for position in held if positions is None else positions:
            holder.gave_back |= holder.held.pop(position, None) is not None
        self.sub.dispatcher.redeliver(holder.consumer, positions)

    # -- what holds

    def take_in(self, index):
        """End a read and check each entry that went out."""
        before = len(self.sub.sent)
        self.sub.end_read(index)
        for sent in self.sub.sent[before:]:
            holder = self.holders[sent.consumer]
            assert not any(sent.position in other.held for other in self.holders.values()), "held by two"
            assert sent.position not in self.sub.acknowledged, "acknowledged already"
            assert self.sub.facts[sent.position].deliver_at_ms <= self.sub.now_ms, "not due"
            assert sent.redeliveries == self.deliveries.get(sent.position, 0)
            if not self.overshoots(sent.position):
                assert holder.permits > 0, "without permits"
                assert holder.gave_back or sum(holder.held.values()) < SETTINGS.max_unacked_per_consumer, "blocked"
            self.check_delivery(sent, holder)
            self.deliveries[sent.position] = sent.redeliveries + 1
            holder.held[sent.position] = sent.messages
            holder.gave_back = False
            holder.permits -= sent.messages

    @invariant()
    def counts_are_exact(self):
        if not hasattr(self, "sub"):
            return
        for holder in self.holders.values():
            consumer = holder.consumer
            assert consumer.permits == holder.permits
            assert consumer.permits > self.least_permits()
            assert consumer.unacked == sum(holder.held.values())
            assert set(consumer.pending.positions()) == set(holder.held)
            if consumer.unacked >= SETTINGS.max_unacked_per_consumer:
                assert consumer.blocked or holder.gave_back
            if consumer.unacked <= SETTINGS.max_unacked_per_consumer // 2:
                assert not consumer.blocked
        assert self.sub.dispatcher.unacked == sum(sum(each.held.values()) for each in self.holders.values())

    def teardown(self):
        """Whatever happened, every entry comes to somebody."""
        if not hasattr(self, "sub"):
            return
        sub = self.sub
        while sub.in_flight:
            self.take_in(0)
        if not self.holders:
            self.join(0, 0)
        for _ in range(400):
            sub.now_ms += 50
            for holder in self.holders.values():
                holder.consumer.writable = True
                if holder.permits <= 0:
                    holder.permits += 10
                    sub.dispatcher.flow(holder.consumer, 10)
                held = list(holder.held)
                holder.held.clear()
                sub.acknowledge(holder.consumer, *held)
            if set(sub.facts) <= sub.acknowledged:
                break
            self.pump()
        assert set(sub.facts) <= sub.acknowledged, f"lost: {sorted(set(sub.facts) - sub.acknowledged)}"
        assert sub.dispatcher.unacked == 0
