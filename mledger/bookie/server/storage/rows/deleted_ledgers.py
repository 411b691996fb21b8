"""The rows of ledgers that were deleted on this bookie, and that others may still have, or a sleeping writer may write.

Adds must not begin such a ledger anew, and that its entries are not here proves nothing to a recovery.
"""

import struct
from collections.abc import Iterator

from rocksdict import Rdict, WriteBatch

from mledger.metastore.runtime.rocksdb_iterators import at_row

_DELETED = b"d"
_NUMBER = struct.Struct(">Q")

MOST_TOMBSTONES = 65_536
"""Deleted ledgers that are remembered: those with the highest ids."""


class DeletedLedgers:
    """The deleted ledgers that an index remembers, in its family for what concerns the whole bookie."""

    def __init__(self, family: Rdict, handle: object) -> None:
        self._family, self._handle = family, handle
        self._count = sum(1 for _ in self._all())

    def __contains__(self, ledger: int) -> bool:
        return self._family.get(_DELETED + _NUMBER.pack(ledger)) is not None

    def put(self, ledger: int, batch: WriteBatch) -> None:
        """Remember a ledger, and forget the lowest where there are too many; applied with `batch`."""
        if ledger in self:
            return
        batch.put(_DELETED + _NUMBER.pack(ledger), b"", self._handle)
        self._count += 1
        if self._count > MOST_TOMBSTONES:
            lowest = min(next(self._all(), ledger), ledger)
            batch.delete(_DELETED + _NUMBER.pack(lowest), self._handle)
            self._count -= 1

    def close(self) -> None:
        """Let go of the family: what names it keeps the database open."""
        del self._family, self._handle

    def _all(self) -> Iterator[int]:
        """In ascending order."""
        rows = self._family.iter()
        rows.seek(_DELETED)
        while at_row(rows) and (key := rows.key())[:1] == _DELETED:
            yield _NUMBER.unpack_from(key, 1)[0]
            rows.next()
