"""What a record of the journal changes in the index: its bytes, and how it is entered. No I/O.

A bookie that runs enters a record when it is synced, one that starts enters it again: both by `enter`, from the same
list of changes. So the index is the same at each record, however it came there.

A record's payload is the changes' bytes one behind the other, then a table with a row a change, then their count.
"""

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mledger.bookie.server.storage.index import Index, LedgerData, Row
from mledger.bookie.server.storage.journal import JournalPosition

COUNT = struct.Struct(">I")
_ROW = struct.Struct(">BQqqI")
_MOVE = struct.Struct(">BQqqIQQ")
MOVED_ROW_BYTES = _MOVE.size
"""What a moved row takes beside its bytes."""


class ChangeKind(enum.IntEnum):
    """What a change is about."""

    RUN = 0
    """New entries of a ledger, above all that it had."""
    REPEAT = 1
    """One entry that is not above all that its ledger had."""
    LEDGER = 2
    """What is kept of a ledger beside its entries: its master key, its fence."""


@dataclass(frozen=True, slots=True)
class JournalChange:
    """One change: its bytes are `length` bytes at `at` in the payload.

    `record` is a ledger's (kind LEDGER). `source` is where the bytes were before: the change moves a row from there.
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
    """The table and the count that end a record. The changes' bytes precede it in their order, without gaps."""
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
    """What `encode_changes` wrote behind the changes' bytes. ValueError when the payload does not end in it."""
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
        raise ValueError(f"{at} bytes of changes where {start} are")


def enter(index: Index, changes: Iterable[JournalChange], payload: JournalPosition) -> None:
    """Put a record's changes, all that it has, into the index's open batch; `payload` is where its payload begins.

    A row that was moved is entered only where the index still has the very row that was read: same entries, place and
    length. Otherwise it was deleted or replaced meanwhile, and what is there stays.
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
