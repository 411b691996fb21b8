"""A rate is kept by waits before something of known size, or after it."""

import pytest

from mledger.metastore.runtime.rate_limiter import RateLimiter


def test_a_pause_before_admits_so_many_per_second():
    limiter = RateLimiter(100.0)
    waits = [limiter.pause_before(10, 5.0) for _ in range(11)]
    assert waits[0] == 0
    assert waits[-1] == pytest.approx(1.0)
    assert limiter.pause_before(10, 60.0) == 0


def test_a_pause_after_compensates_for_what_was_read():
    limiter = RateLimiter(100.0)
    assert limiter.pause_after(50, now=10.0) == 0.5
    assert limiter.pause_after(50, now=10.5) == 0.5
    assert limiter.pause_after(25, now=20.0) == 0.25


def test_without_a_rate_nothing_waits():
    limiter = RateLimiter()
    assert [limiter.pause_before(1 << 40, 1.0) for _ in range(2)] == [0, 0]
    assert limiter.pause_after(1 << 40, 1.0) == 0
