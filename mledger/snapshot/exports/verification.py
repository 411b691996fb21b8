"""Verifies a snapshot against its manifest: every file, every byte, every row, no other files, and its versions."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.parquet as pq

from mledger.snapshot.exports.delta_log import delta_problems
from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.files import is_data, problem_of
from mledger.snapshot.exports.iceberg_tables import iceberg_problems
from mledger.snapshot.exports.manifest import (
    DELTA,
    ICEBERG,
    INSIDE,
    MANIFEST,
    PREFIX,
    FileRecord,
    Manifest,
    partition,
)
from mledger.snapshot.zookeeper_files.file_access.file_systems import FAILURES, said

_VERSIONED = {DELTA: delta_problems, ICEBERG: iceberg_problems}


@dataclass(frozen=True, slots=True)
class SnapshotProblem:
    """What is wrong with the file at `path` of a snapshot."""

    path: str
    reason: str


def verify_snapshot(
    place: Destination, manifest: Manifest, on_file: Callable[[], None] = lambda: None
) -> tuple[SnapshotProblem, ...]:
    """Everything that is wrong with a snapshot whose paths begin in `place`; `on_file` is called after each file."""
    found = []
    for table in manifest.tables.values():
        for record in table.files:
            problem = problem_of(place, record) or _rows_problem(place, record)
            if problem is not None:
                found.append(SnapshotProblem(record.path, problem))
            on_file()
    found += [SnapshotProblem(path, "the manifest does not name it") for path in _others(place, manifest)]
    return tuple(sorted(found, key=lambda each: each.path))


def verify_versions(place: Destination, manifest: Manifest) -> tuple[SnapshotProblem, ...]:
    """Whether the Delta or Iceberg tables of a snapshot have it, with its files alone.

    Raises:
        FormatNotInstalled: the package that reads them is missing.
        ExportError: they cannot be looked at where the snapshot is, or were removed.
    """
    problems_in = _VERSIONED.get(manifest.request.file_format)
    if problems_in is None or manifest.format == INSIDE:
        return ()
    return tuple(SnapshotProblem(*each) for each in sorted(problems_in(place, manifest)))


def _others(place: Destination, manifest: Manifest) -> set[str]:
    """The paths of files in the snapshot's directories that the manifest does not name."""
    if manifest.format == INSIDE:
        return place.sizes().keys() - manifest.paths - {MANIFEST}
    own = f"{PREFIX}{manifest.name}"
    inner = [own, *(partition(table, manifest.name) for table in manifest.tables)]
    there = {f"{each}/{path}" for each in inner for path in place.below(*each.split("/")).sizes()}
    return there - manifest.paths - {f"{own}/{MANIFEST}"}


def _rows_problem(place: Destination, record: FileRecord) -> str | None:
    if not is_data(record.path):
        return None
    try:
        with place.open(record.path) as stream:
            rows = pq.read_metadata(stream).num_rows
    except FAILURES as error:
        return f"it is not a Parquet file: {said(error)}"
    return None if rows == record.rows else f"it has {rows} rows, not {record.rows}"
