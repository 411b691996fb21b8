"""Writes a table of a new snapshot from the files of an older one: links, copies, or writes them anew without old rows.

Nothing is decoded: rows that stay go from Parquet to Parquet, whole row groups at a time.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import ExportError
from mledger.snapshot.exports.files import TableFile, problem_of
from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.exports.since.older_parts import OlderParts
from mledger.snapshot.exports.since.part_plan import plan_merge
from mledger.snapshot.exports.since.row_keys import RowMatch, any_of
from mledger.snapshot.exports.since.row_plan import TOPICS
from mledger.snapshot.exports.steps import Done

PartJob = Callable[[], Done]
"""Writes one file; no rows, no file."""


class TableChange(Struct, frozen=True):
    """What changes in a table: the rows that go (None: all), the new rows, and topics' new numbers of cursors.

    `topics` are the rows of the topics in `cursors`.
    """

    going: Sequence[RowMatch] | None = ()
    new: Sequence[pa.RecordBatch] = ()
    topics: RowMatch | None = None
    cursors: Mapping[str, int] = {}


class PartRewriter:
    """Writes the tables of a new snapshot below `to`, from those of `older`."""

    def __init__(self, older: OlderParts, to: Destination) -> None:
        self._older = older
        self._to = to

    def jobs(self, table: str, change: TableChange) -> list[PartJob]:
        """What to do for a table: one job for each file, which may run at the same time."""
        if change.going is None:
            return [lambda: self._write(table, change, (), change.new)]
        files = self._older.files(table)
        merged = plan_merge(files, sum(len(batch) for batch in change.new))
        jobs: list[PartJob] = [_job(self._take, table, change, file) for file in files if file not in merged]
        if change.new:
            jobs.append(_job(self._write, table, change, merged, change.new))
        return jobs

    def _take(self, table: str, change: TableChange, file: FileRecord) -> Done:
        """A file as it is, or written anew if rows of it change."""
        touching = [*(change.going or ()), *([change.topics] if change.topics else [])]
        if self._older.has(file, table, touching):
            return self._rewrite(table, change, file)
        return self._keep(table, file)

    def _keep(self, table: str, file: FileRecord) -> Done:
        name = f"{table}/{file.path.rpartition('/')[2]}"
        self._older.place.link(file.path, self._to, name)
        return [(table, FileRecord(name, file.rows, file.bytes, file.sha256))]

    def _rewrite(self, table: str, change: TableChange, file: FileRecord) -> Done:
        """A file without the rows that go; its texts stay dictionaries, even those that no row has any more."""
        self._check(file)
        groups = self._older.coded_groups(file, table)
        return self._written(table, (rows for group in groups for rows in _staying(group, table, change)), coded=True)

    def _write(
        self, table: str, change: TableChange, files: Sequence[FileRecord], new: Iterable[pa.RecordBatch]
    ) -> Done:
        """One file with the rows of `files` that stay, then `new`."""
        return self._written(table, self._merged(table, change, files, new), coded=False)

    def _written(self, table: str, parts: Iterable[pa.Table], *, coded: bool) -> Done:
        writer: TableFile | None = None
        try:
            for rows in parts:
                for batch in filter(len, rows.to_batches()):
                    schema = batch.schema if coded else None
                    writer = writer or TableFile(self._to, table, f"part-{uuid.uuid4().hex}", schema)
                    writer.add(batch)
            return [] if writer is None else [(table, writer.finish())]
        finally:
            if writer is not None:
                writer.abandon()

    def _merged(
        self, table: str, change: TableChange, files: Sequence[FileRecord], new: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.Table]:
        for file in files:
            self._check(file)
            for group in self._older.groups(file, table):
                yield from _staying(group, table, change)
        for batch in new:
            yield pa.Table.from_batches([batch])

    def _check(self, file: FileRecord) -> None:
        """Raise ExportError if an older file is damaged."""
        problem = problem_of(self._older.place, file)
        if problem is not None:
            raise ExportError(f"{self._older.place}/{file.path} of the older snapshot: {problem}; export fully")


def _job(act: Callable[..., Done], *arguments: object) -> PartJob:
    return lambda: act(*arguments)


def _staying(group: pa.Table, table: str, change: TableChange) -> Iterator[pa.Table]:
    """The rows that stay as they are, and those of topics that have another number of cursors."""
    going = any_of(change.going or (), group)
    if change.topics is None or table != TOPICS:
        yield group.filter(pc.invert(going))
        return
    changed = pc.and_not(change.topics.mask(group), going)
    yield group.filter(pc.invert(pc.or_(going, changed)))
    rows = group.filter(changed)
    place = rows.schema.get_field_index("cursors")
    counts = [change.cursors[name] for name in rows["managed_ledger"].to_pylist()]
    yield rows.set_column(place, rows.schema.field(place), pa.array(counts, rows.schema.field(place).type))
