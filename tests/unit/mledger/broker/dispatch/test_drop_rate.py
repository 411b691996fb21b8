"""The rate of dropped messages: D12."""

import pytest

from mledger.broker.dispatch.drop_rate import WINDOW_MS, DropRate

BEGIN = 1_000 * WINDOW_MS


def test_drops_are_counted_and_their_rate_is_that_of_a_minute():
    drops = DropRate()
    drops.add(60, BEGIN)
    drops.add(60, BEGIN + 1)
    assert drops.dropped == 120
    assert drops.per_second(BEGIN + 2) == 2.0


def test_of_the_minute_before_the_part_within_the_last_minute_counts():
    drops = DropRate()
    drops.add(120, BEGIN)
    assert drops.per_second(BEGIN + WINDOW_MS * 5 // 4) == pytest.approx(1.5)
    drops.add(60, BEGIN + WINDOW_MS * 3 // 2)
    assert drops.per_second(BEGIN + WINDOW_MS * 3 // 2) == pytest.approx(2.0)


def test_the_rate_ends_with_the_minutes_and_the_count_stays():
    drops = DropRate()
    drops.add(120, BEGIN)
    assert drops.per_second(BEGIN + 2 * WINDOW_MS) == 0.0
    assert drops.per_second(BEGIN + 900 * WINDOW_MS) == 0.0
    assert drops.dropped == 120


def test_a_clock_that_goes_back_makes_no_rate_higher():
    drops = DropRate()
    drops.add(60, BEGIN)
    drops.add(60, BEGIN + WINDOW_MS)
    assert drops.per_second(BEGIN - 50 * WINDOW_MS) == 2.0
