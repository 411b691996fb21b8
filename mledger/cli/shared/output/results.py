"""A command's results, as tables for people or in a format for programs (docs/reference/cli.md)."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from mledger.cli.shared.output.formats import FORMATS, Format
from mledger.cli.shared.output.plain_text import escaped, rate_text, seconds_text

if TYPE_CHECKING:
    from rich.progress import Progress

    from mledger.cli.shared.output.progress import HiddenProgress
    from mledger.metastore.records.position import Position

Scalar = str | int | float | bool | None
Value = Scalar | tuple["Value", ...] | Mapping[str, "Value"]
_LINE_ENDS = dict.fromkeys(map(ord, "\n\r\t"))
TABLE = "table"
OUTPUT_FORMATS = (TABLE, *FORMATS)
TIMES = frozenset({"closed_ms", "created_ms", "modified_ms", "since_ms"})  # ms since 1970 in JSON, dates for people

RATES = ("Rate", "Throughput", "averageMsgSize")
"""Words in keys of numbers that are exact in JSON, and rounded for people."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column or field: its JSON key and its heading, by default the key as words."""

    key: str
    heading: str = ""

    @property
    def title(self) -> str:
        """The heading for people."""
        key = self.key.removesuffix("_ms") if self.key in TIMES else self.key
        return self.heading or key.replace("_", " ")

    def as_text(self, value: Value) -> str:
        """A value of the column, as text for people."""
        if self.key in TIMES and isinstance(value, int):
            return seconds_text(value)
        if isinstance(value, float) and any(each in self.key for each in RATES):
            return rate_text(value)
        return as_text(value)


@dataclass(frozen=True, slots=True)
class OutputTable:
    """Rows of one kind; in JSON an array of objects."""

    key: str
    columns: tuple[OutputColumn, ...]
    rows: tuple[tuple[Value, ...], ...]

    def as_json(self) -> list[dict[str, Value]]:
        """The rows as JSON objects."""
        return [{column.key: value for column, value in zip(self.columns, row, strict=True)} for row in self.rows]


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """The description of one object: fields, then tables; in JSON one object."""

    fields: tuple[tuple[OutputColumn, Value], ...]
    tables: tuple[OutputTable, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The fields and tables as one JSON object; of two fields of a name the later, as a result after a plan.

        ValueError if a table has the name of a field or of another table: it would take its place.
        """
        found: dict[str, object] = {column.key: value for column, value in self.fields}
        for table in self.tables:
            if table.key in found:
                raise ValueError(f"the table {table.key!r} would replace what has this name already: rename one")
            found[table.key] = table.as_json()
        return found


def columns(*keys: str) -> tuple[OutputColumn, ...]:
    """Columns whose headings are their keys as words."""
    return tuple(OutputColumn(key) for key in keys)


def fields(**values: Value) -> tuple[tuple[OutputColumn, Value], ...]:
    """Fields whose headings are their keys as words."""
    return tuple((OutputColumn(key), value) for key, value in values.items())


class Output:
    """Shows results on stdout in one format, and progress on stderr if that is a terminal."""

    def __init__(self, output_format: str, stdout: TextIO | None = None) -> None:
        """Show results as `output_format`, one of OUTPUT_FORMATS; ValueError for any other."""
        if output_format not in OUTPUT_FORMATS:
            raise ValueError(f"{output_format!r} is not an output format: use one of {', '.join(OUTPUT_FORMATS)}")
        self._format: Format | None = FORMATS[output_format]() if output_format != TABLE else None
        self._stdout = stdout or sys.stdout

    @property
    def for_programs(self) -> bool:
        """Whether the format is for programs: it shows every field, and no other text."""
        return self._format is not None

    def table(self, table: OutputTable) -> None:
        """Show a table."""
        if self._format is None:
            self._print(table)
        else:
            self._write(self._format.rows([column.key for column in table.columns], table.as_json()))

    def record(self, record: OutputRecord) -> None:
        """Show a record."""
        if self._format is None:
            self._print(record)
        else:
            self._write(self._format.one(record.as_json()))

    def line(self, text: str) -> None:
        """Print a line for people; a no-op in a format for programs."""
        if self._format is None:
            click.echo(text)

    def item(self, keys: Sequence[str], value: Mapping[str, Value]) -> None:
        """Show the next object of a stream, with keys among `keys`; NDJSON if the format is a table."""
        self._write((self._format or _LINES).item(keys, value))

    def end(self, keys: Sequence[str]) -> None:
        """End a stream of objects with keys among `keys`: in CSV one without objects is its header."""
        if self._format is not None and (text := self._format.end(keys)):
            self._write(text)

    def progress(self, what: str, unit: str) -> "Progress | HiddenProgress":
        """A progress bar on stderr, shown only on a terminal; add one task with its total."""
        from mledger.cli.shared.output.progress import progress_bar

        return progress_bar(what, unit, wanted=not self.for_programs)

    def _write(self, text: str) -> None:
        click.echo(text, nl=False, file=self._stdout)

    def _print(self, shown: OutputTable | OutputRecord) -> None:
        from mledger.cli.shared.output.rich_tables import printed

        click.echo(printed(shown, self._stdout), file=self._stdout)


_LINES = FORMATS["ndjson"]()


def as_text(value: Value) -> str:
    """A value as text for people, without characters that a terminal would obey."""
    if value is None or value == "" or value == ():
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(as_text(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{escaped(key)}={as_text(item)}" for key, item in value.items()) or "-"
    return escaped(str(value))


def pairs(values: Iterable[tuple[str, str | int]]) -> Mapping[str, Value]:
    """Properties as a JSON object."""
    return dict(values)


def texts(values: Iterable[object]) -> tuple[str, ...]:
    """Positions, ranges and the like as text."""
    return tuple(str(value) for value in values)


def position_text(position: "Position", new_ledger: int | None) -> str:
    """The position; in `new_ledger`, which stands for a ledger that has no id yet, as `new:ENTRY`."""
    return f"new:{position.entry_id}" if position.ledger_id == new_ledger else str(position)


def readable(data: bytes) -> str:
    """Bytes for people: UTF-8 text without control characters except line ends, else hexadecimal."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data.hex()
    return text if not data or text.translate(_LINE_ENDS).isprintable() else data.hex()
