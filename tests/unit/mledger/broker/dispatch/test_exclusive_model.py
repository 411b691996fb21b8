"""Exclusive and failover subscriptions against a model: D1, D2, D4, D8."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mledger.broker.dispatch.active_consumer import plan_active
from mledger.broker.dispatch.exclusive import ExclusiveDispatcher
from mledger.metastore.records.position import Position
from tests.support.brokers.dispatch_machine import BATCH, SETTINGS, picks
from tests.support.brokers.driven_dispatcher import LEDGER, DrivenDispatcher

DELAY = SETTINGS.failover_delay_ms


class FailoverMachine(RuleBasedStateMachine):
    """One consumer is active at a time and gets everything in order, from the first entry not acknowledged on."""

    @initialize(partition=st.integers(-1, 3), returning=st.sets(st.sampled_from(("c1", "c2", "c3"))))
    def start(self, partition, returning):
        self.partition, self.returning = partition, set(returning)
        dispatcher = ExclusiveDispatcher(SETTINGS, failover=True, topic="t", partition=partition, returning=returning)
        self.sub = DrivenDispatcher(dispatcher)
        self.consumers, self.permits, self.told = {}, {}, {}
        self.active, self.serves_from_ms, self.joined = None, 0, 0
        self.gathered_by_ms = None  # the wait for others has begun, and ends
        self.next_entry = 0  # that the active consumer gets, unless it is acknowledged

    def choose(self):
        """What the active consumer must be now; a change begins with the first entry not acknowledged."""
        chosen = plan_active([*self.consumers.values()], "t", self.partition)
        if chosen is self.active:
            return
        if self.active is None:
            if self.gathered_by_ms is None:
                self.gathered_by_ms = self.sub.now_ms + DELAY
            if self.sub.now_ms >= self.gathered_by_ms:
                self.returning.clear()
            self.serves_from_ms = max(self.gathered_by_ms, self.sub.now_ms)
        elif self.sub.now_ms >= self.serves_from_ms:
            self.serves_from_ms = self.sub.now_ms + DELAY
            self.returning.clear()
        self.active, self.next_entry = chosen, 0

    @rule(batches=st.lists(st.integers(1, BATCH), min_size=1, max_size=8))
    def publish(self, batches):
        self.sub.publish(*batches)

    @rule(wait=st.integers(1, DELAY))
    def wait(self, wait):
        self.sub.now_ms += wait

    @precondition(lambda self: len(self.consumers) < 3)
    @rule(permits=st.integers(0, 10), priority=st.integers(0, 1))
    def join(self, permits, priority):
        self.joined += 1
        name = f"c{self.joined}"
        self.consumers[name] = self.sub.consumer(name, permits, priority)
        self.permits[name] = permits
        self.choose()
        if name in self.returning:
            self.returning.remove(name)
            if not self.returning:
                self.serves_from_ms = min(self.serves_from_ms, self.sub.now_ms)

    def pick(self, number):
        return [*self.consumers.values()][number % len(self.consumers)]

    @precondition(lambda self: self.consumers)
    @rule(number=picks)
    def leave(self, number):
        consumer = self.pick(number)
        del self.consumers[consumer.name]
        self.told.pop(consumer.name, None)
        self.sub.dispatcher.remove(consumer, self.sub.now_ms)
        self.choose()

    @precondition(lambda self: self.consumers)
    @rule(number=picks, permits=st.integers(1, 10))
    def flow(self, number, permits):
        consumer = self.pick(number)
        self.permits[consumer.name] += permits
        self.sub.dispatcher.flow(consumer, permits)

    @precondition(lambda self: self.consumers)
    @rule(number=picks)
    def redeliver(self, number):
        consumer = self.pick(number)
        self.sub.dispatcher.redeliver(consumer, None)
        if consumer is self.active:
            self.next_entry = 0

    @rule(entry_id=st.integers(0, 30))
    def acknowledge_to(self, entry_id):
        last = Position(LEDGER, entry_id)
        self.sub.acknowledged.update(position for position in self.sub.facts if position <= last)
        self.sub.dispatcher.acknowledged_to(last)

    @rule()
    def begin_read(self):
        self.sub.begin_read()

    @precondition(lambda self: self.sub.in_flight)
    @rule()
    def end_read(self):
        self.take_in()

    def take_in(self):
        before = len(self.sub.sent)
        self.sub.end_read()
        for sent in self.sub.sent[before:]:
            assert sent.consumer == self.active.name
            assert sent.redeliveries == 0
            assert self.sub.now_ms >= self.serves_from_ms
            assert self.permits[sent.consumer] > 0
            skipped = range(self.next_entry, sent.position.entry_id)
            assert sent.position.entry_id >= self.next_entry, "out of order"
            assert all(Position(LEDGER, entry_id) in self.sub.acknowledged for entry_id in skipped), "left out"
            self.next_entry = sent.position.entry_id + 1
            self.permits[sent.consumer] -= sent.messages

    @rule()
    def tell(self):
        for notice in self.sub.dispatcher.notices(self.sub.now_ms):
            self.told[notice.consumer.name] = notice.is_active
        if self.sub.now_ms >= self.serves_from_ms:
            if self.active is not None:
                self.returning.clear()
                self.gathered_by_ms = None
            assert self.told == {name: each is self.active for name, each in self.consumers.items()}

    @invariant()
    def permits_are_exact(self):
        if not hasattr(self, "sub"):
            return
        for name, consumer in self.consumers.items():
            assert consumer.permits == self.permits[name]
            assert consumer.permits > -BATCH
        assert self.sub.dispatcher.active is self.active

    def teardown(self):
        """The active consumer comes to the end of the topic."""
        if not hasattr(self, "sub"):
            return
        if not self.consumers:
            self.join(0, 0)
        self.sub.now_ms += DELAY
        while self.sub.in_flight:
            self.take_in()
        for _ in range(200):
            self.flow([*self.consumers].index(self.active.name), 10)
            while self.sub.begin_read() is not None:
                idle = not self.sub.in_flight[-1][1]
                self.take_in()
                if idle:
                    break
        left = [position for position in self.sub.facts if position not in self.sub.acknowledged]
        assert not left or self.next_entry > left[-1].entry_id


TestFailover = FailoverMachine.TestCase
TestFailover.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
