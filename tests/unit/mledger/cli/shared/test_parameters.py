"""Positions and times as users write them on the command line."""

import click
import pytest

from mledger.cli.shared import parameters
from mledger.cli.shared.parameters import PlaceType, PropertyType, Time
from mledger.metastore.records.position import Position

NOON = 1_769_860_800_000  # 2026-01-31T12:00:00Z


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("5:7", Position(5, 7)),
        ("5:-1", Position(5, -1)),
        (str(NOON), Time(NOON)),
        ("2026-01-31T12:00:00Z", Time(NOON)),
        ("2026-01-31T12:00:00", Time(NOON)),
        ("2026-01-31 13:00+01:00", Time(NOON)),
        ("2026-01-31T12:00:00.250Z", Time(NOON + 250)),
        ("2026-01-31", Time(NOON - 12 * 3_600_000)),
    ],
)
def test_a_place_is_read(text, place) -> None:
    assert PlaceType().convert(text, None, None) == place


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("3d", 259_200), ("1w", 604_800)]
)
def test_a_place_may_be_so_long_ago(monkeypatch, text, seconds) -> None:
    monkeypatch.setattr(parameters, "wall_clock_ms", lambda: NOON)
    assert PlaceType().convert(text, None, None) == Time(NOON - seconds * 1000)


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "5:", "5:7:8", "2026-02-30", "12:60:00", "-5", str(2**62), "h", "-2h", "2 h", "2y", "9999999999w"],
)
def test_an_invalid_place_is_refused(text) -> None:
    with pytest.raises(click.BadParameter, match="is not a place"):
        PlaceType().convert(text, None, None)


def test_a_time_is_shown_as_it_may_be_written() -> None:
    assert str(Time(NOON + 7)) == "2026-01-31T12:00:00.007Z"


def test_a_property_that_is_not_unicode_text_is_refused() -> None:
    assert PropertyType().convert("größe=1=2", None, None) == ("größe", "1=2")
    with pytest.raises(click.BadParameter, match="is not Unicode text"):
        PropertyType().convert("key=\udcff", None, None)  # how Python passes a byte that is not UTF-8
