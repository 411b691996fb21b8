"""Times as text: one form in every table, file and page."""

import pytest

from mledger.metastore.runtime.times import utc_text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_769_860_800_000, "2026-01-31T12:00:00.000Z"),
        (1_769_860_800_007, "2026-01-31T12:00:00.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_has_its_milliseconds_and_its_zone(ms: int, text: str) -> None:
    assert utc_text(ms) == text


def test_a_time_outside_the_calendar_is_an_error() -> None:
    with pytest.raises((ValueError, OverflowError, OSError)):
        utc_text(2**62)
