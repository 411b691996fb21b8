"""Questions about snapshots, each one SQL query below `sql/`: asked here by DuckDB, without a JVM, or by Spark.

The queries see the snapshot's tables by their names, `snapshot` (one row: name, time), and of an older snapshot the
same as `before_…`. They keep to what both dialects share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyarrow import dataset

from mledger.snapshot.exports.destination import Destination, hadoop_path
from mledger.snapshot.exports.directory import find_snapshot
from mledger.snapshot.exports.errors import FormatNotInstalled, UnknownQuery
from mledger.snapshot.exports.files import is_data
from mledger.snapshot.exports.manifest import Manifest
from mledger.snapshot.tables.row_builder import TABLES

VIEWS = ("ledger_sizes", "acknowledged_above", "cursor_needs")
COMPARING_VIEWS = ("cursor_moves",)
BEFORE = "before_"
_QUESTIONS = (
    "backlog",
    "held_bytes",
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
    """A question: its name, which is that of its view, what it asks, in a line and at length, and its query.

    `compares`: it is about two snapshots.
    """

    name: str
    title: str
    doc: str
    sql: str

    @property
    def compares(self) -> bool:
        """Whether it needs a snapshot before."""
        return BEFORE in self.sql or "cursor_moves" in self.sql


def _load(kind: str, name: str) -> Query:
    lines = resources.files("mledger.snapshot").joinpath("sql", kind, f"{name}.sql").read_text("utf-8").splitlines()
    told = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    return Query(name, told[0], " ".join(told[1:]), "\n".join(lines[len(told) :]))


QUERIES: Mapping[str, Query] = {name: _load("queries", name) for name in _QUESTIONS}
"""All questions by name, in the order of reports."""

CHANGES: Mapping[str, Query] = {name: _load("changes", name) for name in _CHANGES}
"""What `mledger snapshot diff` asks."""


class Snapshots:
    """A snapshot to ask, and maybe an older one: what DuckDB reads is bounded by `memory`."""

    def __init__(
        self, place: Destination, manifest: Manifest, before: tuple[Destination, Manifest] | None = None
    ) -> None:
        """FormatNotInstalled."""
        try:
            import duckdb
        except ImportError:
            raise FormatNotInstalled("questions need the package duckdb: pip install 'mledger[report]'") from None
        self.manifest = manifest
        self.before = None if before is None else before[1]
        self._connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "memory_limit": "1GiB"})
        self._connection.execute("create macro unix_seconds(t) as cast(floor(epoch(t)) as bigint)")
        self._register("", place, manifest)
        if before is not None:
            self._register(BEFORE, *before)
        for name in VIEWS if before is None else (*VIEWS, *COMPARING_VIEWS):
            self._connection.execute(f"create view {name} as {_load('views', name).sql}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def ask(self, question: Query) -> pa.Table:
        """The answer; UnknownQuery if it needs a snapshot before and there is none."""
        if question.compares and self.before is None:
            raise UnknownQuery(f"{question.name} compares two snapshots: name an older one with --before")
        return self._connection.sql(question.sql).to_arrow_table()

    def _register(self, prefix: str, place: Destination, manifest: Manifest) -> None:
        for table, record in manifest.tables.items():
            found = [file.path for file in record.files if is_data(file.path)]
            if place.local is None or not found:
                self._connection.register(f"{prefix}{table}", _dataset(place, table, found))
                continue
            paths = ", ".join(_quoted(str(place.local / path)) for path in found)
            self._connection.execute(f"create view {prefix}{table} as select * from read_parquet([{paths}])")  # noqa: S608  # quoted
        self._connection.execute(
            f"create view {prefix}snapshot as select {_quoted(manifest.name)} as name, "
            f"make_timestamp({manifest.time_ms * 1000}) as time"
        )


def open_snapshots(path: str, before: str | None = None) -> Snapshots:
    """The snapshot at a path, and the older one to compare it with. SnapshotNotFound, FormatNotInstalled."""
    return Snapshots(*find_snapshot(path), None if before is None else find_snapshot(before))


def question_named(name: str) -> Query:
    """The question of that name; UnknownQuery."""
    if name not in QUERIES:
        raise UnknownQuery(f"there is no question {name!r}: there are {', '.join(QUERIES)}")
    return QUERIES[name]


def create_views(spark: Any, path: str, before: str | None = None) -> None:
    """Make the tables and all questions of a snapshot temporary views of a Spark session.

    `path` is a snapshot's directory, or a directory of snapshots, whose newest is meant; it is to be one that all
    executors reach. Questions that compare are there if `before` names an older one. SnapshotNotFound.
    """
    pairs = [("", *find_snapshot(path))] + ([] if before is None else [(BEFORE, *find_snapshot(before))])
    for prefix, place, manifest in pairs:
        for table, record in manifest.tables.items():
            paths = [hadoop_path(place, file.path) for file in record.files if is_data(file.path)]
            frame = spark.read.parquet(*paths) if paths else spark.createDataFrame([], TABLES[table].ddl)
            frame.createOrReplaceTempView(f"{prefix}{table}")
        time = f"timestamp_millis({manifest.time_ms})"
        spark.sql(f"select '{manifest.name}' as name, {time} as time").createOrReplaceTempView(f"{prefix}snapshot")
    for name in VIEWS if before is None else (*VIEWS, *COMPARING_VIEWS):
        spark.sql(_load("views", name).sql).createOrReplaceTempView(name)
    for question in (*QUERIES.values(), *(() if before is None else CHANGES.values())):
        if before is not None or not question.compares:
            spark.sql(question.sql).createOrReplaceTempView(question.name)


def _dataset(place: Destination, table: str, paths: Sequence[str]) -> dataset.Dataset:
    """The rows of files on any file system; there may be no file at all."""
    schema = TABLES[table].schema
    if not paths:
        return dataset.dataset(schema.empty_table())
    return dataset.dataset([f"{place.path}/{path}" for path in paths], schema, "parquet", place.system)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
