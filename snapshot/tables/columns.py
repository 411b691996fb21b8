"""What a table is: its columns, each with type, meaning and how its value is had from a row; and rows as Arrow batches.

A column is built for a whole batch at once, and only if it was asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from snapshot.errors import UnknownColumn

R = TypeVar("R")

TEXT = pa.string()
LONG = pa.int64()
INT = pa.int32()
FLAG = pa.bool_()
BYTES = pa.binary()
TIME = pa.timestamp("us", "UTC")
TEXTS = pa.list_(pa.string())
LONGS = pa.list_(pa.int64())
TEXT_MAP = pa.map_(pa.string(), pa.string())
LONG_MAP = pa.map_(pa.string(), pa.int64())

_SQL_NAMES: dict[Any, str] = {
    TEXT: "string",
    LONG: "bigint",
    INT: "int",
    FLAG: "boolean",
    BYTES: "binary",
    TIME: "timestamp",
    TEXTS: "array<string>",
    LONGS: "array<bigint>",
    TEXT_MAP: "map<string,string>",
    LONG_MAP: "map<string,bigint>",
}


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """A column: its name, type, meaning, and its value in a row. Times are given in ms since 1970, None for none."""

    name: str
    type: pa.DataType
    doc: str
    of: Callable[[R], Any]

    @property
    def sql_type(self) -> str:
        """The type as SQL writes it."""
        return _SQL_NAMES[self.type]

    def array(self, rows: Sequence[R]) -> pa.Array:
        """The column of these rows."""
        values = list(map(self.of, rows))
        if self.type is TIME:
            values = [None if value is None else value * 1000 for value in values]
        return pa.array(values, self.type)


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A table: what one row is, and its columns in order."""

    name: str
    doc: str
    columns: tuple[Column[R], ...]

    @property
    def schema(self) -> pa.Schema:
        """All columns, each of which may be null."""
        return self.schema_of(None)

    @property
    def ddl(self) -> str:
        """The schema as SQL writes it."""
        return ", ".join(f"{column.name} {column.sql_type}" for column in self.columns)

    def schema_of(self, names: Sequence[str] | None) -> pa.Schema:
        """The columns `names`, in that order; None: all."""
        return pa.schema([(column.name, column.type) for column in self.choose(names)])

    def choose(self, names: Sequence[str] | None) -> tuple[Column[R], ...]:
        """The columns `names`, in that order; None: all. UnknownColumn."""
        if names is None:
            return self.columns
        known = {column.name: column for column in self.columns}
        missing = [name for name in names if name not in known]
        if missing:
            raise UnknownColumn(
                f"the table {self.name} has no column {', '.join(missing)}: its columns are {', '.join(known)}"
            )
        return tuple(known[name] for name in names)

    def batch(self, rows: Sequence[R], names: Sequence[str] | None = None) -> pa.RecordBatch:
        """These rows, with the columns `names` (None: all)."""
        columns = self.choose(names)
        schema = pa.schema([(column.name, column.type) for column in columns])
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays([column.array(rows) for column in columns], schema=schema)


def tables_by_name(*tables: Table[Any]) -> Mapping[str, Table[Any]]:
    """The tables by name, in this order."""
    return {table.name: table for table in tables}
