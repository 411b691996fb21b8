"""How often a consumer may subscribe in a period."""

import pytest

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.topics.subscriptions.subscribe_limiter import SubscribeLimiter, Subscriber
from mledger.metastore.cluster.service_policies import ThrottleRate

ONE, OTHER = Subscriber("10.0.0.1", "c", 0), Subscriber("10.0.0.1", "c", 1)
TWICE = ThrottleRate(2, period_s=10)


def is_refused(limiter, rate, now_ms, subscriber=ONE):
    try:
        limiter.take(subscriber, rate, now_ms)
    except BrokerRefusal:
        return True
    return False


def test_each_consumer_has_its_own_count_which_begins_anew_in_each_period():
    limiter = SubscribeLimiter()
    assert [is_refused(limiter, TWICE, 100_000) for _ in range(3)] == [False, False, True]
    assert not is_refused(limiter, TWICE, 100_000, OTHER)
    assert is_refused(limiter, TWICE, 109_999)
    assert not is_refused(limiter, TWICE, 110_000)


@pytest.mark.parametrize("messages", [0, -1])
def test_no_positive_number_is_no_limit_and_forgets_what_was_counted(messages):
    limiter = SubscribeLimiter()
    for _ in range(2):
        limiter.take(ONE, TWICE, 0)
    assert not any(is_refused(limiter, ThrottleRate(messages), 0) for _ in range(9))
    assert not is_refused(limiter, TWICE, 0)


def test_a_clock_that_goes_back_begins_a_new_period():
    limiter = SubscribeLimiter()
    for _ in range(2):
        limiter.take(ONE, TWICE, 100_000)
    assert not is_refused(limiter, TWICE, 50_000)
