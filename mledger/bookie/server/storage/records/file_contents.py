"""The live rows of a journal file, and how many bytes rewriting them would save."""

from collections.abc import Iterator

from msgspec import Struct

from mledger.bookie.server.storage.journal import MOVED, RECORD, JournalRecord, padded, read_records
from mledger.bookie.server.storage.records.journal_changes import COUNT, MOVED_ROW_BYTES
from mledger.bookie.server.storage.records.replay import ledger_spans
from mledger.bookie.server.storage.rows.index import Index, Row


class FileContents(Struct, frozen=True):
    """The index rows that name a file, each with whether it is a repeated add.

    `written` counts the bytes of the file's records. For a record of moved rows it counts only what the same rows would
    take again if all were needed, without padding.
    """

    rows: list[tuple[bool, Row]]
    written: int
    end: int
    """Where the last record ends."""

    def kept(self, size: int) -> int:
        """The bytes of a file of `size` that are not the rows', and that moving the rows would not save.

        The file's end does not count as saved if it has room for one more record: it would be left free again.
        """
        unused = size - self.end if 2 * self.end < size else 0
        return max(0, size - unused - self.written + MOVED_ROW_BYTES * len(self.rows))


def read_contents(index: Index, directory: str, number: int, salt: bytes) -> FileContents:
    """Read journal file `number`. OSError when it cannot be read; CorruptJournal for a record without a table.

    Rows behind the last valid record are left out, so that they stay where they are: written again, they would get a
    checksum that says that damaged bytes are right.
    """
    spans: dict[int, tuple[int, int]] = {}
    written = end = 0
    for record in read_records(directory, number, salt):
        written += _written(record)
        end = padded(record.place.offset + len(record.payload))
        for ledger, first, last in ledger_spans(record):
            lowest, highest = spans.get(ledger, (first, last))
            spans[ledger] = (min(lowest, first), max(highest, last))
    rows = [
        (repeated, row)
        for ledger, (first, last) in spans.items()
        for repeated, rows in ((False, index.runs(ledger, first)), (True, index.repeats(ledger, first)))
        for row in _until(rows, last)
        if row.file == number and row.offset < end
    ]
    return FileContents(rows, written, end)


def _written(record: JournalRecord) -> int:
    """The bytes of one record that count in `FileContents.written`; for moved rows: their bytes, table and count."""
    if record.kind == MOVED:
        return len(record.payload) - COUNT.size
    return padded(RECORD.size + len(record.payload))


def _until(rows: Iterator[Row], last: int) -> Iterator[Row]:
    for row in rows:
        if row.first > last:
            return
        yield row
