"""Limits of unacknowledged messages in shared subscriptions (D1)."""

from msgspec.structs import replace

from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.shared import SharedDispatcher
from mledger.broker.dispatch.waiting.unacked_limit import BrokerUnackedLimit
from tests.support.brokers.driven_dispatcher import DrivenDispatcher, at, entries

SETTINGS = DispatchSettings(max_round_robin_batch=2)


def driven(settings=SETTINGS, **options):
    return DrivenDispatcher(SharedDispatcher(settings, **options))


def test_a_consumer_with_too_many_unacknowledged_messages_is_blocked_until_half_of_them():
    sub = driven(replace(SETTINGS, max_unacked_per_consumer=4))
    consumer = sub.consumer("a", permits=100)
    sub.publish(*[1] * 10)
    assert entries(sub.pump()) == [0, 1, 2, 3]
    assert (consumer.blocked, consumer.permits) == (True, 96)
    sub.acknowledge(consumer, *at(0))
    assert sub.pump() == []
    sub.acknowledge(consumer, *at(1))
    assert entries(sub.pump()) == [4, 5]


def test_a_blocked_consumer_is_sent_again_what_it_gives_back():
    sub = driven(replace(SETTINGS, max_unacked_per_consumer=4))
    consumer = sub.consumer("a", permits=100)
    sub.publish(*[1] * 10)
    sub.pump()
    sub.dispatcher.redeliver(consumer, at(1))
    assert entries(sub.pump()) == [1]
    assert consumer.blocked


def test_a_consumer_above_its_limit_is_sent_again_what_it_gives_back():
    sub = driven(replace(SETTINGS, max_unacked_per_consumer=4))
    consumer = sub.consumer("a", permits=100)
    sub.publish(1, 6)
    sub.pump()
    sub.dispatcher.redeliver(consumer, at(0))
    assert (consumer.unacked, consumer.blocked) == (6, False)
    assert entries(sub.pump()) == [0]
    assert (consumer.unacked, consumer.blocked) == (7, True)


def test_a_changed_limit_of_a_consumer_holds_for_what_it_has_already():
    sub = driven()
    consumer = sub.consumer("a", permits=100)
    sub.publish(*[1] * 4)
    sub.pump()
    sub.dispatcher.configure(replace(SETTINGS, max_unacked_per_consumer=4))
    assert consumer.blocked
    sub.publish(1)
    assert not sub.pump()
    sub.dispatcher.configure(replace(SETTINGS, max_unacked_per_consumer=0))
    assert entries(sub.pump()) == [4]


def test_a_changed_limit_of_the_subscription_holds_for_what_its_consumers_have_already():
    sub = driven()
    sub.consumer("a", permits=100)
    sub.publish(*[1] * 4)
    sub.pump()
    sub.dispatcher.configure(replace(SETTINGS, max_unacked_per_subscription=4))
    sub.publish(1)
    assert not sub.pump()
    sub.dispatcher.configure(replace(SETTINGS, max_unacked_per_subscription=8))
    assert entries(sub.pump()) == [4]


def test_a_flow_to_a_blocked_consumer_is_kept():
    sub = driven(replace(SETTINGS, max_unacked_per_consumer=2))
    consumer = sub.consumer("a", permits=2)
    sub.publish(*[1] * 4)
    sub.pump()
    sub.dispatcher.flow(consumer, 2)
    assert sub.pump() == []
    sub.acknowledge(consumer, *at(0, 1))
    assert entries(sub.pump()) == [2, 3]


def test_a_subscription_with_too_many_unacknowledged_messages_only_replays():
    sub = driven(replace(SETTINGS, max_unacked_per_subscription=4))
    first = sub.consumer("a", permits=4)
    sub.publish(*[1] * 8)
    sub.pump()
    second = sub.consumer("b", permits=10)
    assert sub.pump() == []
    sub.dispatcher.redeliver(first, at(3))
    assert entries(sub.pump()) == [3]
    sub.acknowledge(first, *at(0, 1))
    assert entries(sub.pump()) == [4, 5]
    assert second.unacked == 3


def test_a_broker_with_too_many_unacknowledged_messages_holds_the_largest_subscriptions():
    limit = BrokerUnackedLimit(10, share=0.4)
    large, small = driven(broker_limit=limit), driven(broker_limit=limit)
    consumer, other = large.consumer("a", permits=9), small.consumer("b", permits=1)
    large.publish(*[1] * 20)
    small.publish(*[1] * 20)
    large.pump()
    small.pump()
    large.dispatcher.flow(consumer, 10)
    small.dispatcher.flow(other, 1)
    assert large.pump() == []
    assert entries(small.pump()) == [1]
    assert large.dispatcher.wake_at(0) == 100
    large.acknowledge(consumer, *at(*range(6)))
    assert len(large.pump()) == 10
