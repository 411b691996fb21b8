"""What a table is: its columns, each with a type, a meaning and a function of the row; and rows as Arrow batches.

A column is built for a whole batch at once, and only if it is requested. A value that all rows of one record share is
computed once for them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, compress
from operator import is_not
from typing import Any, Generic, TypeVar

import pyarrow as pa

from mledger.snapshot.zookeeper_files.errors import UnknownColumn

R = TypeVar("R")

TEXT = pa.string()
LONG = pa.int64()
INT = pa.int32()
FLAG = pa.bool_()
BYTES = pa.binary()
TIME = pa.timestamp("us", "UTC")
_MILLISECONDS = pa.timestamp("ms", "UTC")
LARGEST_MS = ((1 << 63) - 1) // 1000
"""A column has only times that are nearer to 1970 than this."""
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
    """A column: its name, type, meaning, and its value in a row. Times are ms since 1970 or None, maps are dicts.

    If `given` returns None for a row, the column is null and `of` is not called. If `shared`, `of` and `given` take the
    row's record (`Table.record_of`) instead of the row.
    """

    name: str
    type: pa.DataType
    doc: str
    of: Callable[[Any], Any]
    given: Callable[[Any], Any] | None = None
    shared: bool = False

    @property
    def sql_type(self) -> str:
        """The type's name in SQL."""
        return _SQL_NAMES[self.type]

    def array(self, rows: Sequence[Any]) -> pa.Array:
        """The column of these rows, or records."""
        if self.given is None:
            return array_of(list(map(self.of, rows)), self.type)
        given = [each is not None for each in map(self.given, rows)]
        if not any(given):
            return pa.nulls(len(rows), self.type)
        return array_of(
            [self.of(row) if is_given else None for row, is_given in zip(rows, given, strict=True)], self.type
        )


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values as an array: as `pa.array`, but faster for times in ms, lists and maps."""
    if kind is TIME:
        return pa.array(values, _MILLISECONDS).cast(TIME)
    if kind in (TEXTS, LONGS):
        flat = list(chain.from_iterable(filter(None, values)))
        return pa.ListArray.from_arrays(_offsets(values), pa.array(flat, kind.value_type), type=kind)
    if kind in (TEXT_MAP, LONG_MAP):
        full = list(filter(None, values))
        keys = pa.array(list(chain.from_iterable(full)), kind.key_type)
        items = pa.array(list(chain.from_iterable(map(dict.values, full))), kind.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind)
    return pa.array(values, kind)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """The offset of each value, and the end of the last; null for a value that is None."""
    ends: list[int | None] = list(accumulate([len(value) if value else 0 for value in values], initial=0))
    for index, value in enumerate(values):
        if value is None:
            ends[index] = None
    return pa.array(ends, pa.int32())


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """A table: what one row is, and its columns in order.

    `record_of` returns a row's record, for tables with several rows per record.
    """

    name: str
    doc: str
    columns: tuple[Column[R], ...]
    record_of: Callable[[R], Any] | None = None

    @property
    def schema(self) -> pa.Schema:
        """All columns, each of which may be null."""
        return self.schema_of(None)

    @property
    def ddl(self) -> str:
        """The schema in SQL."""
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
        return pa.RecordBatch.from_arrays(self._arrays(rows, columns), schema=schema)

    def _arrays(self, rows: Sequence[R], columns: Sequence[Column[R]]) -> list[pa.Array]:
        if self.record_of is None or not any(column.shared for column in columns):
            return [column.array(rows) for column in columns]
        of_rows = list(map(self.record_of, rows))
        changes = list(map(is_not, of_rows[1:], of_rows))
        records = [*of_rows[:1], *compress(of_rows[1:], changes)]
        place = pa.array(list(accumulate(changes, initial=0))[: len(rows)], pa.int32())
        return [column.array(records).take(place) if column.shared else column.array(rows) for column in columns]


def tables_by_name(*tables: Table[Any]) -> Mapping[str, Table[Any]]:
    """The tables by name, in this order."""
    return {table.name: table for table in tables}
