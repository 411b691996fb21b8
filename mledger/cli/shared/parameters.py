"""Positions, cursor starts, places, times and properties on the command line."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import click

from mledger.cursors.recovery import Start
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import utc_text, wall_clock_ms

Properties = tuple[tuple[str, str], ...]

_AGO = re.compile(r"(\d{1,10})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def check_property_options(properties: Properties, removed: Collection[str]) -> None:
    """Raise click.UsageError unless something is set or removed, and nothing is both."""
    if not properties and not removed:
        raise click.UsageError("nothing to set: give KEY=VALUE or --remove KEY")
    both = sorted(dict(properties).keys() & set(removed))
    if both:
        raise click.UsageError(f"cannot both set and remove {', '.join(both)}")


class PositionType(click.ParamType[Position]):
    """A position, LEDGER:ENTRY."""

    name = "position"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Position:
        """The position that `value` names."""
        try:
            return value if isinstance(value, Position) else Position.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class StartType(click.ParamType[Start]):
    """Where a new cursor starts: earliest, latest, or after a position."""

    name = "start"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """The start that `value` names."""
        if value == "earliest" or value == "latest":
            return value
        return PositionType().convert(value, param, ctx)


@dataclass(frozen=True, slots=True)
class Time:
    """A time, in ms since 1970."""

    ms: int

    def __str__(self) -> str:
        return utc_text(self.ms)


Place = Literal["earliest", "latest"] | Position | Time


class PlaceType(click.ParamType[Place]):
    """Where a cursor will read next: earliest, latest, a position, or a time."""

    name = "place"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """The place that `value` names; a time without an offset is UTC, a number is ms since 1970, 2h is 2 h ago."""
        if value == "earliest" or value == "latest" or isinstance(value, Position | Time):
            return value
        text = str(value)
        try:
            return Position.parse(text)
        except ValueError:
            pass
        try:
            return _time(text)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{text!r} is not a place: give earliest, latest, LEDGER:ENTRY, or a time (2026-01-31T12:00:00Z, ms "
                "since 1970, or how long ago: 90s, 30m, 2h, 3d, 1w)",
                param,
                ctx,
            )


def _time(text: str) -> Time:
    """The time; ValueError, OverflowError, OSError if it is none, or no calendar has it."""
    ago = _AGO.fullmatch(text)
    if ago is not None or text.isdecimal():
        found = Time(int(text) if ago is None else wall_clock_ms() - int(ago[1]) * _SECONDS[ago[2]] * 1000)
        str(found)
        return found
    at = datetime.fromisoformat(text)
    return Time(round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000))


class PropertyType(click.ParamType[tuple[str, str]]):
    """A property, KEY=VALUE."""

    name = "property"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The property's key and value."""
        if isinstance(value, tuple):
            return value
        key, separator, text = str(value).partition("=")
        if not key or not separator:
            self.fail(f"{value!r} is not a property: write it as KEY=VALUE", param, ctx)
        try:
            str(value).encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not Unicode text: a property's key and value are stored in UTF-8", param, ctx)
        return key, text
