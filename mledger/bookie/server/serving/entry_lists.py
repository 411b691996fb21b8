"""Lists the entries of a ledger that this bookie has, for the replica check, while others read and add.

The index names runs, not the entries in them, so the frames of the runs are read: in a thread, some runs at a time, for
one list at a time.
"""

import asyncio
import itertools
import os
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from mledger.bookie import wire
from mledger.bookie.server.storage.journal import file_path
from mledger.bookie.server.storage.ledgers import LedgerDescriptor
from mledger.bookie.server.storage.reads import parse_row
from mledger.bookie.server.storage.rows.index import Index, Row

_ROWS_A_TIME = 64
_TRIES = 3

Entries = NDArray[numpy.int64]


class EntryLists:
    """Lists the entries of a bookie's ledgers. Lives on the loop."""

    def __init__(self, index: Index, journal: str) -> None:
        self._index, self._journal = index, journal
        self._one = asyncio.Semaphore(1)

    async def entries(self, state: LedgerDescriptor) -> Entries:
        """The entry ids of a ledger, unique and ascending. OSError, wire.MalformedFrame when they cannot be read."""
        async with self._one:
            found = [pending.run.entries for pending in state.pending]
            first = 0
            while rows := list(itertools.islice(self._index.runs(state.ledger, first), _ROWS_A_TIME)):
                first = rows[-1].first + 1
                found.append(await self._read(rows))
            if state.repeats:
                repeats = [row.first for row in self._index.repeats(state.ledger)]
                found.append(numpy.array(repeats, numpy.int64))
            return numpy.unique(numpy.concatenate(found)) if found else numpy.zeros(0, numpy.int64)

    async def _read(self, rows: Sequence[Row]) -> Entries:
        """The entries in runs; a run that is moved while it is read is looked up again."""
        loop = asyncio.get_running_loop()
        for left in reversed(range(_TRIES)):
            try:
                return await loop.run_in_executor(None, read_entries, self._journal, rows)
            except (OSError, wire.MalformedFrame):
                now = [self._index.run_at(row.ledger, row.first) for row in rows]
                if not left or now == list(rows):
                    raise
                rows = [row for row in now if row is not None]
        raise AssertionError("unreachable")


def read_entries(journal: str, rows: Sequence[Row]) -> Entries:
    """The entry ids in runs that the journal's files in a directory hold. OSError, wire.MalformedFrame."""
    found = []
    for file, of_file in itertools.groupby(rows, lambda row: row.file):
        descriptor = os.open(file_path(journal, file), os.O_RDONLY)
        try:
            found += [parse_row(row, os.pread(descriptor, row.length, row.offset)).entries for row in of_file]
        finally:
            os.close(descriptor)
    return numpy.concatenate(found) if found else numpy.zeros(0, numpy.int64)
