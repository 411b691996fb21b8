"""Key_Shared subscriptions against a model: D1, D2, D3, D4, D7, D8."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from mledger.broker.dispatch.consumer import ConsumerNotAssignable
from mledger.broker.dispatch.key_shared import KeySharedDispatcher
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.facts import KEY_HASHES
from tests.support.brokers.dispatch_machine import SETTINGS, DispatchMachine, Holder, picks

QUARTERS = tuple(KeyRange(at, at + KEY_HASHES // 4 - 1) for at in range(0, KEY_HASHES, KEY_HASHES // 4))


class KeySharedMachine(DispatchMachine):
    """A key is with one consumer at a time, and comes in order, whoever joins, leaves or gives back."""

    def dispatcher(self, delayed):
        """Auto-split by halves: a newcomer takes keys of another one."""
        return KeySharedDispatcher(SETTINGS, delayed=delayed)

    def check_delivery(self, sent, holder):
        """Nobody else holds entries of the key, and all before this one are acknowledged or held by the same one."""
        facts = self.sub.facts
        key_hash = facts[sent.position].key_hash
        for other in self.holders.values():
            if other is not holder:
                assert not any(facts[position].key_hash == key_hash for position in other.held), "a key at two"
        if facts[sent.position].deliver_at_ms:
            return
        for position, earlier in facts.items():
            if position >= sent.position or earlier.key_hash != key_hash or earlier.deliver_at_ms:
                continue
            assert position in holder.held or position in self.sub.acknowledged, f"{position} comes first"


class HashingMachine(KeySharedMachine):
    """The same by consistent hashing."""

    def dispatcher(self, delayed):
        """Auto-split by points on a ring."""
        return KeySharedDispatcher(replace(SETTINGS, consistent_hashing=True), delayed=delayed)


class StickyMachine(KeySharedMachine):
    """The same of consumers that say which keys they take; the keys of nobody wait."""

    def dispatcher(self, delayed):
        """Each consumer takes a quarter of the keys."""
        return KeySharedDispatcher(SETTINGS, sticky=True, delayed=delayed)

    def free(self):
        """The quarters that nobody has."""
        taken = {each.consumer.key_ranges[0] for each in self.holders.values()}
        return [each for each in QUARTERS if each not in taken]

    @precondition(lambda self: len(self.holders) < 4)
    @rule(permits=st.integers(0, 20), priority=st.integers(0, 1))
    def join(self, permits, priority):
        self.joined += 1
        name = f"c{self.joined}"
        consumer = self.sub.consumer(name, permits, priority, self.free()[:1])
        self.holders[name] = Holder(consumer, permits)

    @precondition(lambda self: self.holders)
    @rule(number=picks)
    def conflict(self, number):
        """One that wants keys of another is refused, and changes nothing."""
        taken = self.pick(number).consumer.key_ranges[0]
        with pytest.raises(ConsumerNotAssignable):
            self.sub.consumer("late", 5, 0, [KeyRange(taken.end, taken.end)])

    def check_delivery(self, sent, holder):
        """Only who asked for the key gets it."""
        assert holder.consumer.asks_for(self.sub.facts[sent.position].key_hash)
        super().check_delivery(sent, holder)

    def teardown(self):
        """Once somebody takes each key, every entry comes to somebody."""
        while hasattr(self, "sub") and self.free():
            self.join(0, 0)
        super().teardown()


class OutOfOrderMachine(DispatchMachine):
    """Without order, nothing is lost and nothing goes to two."""

    def dispatcher(self, delayed):
        """Auto-split by halves, out of order."""
        return KeySharedDispatcher(SETTINGS, out_of_order=True, delayed=delayed)


TestKeyShared = KeySharedMachine.TestCase
TestKeyShared.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestHashing = HashingMachine.TestCase
TestHashing.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
TestSticky = StickyMachine.TestCase
TestSticky.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestOutOfOrder = OutOfOrderMachine.TestCase
TestOutOfOrder.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
