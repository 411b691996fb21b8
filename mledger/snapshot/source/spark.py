"""The Spark data source `mledger`: loads each table of `tables.row_builder` by its name, read by Python workers.

The planning process reads only names and sizes. The workers read the nodes, decode them and build Arrow batches; they
need this package installed, and access to the store or the files.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    In,
    InputPartition,
)
from pyspark.sql.types import StructType

from mledger.snapshot.source.change_reader import log_files, plan_changes, read_change_batches
from mledger.snapshot.source.options import ReadOptions, parse_options
from mledger.snapshot.source.spark_stream import ChangeStreamReader, RangePartition
from mledger.snapshot.source.splits import Share
from mledger.snapshot.source.table_reader import check_here, plan_tables, read_share
from mledger.snapshot.tables.changes import CHANGES
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.tables.scope import TopicScope
from mledger.snapshot.zookeeper_files.errors import UnknownColumn, UnknownTable

_PUSHING_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_TABLES = {**TABLES, CHANGES.name: CHANGES}
_PUSHED = {"tenant": "tenants", "namespace": "namespaces", "topic": "topics"}


class SharePartition(InputPartition):  # type: ignore[misc]  # pyspark has no types here
    """A share, and how many znodes per second it may read."""

    def __init__(self, share: Share, rate: float | None) -> None:
        super().__init__(None)
        self.share = share
        self.rate = rate


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Reads some columns of one table."""

    def __init__(self, options: ReadOptions, table: str, columns: Sequence[str]) -> None:
        self.read_options = options
        self.table = table
        self.columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each share."""
        plan = plan_tables(self.read_options, [self.table])
        return [SharePartition(share, plan.rate) for share in plan.shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a share. If there is no share, Spark calls this with an empty partition of its own."""
        if isinstance(partition, SharePartition):
            wanted = {self.table: self.columns}
            for _, batch in read_share(self.read_options, partition.share, wanted, partition.rate):
                yield batch


class FilteringReader(TableReader):
    """A reader that takes filters, too. Spark refuses such a reader unless its configuration allows it."""

    def pushFilters(self, filters: Sequence[Any]) -> Iterator[Any]:  # noqa: N802  # Spark's name
        """Narrow what is read by tenant, namespace and topic; all filters are returned, so Spark applies them again."""
        self.read_options = self.read_options.within(scope_of(filters))
        yield from filters


class ChangeReader(DataSourceReader):  # type: ignore[misc]
    """Reads the table `changes` in one task, because each change needs what the ones before it left."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        log_files(options)
        self.read_options = options
        self.columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """One partition with all transactions."""
        return [RangePartition(plan_changes(self.read_options))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows."""
        assert isinstance(partition, RangePartition)
        yield from read_change_batches(self.read_options, partition.found, self.columns)


def scope_of(filters: Sequence[Any]) -> TopicScope:
    """The scope that these filters leave, if all hold; filters on other columns are ignored."""
    scope = TopicScope()
    for each in filters:
        if not isinstance(each, EqualTo | EqualNullSafe | In) or len(each.attribute) != 1:
            continue
        name = _PUSHED.get(each.attribute[0])
        values = each.value if isinstance(each, In) else [each.value]
        if name is not None and all(isinstance(value, str) for value in values):
            scope = scope.narrowed(**{name: frozenset(values)})
    return scope


class MledgerDataSource(DataSource):  # type: ignore[misc]
    """`spark.read.format("mledger").option("metadata", URL).load(TABLE)`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "mledger"

    def schema(self) -> str:
        """The table's schema. Raises UnknownTable, InvalidOption."""
        table, _ = _parse(self.options)
        return _TABLES[table].ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in `schema`. Raises UnknownTable, UnknownColumn, InvalidOption."""
        table, options = _parse(self.options)
        columns = check_columns(table, schema)
        if table == CHANGES.name:
            return ChangeReader(options, columns)
        return (FilteringReader if takes_filters() else TableReader)(options, table, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """A reader of the table `changes` as the logs grow. Raises UnknownTable, UnknownColumn, InvalidOption."""
        table, options = _parse(self.options)
        if table != CHANGES.name:
            raise UnknownTable(f"the table {table} cannot be read as a stream: only {CHANGES.name} can")
        return ChangeStreamReader(options, check_columns(table, schema))


def takes_filters() -> bool:
    """Whether Spark pushes filters to a reader of this process.

    Spark has a worker module for that. If `spark.sql.python.filterPushdown.enabled` is false, it plans with another
    module, which refuses readers that take filters.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING_WORKER in sys.modules or getattr(main, "name", None) == _PUSHING_WORKER


def check_columns(table: str, schema: StructType) -> list[str]:
    """The columns that a user's schema names; UnknownColumn if the table has no such column, or of another type."""
    columns = _TABLES[table].choose([field.name for field in schema.fields])
    for field, column in zip(schema.fields, columns, strict=True):
        given = field.dataType.simpleString()
        if given != column.sql_type:
            raise UnknownColumn(f"{table}.{column.name} has the type {column.sql_type}, not {given}")
        if not field.nullable:
            raise UnknownColumn(f"{table}.{column.name} may be null: leave out NOT NULL")
    return [column.name for column in columns]


def _parse(options: Mapping[str, str]) -> tuple[str, ReadOptions]:
    given = dict(options)
    table = given.pop("path", "")
    if not table:
        raise UnknownTable(f"no table given: load one of {', '.join(_TABLES)}")
    if table not in _TABLES:
        raise UnknownTable(f"there is no table {table!r}: load one of {', '.join(_TABLES)}")
    parsed = parse_options(given)
    check_here(parsed)
    return table, parsed
