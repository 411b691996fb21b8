"""Exclusive and failover subscriptions: D1, D2, D4, D5, D8, D9, D10."""

import pytest
from msgspec.structs import replace

from mledger.broker.dispatch.consumer import ConsumerBusy
from mledger.broker.dispatch.dispatcher import ActiveNotice
from mledger.broker.dispatch.exclusive import ExclusiveDispatcher
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.facts import EntryFacts
from mledger.metastore.records.position import Position
from tests.support.brokers.driven_dispatcher import DrivenDispatcher, entries

SETTINGS = DispatchSettings(failover_delay_ms=1_000)


def driven(settings=SETTINGS, **options):
    return DrivenDispatcher(ExclusiveDispatcher(settings, **options))


def test_a_consumer_gets_as_many_messages_as_it_has_permits():
    sub = driven()
    consumer = sub.consumer("a", permits=3)
    sub.publish(1, 1, 1, 1, 1)
    assert entries(sub.pump()) == [0, 1, 2]
    sub.dispatcher.flow(consumer, 1)
    assert entries(sub.pump()) == [3]
    assert consumer.permits == 0


def test_the_last_batch_may_overshoot_the_permits():
    sub = driven()
    consumer = sub.consumer("a", permits=5)
    sub.publish(4, 4, 4)
    assert entries(sub.pump()) == [0, 1]
    assert consumer.permits == -3
    sub.dispatcher.flow(consumer, 3)
    assert sub.pump() == []
    sub.dispatcher.flow(consumer, 1)
    assert entries(sub.pump()) == [2]


def test_what_permits_leave_over_is_read_again():
    sub = driven()
    sub.consumer("a", permits=2)
    sub.publish(2, 2)
    sub.begin_read()
    assert sub.end_read().read_from == Position(7, 1)


def test_reads_come_to_know_the_average_batch():
    sub = driven()
    consumer = sub.consumer("a", permits=50)
    sub.publish(*[50] * 20)
    sub.pump()
    sub.dispatcher.flow(consumer, 100)
    assert sub.begin_read().entries == 2


def test_a_second_consumer_of_an_exclusive_subscription_is_refused():
    sub = driven()
    sub.consumer("a")
    with pytest.raises(ConsumerBusy, match="'a'"):
        sub.consumer("b")
    assert [c.name for c in sub.dispatcher.consumers] == ["a"]


def test_one_normal_read_is_in_flight_at_a_time():
    sub = driven()
    sub.consumer("a", permits=10)
    sub.publish(1)
    assert sub.begin_read() is not None
    assert sub.begin_read() is None
    sub.end_read()
    assert sub.begin_read() is not None


def test_the_first_read_begins_at_the_first_entry_not_acknowledged():
    sub = driven()
    sub.consumer("a", permits=10)
    assert sub.begin_read().rewind
    sub.end_read()
    assert not sub.begin_read().rewind


def test_redelivery_drops_the_read_in_flight_and_reads_again():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1, 1)
    sub.begin_read()
    sub.dispatcher.redeliver(consumer, None, epoch=3)
    assert sub.begin_read() is None
    assert sub.end_read().deliveries == ()
    assert consumer.epoch == 3
    assert consumer.permits == 10
    assert entries(sub.pump()) == [0, 1]


def test_redelivery_of_single_entries_redelivers_all_in_order():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    positions = sub.publish(1, 1, 1)
    sub.pump()
    sub.acknowledge(consumer, positions[0])
    sub.dispatcher.redeliver(consumer, [positions[2]])
    assert entries(sub.pump()) == [1, 2]


def gathered(*names):
    """A failover subscription whose consumers, each with permits, have waited for others."""
    sub = driven(failover=True, partition=0)
    for name in names:
        sub.consumer(name, permits=10)
    sub.now_ms = 1_000
    return sub


def test_only_the_active_consumer_has_entries_redelivered():
    sub = gathered("a", "b")
    _, other = sub.dispatcher.consumers
    sub.publish(1)
    sub.pump()
    sub.dispatcher.redeliver(other, None)
    assert sub.pump() == []


def test_a_new_active_consumer_waits_for_the_failover_delay_and_reads_what_is_not_acknowledged():
    sub = gathered("a")
    (first,) = sub.dispatcher.consumers
    positions = sub.publish(1, 1, 1)
    assert entries(sub.pump()) == [0, 1, 2]
    second = sub.consumer("b", permits=10)
    sub.dispatcher.remove(first, sub.now_ms)
    assert sub.pump() == []
    assert sub.dispatcher.wake_at(sub.now_ms) == 2_000
    sub.acknowledge(first, positions[0])
    sub.now_ms = 2_000
    assert sub.dispatcher.notices(sub.now_ms) == [ActiveNotice(second, True)]
    assert entries(sub.pump()) == [1, 2]
    assert {one.consumer for one in sub.sent[3:]} == {"b"}


def test_the_first_consumer_of_a_failover_subscription_waits_for_the_one_that_stays_active():
    """After a restart they come back one by one: what the first was sent at once came again to the active one."""
    sub = driven(failover=True, partition=1)
    sub.publish(1)
    first = sub.consumer("a", permits=1)
    assert sub.pump() == []
    assert sub.dispatcher.notices(0) == []
    assert sub.dispatcher.wake_at(0) == 1_000
    sub.now_ms = 500
    second = sub.consumer("b", permits=1)
    assert sub.dispatcher.notices(500) == []
    sub.now_ms = 1_000
    assert sub.dispatcher.notices(1_000) == [ActiveNotice(first, False), ActiveNotice(second, True)]
    assert entries(sub.pump()) == [0]
    assert sub.by_consumer() == {"b": [0]}


def test_the_first_of_them_waits_again_once_all_had_left():
    sub = gathered("a")
    sub.dispatcher.notices(sub.now_ms)
    (first,) = sub.dispatcher.consumers
    sub.publish(1)
    assert entries(sub.pump()) == [0]
    sub.dispatcher.remove(first, sub.now_ms)
    sub.consumer("b", permits=1)
    assert sub.pump() == []
    sub.now_ms += 1_000
    assert entries(sub.pump()) == [0]


def back_after_a_seek(*names, returning=("a", "b")):
    """A failover subscription whose consumers were closed, and which of them came back, each with permits."""
    sub = driven(failover=True, partition=1, returning=returning)
    sub.publish(1, 1)
    return sub, [sub.consumer(name, permits=10) for name in names]


def test_nobody_is_served_until_all_consumers_are_back():
    sub, (early,) = back_after_a_seek("a")
    assert sub.pump() == []
    assert sub.dispatcher.notices(0) == []
    sub.now_ms = 999
    late = sub.consumer("b", permits=10)
    assert sub.dispatcher.notices(999) == [ActiveNotice(early, False), ActiveNotice(late, True)]
    assert entries(sub.pump()) == [0, 1]
    assert sub.by_consumer() == {"b": [0, 1]}


def test_a_consumer_that_does_not_come_back_is_waited_for_as_long_as_the_failover_delay():
    sub, (early,) = back_after_a_seek("a")
    assert sub.dispatcher.wake_at(0) == sub.dispatcher.wake_at(999) == 1_000
    sub.now_ms = 1_000
    assert sub.dispatcher.notices(1_000) == [ActiveNotice(early, True)]
    assert entries(sub.pump()) == [0, 1]


@pytest.mark.parametrize("told", [False, True], ids=["the wait's end is told late", "the wait is over"])
def test_one_that_comes_back_when_others_were_served_takes_over_after_the_failover_delay(told):
    sub, _ = back_after_a_seek("a", returning=("a", "b", "c"))
    sub.now_ms = 1_000
    if told:
        sub.dispatcher.notices(1_000)
    assert entries(sub.pump()) == [0, 1]
    sub.consumer("b", permits=10)
    sub.now_ms = 1_999
    sub.consumer("c", permits=10)
    assert sub.pump() == []
    sub.now_ms = 2_000
    assert entries(sub.pump()) == [0, 1]
    assert sub.by_consumer() == {"a": [0, 1], "b": [0, 1]}


def test_one_that_leaves_during_the_wait_and_comes_again_waits_no_longer_than_the_rest_of_it():
    """A client that polls, each time for less than the delay, would else get nothing for good."""
    sub, (first,) = back_after_a_seek("a")
    sub.now_ms = 900
    sub.dispatcher.remove(first, 900)
    second = sub.consumer("a", permits=10)
    assert sub.dispatcher.wake_at(900) == 1_000
    assert sub.pump() == []
    sub.dispatcher.remove(second, 900)
    sub.now_ms = 1_500
    third = sub.consumer("a", permits=10)
    assert sub.dispatcher.notices(1_500) == [ActiveNotice(third, True)]
    assert entries(sub.pump()) == [0, 1]


def test_a_consumer_that_was_the_only_one_is_served_when_it_is_back():
    sub, (only,) = back_after_a_seek("a", returning=("a",))
    assert sub.dispatcher.notices(0) == [ActiveNotice(only, True)]
    assert entries(sub.pump()) == [0, 1]


def test_strangers_are_not_who_is_waited_for():
    sub, _ = back_after_a_seek("a", "x")
    assert sub.pump() == []
    sub.consumer("b", permits=10)
    assert sub.by_consumer() == {}
    assert entries(sub.pump()) == [0, 1]
    assert sub.by_consumer() == {"b": [0, 1]}


def test_the_consumer_of_an_exclusive_subscription_waits_for_nobody():
    sub = driven(returning=("a", "b"))
    sub.consumer("a", permits=10)
    sub.publish(1)
    assert entries(sub.pump()) == [0]


def test_a_newcomer_that_changes_nothing_learns_that_it_is_not_active():
    sub = gathered("a")
    sub.dispatcher.notices(1_000)
    newcomer = sub.consumer("b")
    assert sub.dispatcher.notices(1_000) == [ActiveNotice(newcomer, False)]
    assert sub.dispatcher.notices(1_000) == []


def test_a_newcomer_of_a_better_priority_takes_over_and_all_learn_it():
    sub = driven(failover=True, partition=0)
    old = sub.consumer("a", permits=10, priority=1)
    sub.now_ms = 1_000
    sub.dispatcher.notices(1_000)
    new = sub.consumer("b", permits=10, priority=0)
    assert sub.dispatcher.notices(1_999) == []
    assert sub.dispatcher.notices(2_000) == [ActiveNotice(old, False), ActiveNotice(new, True)]


def test_exclusive_subscriptions_have_no_notices():
    sub = driven()
    sub.consumer("a")
    assert sub.dispatcher.notices(0) == []


def test_a_reader_of_key_ranges_gets_their_entries_only():
    sub = driven()
    consumer = sub.consumer("a", permits=10, key_ranges=[KeyRange(1, 100)])
    sub.publish(*(EntryFacts(1, 10, key_hash) for key_hash in (50, 500, 100, 101)))
    assert entries(sub.pump()) == [0, 2]
    assert consumer.permits == 8


def test_a_consumer_that_is_not_writable_gets_one_entry():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    consumer.writable = False
    sub.publish(1, 1, 1)
    sub.begin_read()
    assert sub.reads[-1].entries == 1


def test_a_failed_read_is_tried_again_after_a_pause_with_the_least_batch():
    sub = driven(replace(SETTINGS, failure_backoff_ms=15_000))
    sub.consumer("a", permits=1_000)
    read = sub.begin_read()
    sub.dispatcher.failed_read(read, sub.now_ms)
    assert sub.begin_read() is None
    assert sub.dispatcher.wake_at(0) == 15_000
    sub.now_ms = 15_000
    assert sub.begin_read().entries == 1


def test_a_rate_of_messages_bounds_what_is_read():
    sub = driven(limiters=[DispatchRateLimiter(messages=3)])
    sub.consumer("a", permits=100)
    sub.publish(*[1] * 10)
    assert entries(sub.pump()) == [0, 1, 2]
    assert sub.dispatcher.wake_at(0) == 334
    sub.now_ms = 1_000
    assert entries(sub.pump()) == [3, 4, 5]


def test_cursors_without_backlog_are_not_limited_unless_told():
    for throttled, count in ((False, 10), (True, 3)):
        sub = driven(replace(SETTINGS, throttle_without_backlog=throttled), limiters=[DispatchRateLimiter(messages=3)])
        sub.tailing = True
        sub.consumer("a", permits=100)
        sub.publish(*[1] * 10)
        assert len(sub.pump()) == count


def test_a_read_that_is_not_in_flight_is_an_error():
    sub = driven()
    sub.consumer("a", permits=1)
    read = sub.begin_read()
    sub.end_read()
    with pytest.raises(ValueError, match="not in flight"):
        sub.dispatcher.dispatch(read, [], 0)
