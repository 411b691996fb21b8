"""What a killed bookie leaves in its directory, and the contents of its index."""

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.ledger_data import LedgerData


def copy_as_killed(directory: Path, copy: Path) -> Path:
    """Copy what a kill would leave of an idle bookie, at a moment when RocksDB does no work either."""

    def names() -> list[Path]:
        return sorted(path.relative_to(directory) for path in directory.rglob("*"))

    while True:
        before = names()
        with contextlib.suppress(shutil.Error):
            shutil.copytree(directory, copy)
            if names() == before:
                return copy
        shutil.rmtree(copy)


@dataclass(frozen=True)
class Contents:
    """Everything in an index, and how many bytes of each journal file it counts as needed."""

    ledgers: dict[int, LedgerData | None]
    runs: list[Row]
    repeats: list[Row]
    live: dict[int, int]

    def counted(self) -> dict[int, int]:
        """How many bytes of each journal file the rows refer to."""
        found: dict[int, int] = {}
        for row in (*self.runs, *self.repeats):
            found[row.file] = found.get(row.file, 0) + row.length
        return found


def contents(index: Index) -> Contents:
    """Everything in an index."""
    ledgers = index.ledger_ids()
    return Contents(
        {ledger: index.ledger(ledger) for ledger in ledgers},
        [row for ledger in ledgers for row in index.runs(ledger)],
        [row for ledger in ledgers for row in index.repeats(ledger)],
        {file: size for file, size in index.live.items() if size},
    )
