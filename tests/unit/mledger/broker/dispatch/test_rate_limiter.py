"""Dispatch rates: D5."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter


def test_nothing_given_is_no_limit():
    for none in (None, 0, -1):
        limiter = DispatchRateLimiter(none, none)
        limiter.take(1_000_000, 1 << 40)
        assert (limiter.messages_left(0), limiter.bytes_left(0), limiter.free_at_ms(7)) == (None, None, 7)


def test_a_debt_is_paid_before_more_goes_out():
    limiter = DispatchRateLimiter(messages=10)
    limiter.take(30, 0)
    assert limiter.free_at_ms(0) == 2_100
    assert limiter.messages_left(2_000) == 0
    assert limiter.messages_left(2_100) == 1


def test_what_was_not_used_is_saved_for_one_period_only():
    limiter = DispatchRateLimiter(messages=10)
    limiter.take(10, 0)
    assert limiter.messages_left(60_000) == 10


def test_bytes_and_messages_are_limited_apart():
    limiter = DispatchRateLimiter(messages=10, size=1_000)
    limiter.take(1, 2_000)
    assert limiter.messages_left(0) == 9
    assert limiter.bytes_left(0) == 0
    assert limiter.free_at_ms(0) == 1_001


def test_a_rate_can_be_for_a_longer_period():
    limiter = DispatchRateLimiter(messages=1, period_ms=60_000)
    limiter.take(1, 0)
    assert limiter.free_at_ms(0) == 60_000


def test_a_period_must_be_positive():
    with pytest.raises(ValueError, match="must be positive"):
        DispatchRateLimiter(1, period_ms=0)


@given(st.integers(1, 1_000), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 50)), max_size=40))
def test_no_more_than_the_rate_and_one_period_s_savings_goes_out(rate, steps):
    limiter = DispatchRateLimiter(messages=rate)
    now = taken = 0
    for wait, wanted in steps:
        now += wait
        count = min(wanted, limiter.messages_left(now))
        limiter.take(count, 0)
        taken += count
        assert taken <= rate + rate * now / 1_000 + 1e-6


@given(st.integers(1, 1_000), st.integers(0, 5_000), st.integers(0, 5_000))
def test_a_message_may_go_out_when_it_was_said(rate, debt, now):
    limiter = DispatchRateLimiter(messages=rate)
    limiter.take(debt, 0)
    at = limiter.free_at_ms(now)
    assert at >= now
    assert limiter.messages_left(at) >= 1
