"""The broker's limit of unacknowledged messages: D1."""

from dataclasses import dataclass

from mledger.broker.dispatch.waiting.unacked_limit import BrokerUnackedLimit


@dataclass(eq=False)
class Subscription:
    unacked: int = 0


def sent(limit, subscription, messages):
    subscription.unacked += messages
    limit.add(messages)


def test_no_limit_holds_nobody():
    limit, subscription = BrokerUnackedLimit(0), Subscription()
    sent(limit, subscription, 1_000_000)
    assert not limit.holds(subscription)


def test_over_the_limit_those_with_a_share_are_held_until_half_is_left():
    limit, large, small = BrokerUnackedLimit(100, share=0.2), Subscription(), Subscription()
    sent(limit, small, 10)
    sent(limit, large, 90)
    assert (limit.holds(large), limit.holds(small)) == (True, False)
    sent(limit, large, -49)
    assert limit.holds(large)
    sent(limit, large, -1)
    assert not limit.holds(large)


def test_one_at_half_its_share_may_go_on_though_the_broker_is_over_its_limit():
    limit, large, other = BrokerUnackedLimit(100, share=0.2), Subscription(), Subscription()
    sent(limit, other, 90)
    sent(limit, large, 20)
    assert limit.holds(large)
    sent(limit, large, -9)
    assert limit.holds(large)
    sent(limit, large, -1)
    assert not limit.holds(large)
    assert limit.holds(other)


def test_one_without_consumers_is_not_held():
    limit, large = BrokerUnackedLimit(10, share=1.0), Subscription()
    sent(limit, large, 20)
    assert limit.holds(large)
    sent(limit, large, -12)
    assert limit.holds(large)
    limit.forget(large)
    assert not limit.holds(large)
