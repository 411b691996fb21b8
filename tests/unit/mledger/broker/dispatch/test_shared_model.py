"""Shared subscriptions against a model: D1, D2, D3, D4, D7, D8."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.shared import SharedDispatcher
from tests.support.dispatch_machine import SETTINGS, DispatchMachine
from tests.support.driven_dispatcher import DrivenDispatcher


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


TestShared = SharedMachine.TestCase
TestShared.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)


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
