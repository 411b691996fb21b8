"""Is a snapshot what its manifest says: every file there, every byte, every row, and nothing else."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from snapshot.exports.files import problem_of
from snapshot.exports.manifest import MANIFEST, FileRecord, Manifest


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the file at `path` of a snapshot."""

    path: str
    reason: str


def verify_snapshot(place: Path, manifest: Manifest, on_file: Callable[[], None] = lambda: None) -> tuple[Problem, ...]:
    """Everything that is wrong with the snapshot at `place`; `on_file` hears of each file looked at."""
    found = []
    for table in manifest.tables.values():
        for record in table.files:
            problem = problem_of(place, record) or _rows_problem(place, record)
            if problem is not None:
                found.append(Problem(record.path, problem))
            on_file()
    known = manifest.paths | {MANIFEST}
    for directory, _, names in os.walk(place):
        for name in names:
            path = (Path(directory) / name).relative_to(place).as_posix()
            if path not in known:
                found.append(Problem(path, "the manifest does not name it"))
    return tuple(sorted(found, key=lambda each: each.path))


def _rows_problem(place: Path, record: FileRecord) -> str | None:
    if not record.path.endswith(".parquet"):
        return None
    try:
        rows = pq.read_metadata(place / record.path).num_rows
    except (OSError, pa.ArrowException) as error:
        return f"it is no Parquet file: {' '.join(str(error).split())}"
    return None if rows == record.rows else f"it has {rows} rows, not {record.rows}"
