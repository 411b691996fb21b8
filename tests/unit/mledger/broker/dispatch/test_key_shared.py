"""Key_Shared subscriptions: D1, D2, D3, D7, D9."""

import pytest
from msgspec.structs import replace

from mledger.broker.dispatch.consumer import ConsumerNotAssignable
from mledger.broker.dispatch.key_shared import KeySharedDispatcher
from mledger.broker.dispatch.keys.key_assignment import RangeSplit
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.facts import EntryFacts, FactsRun
from tests.support.brokers.driven_dispatcher import DrivenDispatcher, at, entries

SETTINGS = DispatchSettings(consistent_hashing=False)
LOW, HIGH = 10_000, 50_000  # the second consumer takes the lower half


def driven(settings=SETTINGS, **options):
    return DrivenDispatcher(KeySharedDispatcher(settings, **options))


def keyed(*hashes):
    return [EntryFacts(1, 1, key_hash) for key_hash in hashes]


def test_each_key_goes_to_its_consumer():
    sub = driven()
    sub.consumer("a", permits=10)
    sub.consumer("b", permits=10)
    sub.publish(*keyed(LOW, HIGH, LOW, HIGH))
    sub.pump()
    assert sub.by_consumer() == {"a": [1, 3], "b": [0, 2]}


def test_one_consumer_gets_a_read_in_one_delivery():
    sub = driven()
    sub.consumer("a", permits=100)
    sub.publish(*keyed(*[LOW, HIGH] * 20))
    sub.begin_read()
    assert [delivery.indexes for delivery in sub.end_read().deliveries] == [range(40)]


def test_a_key_stays_with_its_consumer_until_what_it_holds_is_acknowledged():
    sub = driven()
    old = sub.consumer("a", permits=10)
    sub.publish(*keyed(LOW, LOW + 1, HIGH))
    sub.pump()
    sub.consumer("b", permits=10)
    sub.publish(*keyed(LOW, LOW + 2))
    assert [(one.consumer, one.position.entry_id) for one in sub.pump()] == [("b", 4)]
    assert sub.dispatcher.draining(old) == {LOW: 1, LOW + 1: 1}
    sub.acknowledge(old, *at(0))
    assert [(one.consumer, one.position.entry_id) for one in sub.pump()] == [("b", 3)]


def test_a_key_that_returns_to_its_holder_does_not_wait():
    sub = driven()
    sub.consumer("a", permits=10)
    sub.publish(*keyed(LOW))
    sub.pump()
    newcomer = sub.consumer("b", permits=10)
    sub.publish(*keyed(LOW))
    assert sub.pump() == []
    sub.dispatcher.remove(newcomer, 0)
    assert [(one.consumer, one.position.entry_id) for one in sub.pump()] == [("a", 1)]


def test_a_consumer_that_leaves_gives_its_keys_over_in_order():
    sub = driven()
    old = sub.consumer("a", permits=3)
    sub.publish(*keyed(HIGH, HIGH, HIGH, HIGH))
    sub.pump()
    sub.consumer("b", permits=10)
    sub.dispatcher.remove(old, 0)
    assert [(one.position.entry_id, one.redeliveries) for one in sub.pump()] == [(0, 1), (1, 1), (2, 1), (3, 0)]


def test_later_entries_of_a_key_wait_behind_those_that_have_no_permits():
    sub = driven()
    slow = sub.consumer("a", permits=1)
    sub.consumer("b", permits=10)
    sub.publish(*keyed(HIGH, HIGH, LOW, HIGH + 1, LOW))
    sub.pump()
    assert sub.by_consumer() == {"a": [0], "b": [2, 4]}
    sub.dispatcher.flow(slow, 1)
    sub.publish(*keyed(HIGH))
    sub.pump()
    sub.dispatcher.flow(slow, 10)
    sub.pump()
    assert sub.by_consumer()["a"] == [0, 1, 3, 5]


def test_reading_ahead_ends_when_too_many_entries_wait():
    sub = driven(replace(SETTINGS, look_ahead_per_consumer=5, look_ahead_per_subscription=0, max_read_batch=1))
    sub.consumer("a")
    sub.consumer("b", permits=100)
    sub.publish(*keyed(*[HIGH] * 30, LOW))
    sub.pump()
    assert sub.dispatcher.replay_count == 10
    assert sub.sent == []


def test_the_look_ahead_of_the_subscription_bounds_that_of_its_consumers():
    sub = driven(replace(SETTINGS, look_ahead_per_consumer=5, look_ahead_per_subscription=7, max_read_batch=1))
    sub.consumer("a")
    sub.consumer("b", permits=100)
    sub.publish(*keyed(*[HIGH] * 30))
    sub.pump()
    assert sub.dispatcher.replay_count == 7


def test_out_of_order_delivery_waits_for_nothing():
    sub = driven(out_of_order=True)
    sub.consumer("a", permits=10)
    sub.publish(*keyed(LOW))
    sub.pump()
    sub.consumer("b", permits=10)
    sub.publish(*keyed(LOW))
    assert [(one.consumer, one.position.entry_id) for one in sub.pump()] == [("b", 1)]


def test_sticky_consumers_get_their_ranges_and_other_keys_wait():
    sub = driven(sticky=True)
    sub.consumer("a", permits=10, key_ranges=[KeyRange(0, 99)])
    sub.publish(*keyed(50, 150, 60))
    assert entries(sub.pump()) == [0, 2]
    sub.consumer("b", permits=10, key_ranges=[KeyRange(100, 199)])
    assert [(one.consumer, one.position.entry_id) for one in sub.pump()] == [("b", 1)]


def test_a_consumer_whose_ranges_conflict_is_refused():
    sub = driven(sticky=True)
    sub.consumer("a", permits=10, key_ranges=[KeyRange(0, 99)])
    with pytest.raises(ConsumerNotAssignable, match="overlaps"):
        sub.consumer("b", key_ranges=[KeyRange(99, 100)])
    assert [each.name for each in sub.dispatcher.consumers] == ["a"]


def test_an_entry_taken_back_during_a_replay_of_its_key_goes_first():
    sub = driven()
    consumer = sub.consumer("a", permits=1)
    sub.consumer("b", permits=10)
    sub.publish(*keyed(HIGH, HIGH))
    sub.pump()
    sub.dispatcher.flow(consumer, 10)
    assert sub.begin_read().positions == at(1)
    sub.dispatcher.redeliver(consumer, at(0))
    assert sub.end_read().deliveries == []
    assert entries(sub.pump()) == [0, 1]


def test_delayed_entries_come_to_the_consumers_of_their_keys():
    sub = driven(delayed=DelayedIndex(tick_ms=1, strict=True))
    sub.consumer("a", permits=10)
    sub.consumer("b", permits=10)
    sub.publish(EntryFacts(1, 1, LOW, 100), EntryFacts(1, 1, HIGH, 50))
    assert sub.pump() == []
    sub.now_ms = 100
    sub.pump()
    assert sub.by_consumer() == {"a": [1], "b": [0]}


def test_a_consumer_that_is_not_writable_gets_one_entry_until_it_is():
    sub = driven()
    slow = sub.consumer("a", permits=10)
    slow.writable = False
    sub.publish(*keyed(HIGH, HIGH, HIGH))
    assert entries(sub.pump()) == [0]
    slow.writable = True
    assert entries(sub.pump()) == [1, 2]


def test_a_consumer_that_is_writable_again_gets_what_waited_while_others_were_served():
    sub = driven()
    slow = sub.consumer("a", permits=10)
    sub.consumer("b", permits=10)
    slow.writable = False
    sub.publish(*keyed(HIGH, HIGH, HIGH, LOW))
    sub.pump()
    assert sub.by_consumer() == {"a": [0], "b": [3]}
    slow.writable = True
    assert entries(sub.pump()) == [1, 2]


def test_a_blocked_consumer_holds_up_its_own_keys_only():
    sub = driven(replace(SETTINGS, max_unacked_per_consumer=2))
    blocked = sub.consumer("a", permits=10)
    other = sub.consumer("b", permits=10)
    sub.publish(*keyed(HIGH, HIGH, HIGH, LOW))
    sub.pump()
    assert sub.by_consumer() == {"a": [0, 1], "b": [3]}
    sub.acknowledge(other, *at(3))
    sub.acknowledge(blocked, *at(0))
    assert entries(sub.pump()) == [2]


def test_hashes_are_needed():
    sub = driven()
    sub.consumer("a", permits=1)
    read = sub.begin_read()
    with pytest.raises(ValueError, match="no key hashes"):
        sub.dispatcher.dispatch(read, [FactsRun(7, 0, [1], [1])], 0)


def test_many_consumers_that_leave_at_once_cost_one_look_at_what_they_held(monkeypatch):
    sub, asked = driven(), []
    owner = RangeSplit.owner
    monkeypatch.setattr(RangeSplit, "owner", lambda self, key_hash: asked.append(key_hash) or owner(self, key_hash))
    consumers = [sub.consumer(f"c{number}", permits=100) for number in range(16)]
    sub.publish(*keyed(*range(1, 65_000, 100)))
    sub.pump()
    asked.clear()
    for consumer in consumers:
        sub.dispatcher.remove(consumer, sub.now_ms)
    assert len(asked) <= sub.dispatcher.replay_count == 650
