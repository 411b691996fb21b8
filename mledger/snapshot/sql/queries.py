"""Queries about snapshots, each an SQL file below `sql/`, run here by DuckDB, without a JVM, or by Spark.

The queries see the snapshot's tables by their names, `snapshot` (one row: name, time), and the same of an older
snapshot as `before_…`. They use only SQL that both engines understand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from msgspec import Struct
from pyarrow import dataset

from mledger.metastore.runtime.times import wall_clock_ms
from mledger.snapshot.exports.destination import Destination, hadoop_path
from mledger.snapshot.exports.directory import OnDamaged, find_snapshots, refuse_damaged
from mledger.snapshot.exports.errors import DestinationNotReadable, FormatNotInstalled, QueryTooLarge, UnknownQuery
from mledger.snapshot.exports.files import is_data
from mledger.snapshot.exports.manifest import Manifest
from mledger.snapshot.exports.selection import FoundSnapshot, plan_pair
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.file_access.file_systems import said

VIEWS = ("ledger_sizes", "acknowledged_above", "cursor_needs", "cursor_backlog", "topic_figures")
COMPARING_VIEWS = ("cursor_moves",)
BEFORE = "before_"
_INTERRUPTED = "Query interrupted"
"""What DuckDB's RuntimeError says in the place of a KeyboardInterrupt."""
_QUERIES = (
    "backlog",
    "held_bytes",
    "trim_gains",
    "storage_by_tenant",
    "storage_by_namespace",
    "orphan_ledgers",
    "dangling_references",
    "underreplicated_ledgers",
    "bookie_load",
    "most_holes",
    "stuck_cursors",
    "topics_without_subscriptions",
    "retention_without_effect",
)
_CHANGES = (
    "topics_appeared",
    "topics_vanished",
    "topics_moved",
    "cursors_appeared",
    "cursors_vanished",
    "cursors_back",
    "cursors_moved",
    "ledgers_appeared",
    "ledgers_deleted",
    "bookies_changed",
)


@dataclass(frozen=True, slots=True)
class Query:
    """A named query: its name, which is also that of its view, its title, its description, and its SQL."""

    name: str
    title: str
    doc: str
    sql: str

    @property
    def compares(self) -> bool:
        """Whether it compares the snapshot with an older one."""
        return BEFORE in self.sql or "cursor_moves" in self.sql


def load_query(kind: str, name: str) -> Query:
    """The query in `sql/KIND/NAME.sql`, whose first comments are its title and its description."""
    lines = files("mledger.snapshot").joinpath("sql", kind, f"{name}.sql").read_text("utf-8").splitlines()
    comments = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    return Query(name, comments[0], " ".join(comments[1:]), "\n".join(lines[len(comments) :]))


QUERIES: Mapping[str, Query] = {name: load_query("queries", name) for name in _QUERIES}
"""All queries by name, in the order of reports."""

CHANGES: Mapping[str, Query] = {name: load_query("changes", name) for name in _CHANGES}
"""The queries of `mledger snapshot diff`."""


class QueryResources(Struct, frozen=True):
    """What DuckDB may use: bytes of memory (None: 80 % of the machine's), and a directory for what exceeds them.

    Without a directory it uses one for temporary files (`TMPDIR`), and removes it.
    """

    memory: int | None = None
    spill: Path | None = None


class Snapshots:
    """A snapshot to query, and optionally an older one to compare it with."""

    def __init__(
        self,
        place: Destination,
        manifest: Manifest,
        before: tuple[Destination, Manifest] | None = None,
        resources: QueryResources = QueryResources(),  # noqa: B008  # immutable
    ) -> None:
        """Raises FormatNotInstalled, DestinationNotReadable."""
        try:
            import duckdb
        except ImportError:
            raise FormatNotInstalled("queries need the package duckdb: pip install 'mledger[report]'") from None
        self.manifest = manifest
        self.before = None if before is None else before[1]
        self._spill = TemporaryDirectory(prefix="mledger-spill-", dir=resources.spill, ignore_cleanup_errors=True)
        config = {"autoinstall_known_extensions": "false", "temp_directory": self._spill.name}
        if resources.memory is not None:
            config["memory_limit"] = f"{resources.memory}B"
        self._connection = duckdb.connect(config=config)
        self._connection.execute("create macro unix_seconds(t) as cast(floor(epoch(t)) as bigint)")
        self._register("", place, manifest)
        if before is not None:
            self._register(BEFORE, *before)
        for name in VIEWS:
            self._connection.execute(f"create view {name} as {load_query('views', name).sql}")
        for name in () if before is None else VIEWS:
            older = in_older_snapshot(load_query("views", name).sql)
            self._connection.execute(f"create view {BEFORE}{name} as {older}")
        for name in () if before is None else COMPARING_VIEWS:
            self._connection.execute(f"create view {name} as {load_query('views', name).sql}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()
        self._spill.cleanup()

    def ask(self, query: Query, limit: int | None = None) -> pa.Table:
        """The query's result, or its first `limit` rows.

        Raises UnknownQuery if it compares two snapshots and there is no older one, QueryTooLarge, and
        DestinationNotReadable if files of the snapshot are gone or damaged.
        """
        limited = f"select * from ({query.sql}) limit {limit}"  # noqa: S608  # a number
        return self._run(query, query.sql if limit is None else limited)

    def count(self, query: Query) -> int:
        """How many rows the query's result has; errors as `ask`."""
        (counted,) = self._run(query, f"select count(*) as rows from ({query.sql})").to_pylist()  # noqa: S608  # ours
        return int(counted["rows"])

    def keep_views(self, *names: str) -> None:
        """Compute these views once for all queries that follow, and those of the older snapshot. QueryTooLarge."""
        for name in (*names, *(() if self.before is None else (f"{BEFORE}{each}" for each in names))):
            with _within_limits(name):
                self._connection.execute(f"create temp table kept_{name} as select * from {name}")  # noqa: S608
            self._connection.execute(f"create or replace view {name} as select * from kept_{name}")  # noqa: S608

    def add_table(self, name: str, rows: pa.Table) -> None:
        """Let queries see these rows as a table."""
        self._connection.register(name, rows)

    def _run(self, query: Query, sql: str) -> pa.Table:
        if query.compares and self.before is None:
            raise UnknownQuery(f"{query.name} compares two snapshots: name an older one with --before")
        with _within_limits(query.name):
            return self._connection.sql(sql).to_arrow_table()

    def _register(self, prefix: str, place: Destination, manifest: Manifest) -> None:
        for table in TABLES:
            with _within_limits(table):
                files = _data_files(manifest, table)
                if place.local is not None and files and manifest.tables[table].schema == TABLES[table].ddl:
                    self._create_view(prefix, table, [str(place.local / path) for path in files])
                else:  # another version may lack columns: they are null
                    self._connection.register(f"{prefix}{table}", _dataset(place, table, files))
        self._connection.execute(
            f"create view {prefix}snapshot as select {_quoted(manifest.name)} as name, "
            f"make_timestamp({manifest.time_ms * 1000}) as time"
        )

    def _create_view(self, prefix: str, table: str, paths: Sequence[str]) -> None:
        source = f"read_parquet([{', '.join(map(_quoted, paths))}], hive_partitioning=false)"
        self._connection.execute(f"create view {prefix}{table} as select * from {source}")  # noqa: S608  # quoted


def open_snapshots(
    path: str,
    before: str | None = None,
    resources: QueryResources = QueryResources(),  # noqa: B008  # immutable
    on_damaged: OnDamaged = refuse_damaged,
) -> Snapshots:
    """The snapshot at a path, and the older one to compare it with; `on_damaged` is as for `find_snapshot`.

    Of directories of snapshots `plan_pair` chooses. Raises SnapshotNotFound, InvalidManifest, FormatNotInstalled.
    """
    chosen, older = plan_pair(*_found(path, before, on_damaged), wall_clock_ms())
    return Snapshots(*chosen, older, resources)


def query_named(name: str) -> Query:
    """The query of that name; UnknownQuery."""
    if name not in QUERIES:
        raise UnknownQuery(f"there is no query {name!r}: the queries are {', '.join(QUERIES)}")
    return QUERIES[name]


def in_older_snapshot(sql: str) -> str:
    """The same statement about the older snapshot: its tables and views have names that begin with `before_`."""
    names = "|".join((*TABLES, *VIEWS, "snapshot"))
    return re.sub(rf"\b(from|join)\s+({names})\b", rf"\1 {BEFORE}\2", sql)


def create_views(spark: Any, path: str, before: str | None = None) -> None:
    """Create temporary views in a Spark session of the snapshot's tables and of all queries.

    `path` is a snapshot's directory, or a directory of snapshots, of which `plan_pair` chooses; all executors must
    reach it. Queries that compare two snapshots get a view only if `before` names an older one. SnapshotNotFound.
    """
    chosen, older = plan_pair(*_found(path, before, refuse_damaged), wall_clock_ms())
    pairs = [("", *chosen)] + ([] if older is None else [(BEFORE, *older)])
    for prefix, place, manifest in pairs:
        for table in TABLES:
            paths = [hadoop_path(place, path) for path in _data_files(manifest, table)]
            frame = spark.read.parquet(*paths) if paths else spark.createDataFrame([], TABLES[table].ddl)
            frame.createOrReplaceTempView(f"{prefix}{table}")
        time = f"timestamp_millis({manifest.time_ms})"
        spark.sql(f"select '{manifest.name}' as name, {time} as time").createOrReplaceTempView(f"{prefix}snapshot")
    for name in VIEWS if before is None else (*VIEWS, *COMPARING_VIEWS):
        spark.sql(load_query("views", name).sql).createOrReplaceTempView(name)
    for query in (*QUERIES.values(), *(() if before is None else CHANGES.values())):
        if before is not None or not query.compares:
            spark.sql(query.sql).createOrReplaceTempView(query.name)


def _found(path: str, before: str | None, on_damaged: OnDamaged) -> tuple[list[FoundSnapshot], list[FoundSnapshot]]:
    """The snapshots at a path, and at that of the older one."""
    return find_snapshots(path, on_damaged), [] if before is None else find_snapshots(before, on_damaged)


def _data_files(manifest: Manifest, table: str) -> list[str]:
    """The files with the rows of a table; none if an earlier version, without that table, made the snapshot."""
    record = manifest.tables.get(table)
    return [] if record is None else [file.path for file in record.files if is_data(file.path)]


@contextmanager
def _within_limits(name: str) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        told = str(error).splitlines()[0]
        raise QueryTooLarge(f"{name} needs more memory or disk ({told}): see --memory and --spill") from None
    except (duckdb.IOException, duckdb.InvalidInputException, OSError, pa.ArrowException) as error:
        raise DestinationNotReadable(
            f"{name}: a file of the snapshot cannot be read ({said(error).partition(' LINE ')[0]}): the snapshot was "
            "removed meanwhile, or `mledger snapshot verify` tells what is damaged"
        ) from None
    except RuntimeError as error:
        if _INTERRUPTED not in str(error):
            raise
        raise KeyboardInterrupt from None


def _dataset(place: Destination, table: str, paths: Sequence[str]) -> dataset.Dataset:
    """The rows of files on any file system; there may be no file."""
    schema = TABLES[table].schema
    if not paths:
        return dataset.dataset(schema.empty_table())
    return dataset.dataset([f"{place.path}/{path}" for path in paths], schema, "parquet", place.system)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
