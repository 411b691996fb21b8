"""What a journal record changes in the index: encoding, and entering it in the index. No I/O.

A running bookie enters a record when it is synced; a starting bookie enters it again. Both use `enter` with the same
list of changes, so the index is the same after each record in both cases.

A record's payload is the bytes of the changes in order, then a table with one row per change, then their count.
"""

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from mledger.bookie.server.storage.journal import JournalPosition
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.ledger_data import LedgerData

COUNT = struct.Struct(">I")
_ROW = struct.Struct(">BQqqI")
_MOVE = struct.Struct(">BQqqIQQ")
MOVED_ROW_BYTES = _MOVE.size
"""What a moved row takes besides its bytes."""
ROW_BYTES = _ROW.size
"""What another change takes besides its bytes."""


class ChangeKind(enum.IntEnum):
    """What a change concerns."""

    RUN = 0
    """New entries of a ledger, above all that it had."""
    REPEAT = 1
    """One entry that is not above all that its ledger had."""
    LEDGER = 2
    """The record of a ledger besides its entries: its master key, its fence."""


class JournalChange(Struct, frozen=True):
    """One change: its bytes are `length` bytes at `at` in the payload.

    `record` is the ledger's (kind LEDGER). `source` is the bytes' former place: the change moves a row from there.
    """

    kind: ChangeKind
    ledger: int
    first: int
    last: int
    at: int
    length: int
    record: LedgerData | None = None
    source: JournalPosition | None = None

    def row(self, payload: JournalPosition) -> Row:
        """The index's row for the change in a record whose payload is at `payload`."""
        return Row(self.ledger, self.first, self.last, payload.file, payload.offset + self.at, self.length)


def encode_changes(changes: Sequence[JournalChange], *, moved: bool) -> bytes:
    """Encode the table and the count that end a record. The bytes of the changes precede it in order, without gaps."""
    if moved:
        rows = [_MOVE.pack(*_fields(change), *_source(change)) for change in changes]
    else:
        rows = [_ROW.pack(*_fields(change)) for change in changes]
    return b"".join((*rows, COUNT.pack(len(changes))))


def _fields(change: JournalChange) -> tuple[int, int, int, int, int]:
    return change.kind, change.ledger, change.first, change.last, change.length


def _source(change: JournalChange) -> tuple[int, int]:
    assert change.source is not None, "a moved row has a source"
    return change.source.file, change.source.offset


def decode_changes(payload: bytes, *, moved: bool) -> list[JournalChange]:
    """Decode what `encode_changes` wrote behind the changes. ValueError when the payload does not end with it."""
    shape = _MOVE if moved else _ROW
    end = len(payload) - COUNT.size
    if end < 0:
        raise ValueError(f"{len(payload)} bytes, too few for a table of changes")
    (count,) = COUNT.unpack_from(payload, end)
    start = end - count * shape.size
    if start < 0:
        raise ValueError(f"{count} changes in {len(payload)} bytes")
    return list(_decoded(payload, start, shape))


def _decoded(payload: bytes, start: int, shape: struct.Struct) -> Iterator[JournalChange]:
    at = 0
    for kind, ledger, first, last, length, *source in shape.iter_unpack(payload[start : len(payload) - COUNT.size]):
        record = LedgerData.decode(payload[at : at + length]) if kind == ChangeKind.LEDGER else None
        yield JournalChange(
            ChangeKind(kind), ledger, first, last, at, length, record, JournalPosition(*source) if source else None
        )
        at += length
    if at != start:
        raise ValueError(f"the changes take {at} bytes instead of {start}")


def enter(index: Index, changes: Iterable[JournalChange], payload: JournalPosition) -> None:
    """Put all changes of a record into the index's open batch; `payload` is where its payload begins.

    A moved row is entered only if the index still has the very row that was read: same entries, place and length.
    Otherwise it was deleted or replaced meanwhile, and the index stays as it is.
    """
    for change in changes:
        row = change.row(payload)
        if change.record is not None:
            index.put_ledger(change.ledger, change.record)
        elif change.source is None:
            if change.kind == ChangeKind.REPEAT:
                index.put_repeat(row)
            else:
                index.put_run(row)
        else:
            _enter_moved(index, change, change.source, row)


def _enter_moved(index: Index, change: JournalChange, source: JournalPosition, row: Row) -> None:
    repeated = change.kind == ChangeKind.REPEAT
    old = Row(change.ledger, change.first, change.last, source.file, source.offset, change.length)
    if index.found(change.ledger, change.first, repeated=repeated) == old:
        index.move(old, row, repeated=repeated)
