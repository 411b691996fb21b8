"""Key_Shared subscriptions against a model: D1, D2, D3, D4, D7, D8."""

from hypothesis import settings
from msgspec.structs import replace

from mledger.broker.dispatch.key_shared import KeySharedDispatcher
from tests.support.brokers.dispatch_machine import SETTINGS, DispatchMachine


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


class OutOfOrderMachine(DispatchMachine):
    """Without order, nothing is lost and nothing goes to two."""

    def dispatcher(self, delayed):
        """Auto-split by halves, out of order."""
        return KeySharedDispatcher(SETTINGS, out_of_order=True, delayed=delayed)


TestKeyShared = KeySharedMachine.TestCase
TestKeyShared.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestHashing = HashingMachine.TestCase
TestHashing.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
TestOutOfOrder = OutOfOrderMachine.TestCase
TestOutOfOrder.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
