"""Which files of an older snapshot are merged with new rows; pure.

The others stay as they are, or are written anew each by itself if some of their rows go. So what a night changes is in
a file of its own; where the same nodes change every night, the large files with all the others stay.
"""

from collections.abc import Sequence

from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.exports.recent_parts import FEW_ROWS

GROWTH = 2
"""A file is merged with others that have at least one row for so many of its own: each is a multiple of the next."""


def plan_merge(files: Sequence[FileRecord], new_rows: int) -> tuple[FileRecord, ...]:
    """The files to merge with so many new rows, fewest rows first: over the nights, files do not become many.

    A file of FEW_ROWS is merged with any new ones.
    """
    merged: list[FileRecord] = []
    rows = new_rows
    for file in sorted(files, key=lambda each: each.rows) if new_rows else ():
        if file.rows > max(FEW_ROWS, GROWTH * rows):
            break
        merged.append(file)
        rows += file.rows
    return tuple(merged)
