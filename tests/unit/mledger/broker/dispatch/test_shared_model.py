"""Shared subscriptions against a model: D1, D2, D3, D4, D7, D8."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.shared import SharedDispatcher
from mledger.broker.facts import EntryFacts, MessageChunk
from mledger.metastore.records.position import Position
from tests.support.brokers.dispatch_machine import BATCH, SETTINGS, DispatchMachine
from tests.support.brokers.driven_dispatcher import DrivenDispatcher


class SharedMachine(DispatchMachine):
    """Nothing is lost, nothing goes to two, limits hold, and a better priority goes first."""

    def dispatcher(self, delayed):
        """A shared dispatcher."""
        return SharedDispatcher(SETTINGS, delayed=delayed)

    def check_delivery(self, sent, holder):
        """Nobody with a better priority number could have had the entry."""
        for other in self.holders.values():
            if other.consumer.priority >= holder.consumer.priority:
                continue
            unacked = sum(other.held.values())
            assert other.permits <= 0 or unacked > SETTINGS.max_unacked_per_consumer // 2 or not other.consumer.writable


class ChunksMachine(SharedMachine):
    """Whoever gets a later chunk of a message was the last to get the one before it."""

    def __init__(self):
        super().__init__()
        self.before: dict[Position, Position] = {}  # the chunk before each later one
        self.last_to: dict[Position, str] = {}

    @rule(counts=st.lists(st.integers(1, 4), min_size=1, max_size=3), delay=st.sampled_from((0, 0, 10)))
    def publish_in_chunks(self, counts, delay):
        """Messages of two producers and more: the chunks of one lie between those of the others."""
        due_ms = self.sub.now_ms + delay if delay else 0
        first, last = len(self.sub.facts), {}
        for number in range(max(counts)):
            for which in (which for which, count in enumerate(counts) if number < count):
                chunk = MessageChunk(f"{first}-{which}", number, number == counts[which] - 1)
                (position,) = self.sub.publish(EntryFacts(1, 10, 0, due_ms, chunk))
                if number:
                    self.before[position] = last[which]
                last[which] = position

    def overshoots(self, position):
        """A later chunk goes where the one before it went."""
        return position in self.before

    def least_permits(self):
        """Each later chunk may come on top."""
        return -BATCH - len(self.before)

    def given_back(self, positions):
        """Clients give back whole messages."""
        messages = {self.message(position) for position in positions}
        return [each for each in self.sub.facts if self.message(each) in messages]

    def message(self, position):
        """What names the message of an entry."""
        chunk = self.sub.facts[position].chunk
        return position if chunk is None else chunk.uuid

    def check_delivery(self, sent, holder):
        """The chunk before this one is acknowledged, or went to this consumer last."""
        before = self.before.get(sent.position)
        if before is None:
            super().check_delivery(sent, holder)
        elif before not in self.sub.acknowledged:
            assert self.last_to.get(before) == sent.consumer
        self.last_to[sent.position] = sent.consumer


TestShared = SharedMachine.TestCase
TestChunks = ChunksMachine.TestCase
TestShared.settings = TestChunks.settings = settings(max_examples=50, stateful_step_count=60, deadline=None)


@given(st.integers(2, 5), st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=60), min_size=1, max_size=8))
def test_consumers_with_permits_have_as_many_turns_as_each_other(count, publishes):
    sub = DrivenDispatcher(SharedDispatcher(DispatchSettings(max_round_robin_batch=7)))
    for number in range(count):
        sub.consumer(f"c{number}", permits=1_000_000)
    turns = Counter({f"c{number}": 0 for number in range(count)})
    for batches in publishes:
        sub.publish(*batches)
        while sub.begin_read() is not None:
            dispatched = sub.end_read()
            turns.update(delivery.consumer.name for delivery in dispatched.deliveries)
            if not dispatched.deliveries:
                break
        assert max(turns.values()) - min(turns.values()) <= 1
