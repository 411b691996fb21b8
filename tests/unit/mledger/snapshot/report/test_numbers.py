"""Numbers and labels of reports as people read them."""

import pytest

from mledger.snapshot.report.numbers import as_bytes, as_number, as_span
from mledger.snapshot.report.plots import LABEL_LENGTH, shorten


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
    found = shorten(label)
    assert (len(found) <= LABEL_LENGTH, found.startswith("tenant/"), found.endswith(" subscription")) == (
        True,
        True,
        True,
    )
    assert shorten("short") == "short"
