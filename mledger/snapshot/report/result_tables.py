"""Results of queries as the tables of a page; pure."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from mledger.snapshot.report.numbers import as_bytes, as_change, as_number, as_span
from mledger.snapshot.sql.queries import Query

NAMES = ("tenant", "namespace", "topic", "managed_ledger")
"""Columns that the filter looks at."""
_BYTES = ("bytes", "disk_bytes", "length", "bytes_before", "bytes_change")


class Heading(Struct, frozen=True):
    """The head of a column."""

    text: str
    is_number: bool
    is_filtered: bool


class Cell(Struct, frozen=True):
    """A cell: its text, its number for sorting (None: no number), and the page it leads to."""

    text: str
    number: str | None = None
    link: str = ""


class ResultTable(Struct, frozen=True):
    """A query's result: its rows that are shown, and how many there are in all."""

    name: str
    title: str
    doc: str
    headings: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]
    total: int

    @property
    def count(self) -> str:
        """How many rows there are."""
        if not self.rows:
            return "none"
        more = f", the first {as_number(len(self.rows))} shown" if self.total > len(self.rows) else ""
        return f"{as_number(self.total)} in all{more}"


def result_table(
    query: Query, result: pa.Table, total: int, page_of: Callable[[str], str] | None = None
) -> ResultTable:
    """The table of a result; `page_of` gives the address of a namespace's page."""
    names = result.column_names
    numbers = [pa.types.is_integer(result.schema.field(name).type) for name in names]
    headings = [
        Heading(name.removesuffix("_s").replace("_", " "), number, name in NAMES)
        for name, number in zip(names, numbers, strict=True)
    ]
    columns = [
        [_cell(name, number, value, page_of) for value in column.to_pylist()]
        for name, number, column in zip(names, numbers, result.columns, strict=True)
    ]
    return ResultTable(query.name, query.title, query.doc, headings, list(zip(*columns, strict=True)), total)


def _cell(name: str, number: bool, value: Any, page_of: Callable[[str], str] | None) -> Cell:
    link = page_of(value) if page_of is not None and name == "namespace" else ""
    return Cell(_text(name, value), ("" if value is None else str(value)) if number else None, link)


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int) or name.endswith(("_id", "not_counted")):
        return str(value)
    if name.endswith("_change"):
        return as_change(value, as_bytes(abs(value)) if name in _BYTES else as_number(abs(value)))
    if name in _BYTES:
        return as_bytes(value)
    return as_span(value) if name.endswith("_s") else as_number(value)
