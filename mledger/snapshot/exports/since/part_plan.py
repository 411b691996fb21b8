"""Which files of an older snapshot stay as they are, and which are written anew; pure."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from mledger.snapshot.exports.manifest import FileRecord

SMALL_ROWS = 65_536
"""A file with fewer rows is merged with new rows, so that files do not become many over the nights."""


class PartPlan(Struct, frozen=True):
    """Files that stay, files that are each written anew without the rows that go, and files merged with new rows."""

    kept: tuple[FileRecord, ...]
    rewritten: tuple[FileRecord, ...]
    merged: tuple[FileRecord, ...]


def plan_parts(files: Sequence[FileRecord], touched: Collection[str], *, new_rows: bool) -> PartPlan:
    """The plan for a table's files; `touched` are the paths of those with rows that go or change."""
    small = {file.path for file in files if file.rows < SMALL_ROWS}
    merging = small if new_rows or small & set(touched) else set()
    return PartPlan(
        tuple(file for file in files if file.path not in touched and file.path not in merging),
        tuple(file for file in files if file.path in touched and file.path not in merging),
        tuple(file for file in files if file.path in merging),
    )
