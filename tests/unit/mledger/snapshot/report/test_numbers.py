"""Numbers and labels of reports as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.report.numbers import (
    as_bytes,
    as_change,
    as_number,
    as_short,
    as_short_bytes,
    as_span,
    ticks_up_to,
)
from mledger.snapshot.report.plots import LABEL_LENGTH, fit_label


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 40, "3.0 TiB"), (1 << 72, "4096.0 EiB")]
)
def test_bytes(value, text):
    assert as_bytes(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (-5, "0 s"), (59, "59 s"), (3600, "1 h"), (3661, "1 h 1 min"), (90_000, "1 d 1 h"), (86_460, "1 d")],
)
def test_durations_have_their_two_largest_units(seconds, text):
    assert as_span(seconds) == text


def test_counts():
    assert as_number(1234567) == "1,234,567"


def test_a_long_label_keeps_its_ends():
    label = "tenant/" + "x" * 100 + " subscription"
    found = fit_label(label)
    assert (len(found) <= LABEL_LENGTH, found.startswith("tenant/"), found.endswith(" subscription")) == (
        True,
        True,
        True,
    )
    assert fit_label("short") == "short"


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (950, "950"), (1200, "1.2k"), (34_000_000, "34M")])
def test_short_numbers_for_axes(value, text):
    assert as_short(value) == text


def test_short_bytes_have_no_fraction_that_is_zero():
    assert (as_short_bytes(2048), as_short_bytes(1536)) == ("2 KiB", "1.5 KiB")


def test_a_change_has_its_sign():
    assert [as_change(value, "5") for value in (5, -5, 0)] == ["+5", "\N{MINUS SIGN}5", "5"]


@pytest.mark.parametrize(
    ("largest", "ticks"), [(0, [0, 1]), (3, [0, 1, 2, 3]), (57, [0, 20, 40, 60]), (240, [0, 50, 100, 150, 200, 250])]
)
def test_ticks_are_round_and_reach_the_largest_value(largest, ticks):
    assert ticks_up_to(largest) == ticks


def test_ticks_of_bytes_are_round_in_their_unit():
    assert ticks_up_to(300 << 30, in_bytes=True) == [each << 30 for each in (0, 100, 200, 300)]


@given(st.integers(1, 1 << 63), st.booleans())
def test_ticks_are_few_and_reach_the_largest_value(largest, in_bytes):
    ticks = ticks_up_to(largest, in_bytes=in_bytes)
    assert 2 <= len(ticks) <= 7
    assert ticks[-2] < largest <= ticks[-1]
