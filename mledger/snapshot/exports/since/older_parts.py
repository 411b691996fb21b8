"""Reads the files of an older snapshot, one row group at a time."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mledger.metastore.records.paths import MANAGED_LEDGERS
from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import DestinationNotReadable
from mledger.snapshot.exports.files import text_columns
from mledger.snapshot.exports.manifest import FileRecord, Manifest
from mledger.snapshot.exports.since.row_keys import ERRORS, RowMatch, any_of, columns_of
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.file_access.file_systems import FAILURES, said


class OlderRow(NamedTuple):
    """A row of a node: its table, its key, and what a log does not say of an older node; `created_ms` since 1970.

    `children` is None if the table does not tell it.
    """

    table: str
    key: tuple[object, ...]
    created_ms: int
    czxid: int
    children: int | None


class OlderParts:
    """The tables of the snapshot `manifest`, whose paths begin in `place`."""

    def __init__(self, place: Destination, manifest: Manifest) -> None:
        self.place = place
        self.manifest = manifest

    def files(self, table: str) -> tuple[FileRecord, ...]:
        """The files of a table that have rows."""
        return tuple(file for file in self.manifest.tables[table].files if file.rows)

    def groups(self, file: FileRecord, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The row groups of a file with these columns (None: all). DestinationNotReadable."""
        schema = TABLES[table].schema_of(columns)
        for group in self._groups(file, columns, None):
            yield group.cast(schema)

    def coded_groups(self, file: FileRecord, table: str) -> Iterator[pa.Table]:
        """The row groups of a file with all columns, texts as dictionaries: half the time. DestinationNotReadable."""
        yield from self._groups(file, None, text_columns(TABLES[table].schema))

    def _groups(
        self, file: FileRecord, columns: Sequence[str] | None, coded: Sequence[str] | None
    ) -> Iterator[pa.Table]:
        try:
            with self.place.open(file.path) as stream, pq.ParquetFile(stream, read_dictionary=coded) as parts:
                for index in range(parts.num_row_groups):
                    yield parts.read_row_group(index, columns)
        except FAILURES as error:
            raise DestinationNotReadable(f"{self.place}/{file.path} cannot be read: {said(error)}") from None

    def rows(self, table: str, match: RowMatch) -> list[OlderRow]:
        """The rows of `match`, in a table that has a row for each node."""
        names = [*match.columns, "created", "czxid", *(["cursors"] if table == "topics" else [])]
        found: list[OlderRow] = []
        for file in self.files(table):
            for group in self.groups(file, table, names):
                hits = group.filter(match.mask(group))
                created = [time // 1000 for time in hits["created"].cast(pa.int64()).to_pylist()]
                children = hits["cursors"].to_pylist() if table == "topics" else [None] * len(hits)
                keys = zip(*(hits[column].to_pylist() for column in match.columns), strict=True)
                found += map(OlderRow, [table] * len(hits), keys, created, hits["czxid"].to_pylist(), children)
        return found

    def children(self, paths: Collection[str]) -> dict[str, int]:
        """How many children the topics at `paths` have, by path: the rows of cursors, and of unreadable ones."""
        counts = dict.fromkeys(paths, 0)
        names = {path[len(MANAGED_LEDGERS) + 1 :]: path for path in paths}
        match = RowMatch(("managed_ledger",), frozenset((name,) for name in names))
        for file in self.files("cursors"):
            for group in self.groups(file, "cursors", match.columns):
                for name in group["managed_ledger"].filter(match.mask(group)).to_pylist():
                    counts[names[name]] += 1
        for file in self.files(ERRORS):
            for group in self.groups(file, ERRORS, ["path"]):
                for path in group["path"].to_pylist():
                    if (parent := path.rpartition("/")[0]) in counts:
                        counts[parent] += 1
        return counts

    def has(self, file: FileRecord, table: str, matches: Sequence[RowMatch]) -> bool:
        """Whether a file has rows of `matches`; it reads on only until it finds one."""
        if not matches:
            return False
        groups = self.groups(file, table, columns_of(matches))
        return any(True in any_of(matches, group).unique().to_pylist() for group in groups)
