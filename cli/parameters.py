"""Positions, cursor starts and properties as they are written on the command line."""

import click

from metastore.position import Position
from mledger.cursor_recovery import Start

Properties = tuple[tuple[str, str], ...]


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
        return key, text
