"""Who gets the messages of non-persistent topics: D12."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.consumer import ConsumerBusy, ConsumerNotAssignable, DispatchConsumer
from mledger.broker.dispatch.dispatcher import ActiveNotice
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.dispatch.nonpersistent import (
    NonPersistentExclusive,
    NonPersistentKeyShared,
    NonPersistentShared,
)
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.facts import EntryFacts, FactsRun

SETTINGS = DispatchSettings(failover_delay_ms=1_000)


def run_of(*messages, hashes=None):
    """Published entries of so many messages each."""
    hashes = hashes or [7] * len(messages)
    return FactsRun.of(0, 0, [EntryFacts(each, 10, hashed) for each, hashed in zip(messages, hashes, strict=True)])


def add(dispatcher, name, permits=100, priority=0, ranges=()):
    consumer = DispatchConsumer(name, name, priority, ranges)
    dispatcher.add(consumer, 0)
    dispatcher.flow(consumer, permits)
    return consumer


def given_out(dispatcher, run):
    """The indexes that each consumer gets, and how many messages are dropped."""
    handout = dispatcher.give(run)
    assert all(each.messages == sum(run.messages[at] for at in each.indexes) for each in handout.deliveries)
    return {each.consumer.name: list(each.indexes) for each in handout.deliveries}, handout.dropped


@pytest.mark.parametrize("make", [lambda: NonPersistentExclusive(SETTINGS), NonPersistentShared])
def test_without_consumers_everything_is_dropped(make):
    assert given_out(make(), run_of(1, 5)) == ({}, 6)


# -- exclusive and failover


def test_what_exceeds_the_permits_is_dropped_and_the_last_batch_may_overshoot():
    topic = NonPersistentExclusive(SETTINGS)
    consumer = add(topic, "a", permits=4)
    assert given_out(topic, run_of(1, 2, 5, 1, 2)) == ({"a": [0, 1, 2]}, 3)
    assert consumer.permits == -4
    topic.flow(consumer, 5)
    assert given_out(topic, run_of(1, 1)) == ({"a": [0]}, 1)


def test_a_connection_that_takes_no_more_gets_nothing():
    topic = NonPersistentExclusive(SETTINGS)
    consumer = add(topic, "a")
    consumer.writable = False
    assert given_out(topic, run_of(1)) == ({}, 1)
    consumer.writable = True
    assert given_out(topic, run_of(1)) == ({"a": [0]}, 0)


def test_an_exclusive_subscription_has_one_consumer():
    topic = NonPersistentExclusive(SETTINGS)
    first = add(topic, "a")
    with pytest.raises(ConsumerBusy):
        topic.add(DispatchConsumer("b", "b"), 0)
    assert topic.consumers == [first]


def test_the_next_active_consumer_serves_at_once_and_all_are_told():
    topic = NonPersistentExclusive(SETTINGS, failover=True, topic="t", partition=0)
    first, second = add(topic, "a"), add(topic, "b")
    assert topic.notices(5) == [ActiveNotice(first, True), ActiveNotice(second, False)]
    assert given_out(topic, run_of(1)) == ({"a": [0]}, 0)
    topic.remove(first, 5)
    assert topic.active is second
    assert topic.notices(5) == [ActiveNotice(second, True)]
    assert given_out(topic, run_of(1)) == ({"b": [0]}, 0)


# -- shared


def test_entries_go_to_consumers_in_turn_one_by_one():
    topic = NonPersistentShared()
    add(topic, "a")
    add(topic, "b")
    assert given_out(topic, run_of(1, 1, 1, 1, 1)) == ({"a": [0, 2, 4], "b": [1, 3]}, 0)
    assert given_out(topic, run_of(1)) == ({"b": [0]}, 0)


def test_a_consumer_without_permits_or_room_leaves_its_turn_to_others():
    topic = NonPersistentShared()
    few, stalled, free = add(topic, "few", permits=1), add(topic, "stalled"), add(topic, "free")
    stalled.writable = False
    assert given_out(topic, run_of(*[1] * 6)) == ({"few": [0], "free": [1, 2, 3, 4, 5]}, 0)
    topic.remove(free, 0)
    assert given_out(topic, run_of(1, 1)) == ({}, 2)
    topic.flow(few, 1)
    stalled.writable = True
    topic.written()
    assert given_out(topic, run_of(1, 1, 1)) == ({"few": [0], "stalled": [1, 2]}, 0)


def test_a_lower_priority_number_comes_first():
    topic = NonPersistentShared()
    add(topic, "second", priority=1)
    add(topic, "first", permits=2)
    assert given_out(topic, run_of(1, 1, 1)) == ({"first": [0, 1], "second": [2]}, 0)


def test_a_consumer_that_is_gone_gets_nothing_whatever_it_asks_for():
    topic = NonPersistentShared()
    gone = add(topic, "gone")
    topic.remove(gone, 0)
    topic.remove(gone, 0)
    topic.flow(gone, 10)
    assert given_out(topic, run_of(1)) == ({}, 1)


# -- Key_Shared


@pytest.mark.parametrize("settings", [SETTINGS, DispatchSettings(consistent_hashing=False)])
def test_the_messages_of_a_key_go_to_one_consumer_in_order(settings):
    topic = NonPersistentKeyShared(settings)
    for name in "abc":
        add(topic, name)
    hashes = [1, 30_000, 65_000, 1, 65_000, 1]
    handout, dropped = given_out(topic, run_of(*[1] * 6, hashes=hashes))
    owners = {index: name for name, indexes in handout.items() for index in indexes}
    assert dropped == 0
    assert all(indexes == sorted(indexes) for indexes in handout.values())
    assert owners[0] == owners[3] == owners[5]
    assert owners[2] == owners[4]


def test_messages_of_a_key_whose_consumer_has_no_permits_are_dropped_not_given_to_others():
    topic = NonPersistentKeyShared(SETTINGS)
    low = add(topic, "low", permits=0)
    topic.remove(low, 0)
    sticky = NonPersistentKeyShared(SETTINGS, sticky=True)
    add(sticky, "low", permits=1, ranges=(KeyRange(0, 99),))
    add(sticky, "high", ranges=(KeyRange(100, 199),))
    assert given_out(sticky, run_of(1, 1, 3, hashes=[5, 150, 6])) == ({"low": [0], "high": [1]}, 3)
    assert given_out(sticky, run_of(4, hashes=[60_000])) == ({}, 4)  # nobody's


def test_a_sticky_consumer_whose_ranges_overlap_is_refused_before_any_change():
    topic = NonPersistentKeyShared(SETTINGS, sticky=True)
    first = add(topic, "a", ranges=(KeyRange(0, 99),))
    with pytest.raises(ConsumerNotAssignable):
        topic.add(DispatchConsumer("b", "b", 0, (KeyRange(50, 60),)), 0)
    assert topic.consumers == [first]


def test_the_keys_of_a_consumer_that_leaves_go_to_others_at_once():
    topic = NonPersistentKeyShared(SETTINGS)
    first, _ = add(topic, "a"), add(topic, "b")
    topic.remove(first, 0)
    topic.remove(first, 0)
    assert given_out(topic, run_of(*[1] * 4, hashes=[1, 20_000, 40_000, 60_000])) == ({"b": [0, 1, 2, 3]}, 0)


def test_key_shared_needs_key_hashes():
    topic = NonPersistentKeyShared(SETTINGS)
    add(topic, "a")
    with pytest.raises(ValueError, match="key hashes"):
        topic.give(FactsRun(0, 0, [1], [10]))


# -- all kinds, under anything that may happen

MAKE = {
    "exclusive": lambda: NonPersistentExclusive(SETTINGS, failover=True, topic="t", partition=0),
    "shared": NonPersistentShared,
    "key_shared": lambda: NonPersistentKeyShared(SETTINGS),
}
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 2)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("flow"), st.integers(0, 9), st.integers(0, 20)),
        st.tuples(st.just("writable"), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("give"), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 65_535)), min_size=1)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("kind", list(MAKE))
@given(steps=steps)
def test_each_message_goes_to_one_consumer_that_may_have_it_or_is_dropped(kind, steps):
    topic, added, expected = MAKE[kind](), [], defaultdict(int)
    for step, *details in steps:
        if step == "add":
            added.append(DispatchConsumer(len(added), str(len(added)), details[0]))
            topic.add(added[-1], 0)
        elif step == "give":
            _check_handout(kind, topic, details[0], expected)
        elif added:
            consumer = added[details[0] % len(added)]
            if step == "remove":
                topic.remove(consumer, 0)
            elif step == "writable":
                consumer.writable = details[1]
                topic.written()
            elif consumer in topic.consumers:
                topic.flow(consumer, details[1])
                expected[consumer] += details[1]
    assert all(consumer.permits == expected[consumer] for consumer in added)


def _check_handout(kind, topic, entries, expected):
    run = run_of(*[messages for messages, _ in entries], hashes=[hashed for _, hashed in entries])
    before = {consumer: consumer.permits for consumer in topic.consumers}
    handout = topic.give(run)
    given_to = Counter(index for each in handout.deliveries for index in each.indexes)
    assert all(times == 1 for times in given_to.values())
    assert sum(run.messages[index] for index in given_to) + handout.dropped == sum(run.messages)
    for each in handout.deliveries:
        consumer, own = each.consumer, [run.messages[index] for index in each.indexes]
        assert consumer in topic.consumers
        assert consumer.writable
        assert sum(own[:-1]) < before[consumer], "only the last batch may overshoot"
        assert list(each.indexes) == sorted(each.indexes)
        expected[consumer] -= sum(own)
    if kind != "key_shared" and handout.dropped:
        may = [c for c in topic.consumers if c.writable and c.permits > 0]
        assert not [c for c in may if kind == "shared" or c is topic.active]
