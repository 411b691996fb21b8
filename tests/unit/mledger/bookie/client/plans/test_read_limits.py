"""Reads that are limited by bytes."""

import pytest

from mledger.bookie.client.plans.read_limits import entries_within, is_enough, mean_size


@pytest.mark.parametrize(("size", "mean", "entries"), [(3000, 1000, 3), (2999, 1000, 2), (10, 1000, 1), (5, 0, 5)])
def test_as_many_entries_are_asked_for_as_have_the_size(size, mean, entries):
    assert entries_within(size, mean) == entries


@pytest.mark.parametrize(
    ("length", "last_entry", "mean"),
    [(0, -1, 1), (3000, 2, 1000), (2, 2, 0), (0, 2, 16384)],  # the last: closed by Java's recovery
)
def test_the_mean_is_that_of_the_length_or_assumed_where_entries_have_none(length, last_entry, mean):
    assert mean_size(length, last_entry) == mean


@pytest.mark.parametrize(
    ("entries", "size", "most", "enough"),
    [
        (0, 0, 1000, False),
        (0, 0, 0, False),
        (1, 1000, 1000, True),
        (10, 500, 1000, False),
        (2, 2000, 2999, True),  # an entry like these does not fit
        (2, 2000, 3000, False),
        (900, 880, 1000, True),  # an eighth is not worth a request
        (870, 870, 1000, False),
    ],
)
def test_a_read_ends_where_little_of_its_limit_is_left(entries, size, most, enough):
    assert is_enough(entries, size, most) == enough
