"""Records of directories of versions 1 and 2: frames as they arrived, and moves without their source.

They do not tell which neighbouring frames were one row: replay may find one long run where the bookie had two rows. So
a move is applied only to a row of the same entries and bytes. Otherwise the row stays: its file exists as long as a row
names it.
"""

import struct
from collections.abc import Iterator

from msgspec.structs import replace

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import CorruptJournal
from mledger.bookie.server.storage.journal import OLD_FRAMES, JournalPosition, JournalRecord
from mledger.bookie.server.storage.ledgers import Ledgers, plan_spans
from mledger.bookie.server.storage.reads import JournalReader
from mledger.bookie.server.storage.records.journal_changes import ChangeKind, JournalChange
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.ledger_data import LedgerData

_COUNT = struct.Struct(">I")
_MOVE = struct.Struct(">?QQqII")
"""Repeated add, ledger, first entry, last entry, offset in the payload, length."""


class OldRecords:
    """Finds the changes in old records, in their order."""

    def __init__(self, index: Index, directory: str) -> None:
        self._index, self._directory = index, directory
        self._ledgers = Ledgers(index)

    def changes(self, record: JournalRecord) -> list[JournalChange]:
        """The changes of a record of an old kind. CorruptJournal when it cannot be decoded."""
        return self._frames(record) if record.kind == OLD_FRAMES else self._moves(record)

    @staticmethod
    def ledger_spans(record: JournalRecord) -> list[tuple[int, int, int]]:
        """Ledger, lowest and highest entry of all entries in a record."""
        if record.kind == OLD_FRAMES:
            runs = [run for run in _requests(record) if isinstance(run, request_frames.AddRun)]
            return [(run.ledger, run.lowest, run.highest) for run in runs]
        return [(ledger, first, last) for _, ledger, first, last, _, _ in _moved_rows(record.payload)]

    def _frames(self, record: JournalRecord) -> list[JournalChange]:
        changes: list[JournalChange] = []
        for request in _requests(record):
            if isinstance(request, request_frames.AddRun):
                changes += self._adds(request)
            else:
                read = wire.decode_read(record.payload[request.start : request.end])
                state = self._ledgers.get(read.ledger)
                state.record = replace(state.record or LedgerData(read.master_key), fenced=True)
                changes.append(JournalChange(ChangeKind.LEDGER, read.ledger, 0, 0, 0, 0, state.record))
        return changes

    def _adds(self, run: request_frames.AddRun) -> list[JournalChange]:
        state, changes = self._ledgers.get(run.ledger), []
        if state.record is None:
            state.record = state.keyed(run.master_key)
            changes.append(JournalChange(ChangeKind.LEDGER, run.ledger, 0, 0, 0, 0, state.record))
        for span in plan_spans(state.highest, run):
            first, last = int(run.entries[span.first]), int(run.entries[span.last - 1])
            start, end = int(run.starts[span.first]), int(run.starts[span.last])
            kind = ChangeKind.REPEAT if span.repeated else ChangeKind.RUN
            changes.append(JournalChange(kind, run.ledger, first, last, start, end - start))
        state.highest = max(state.highest, run.highest)
        return changes

    def _moves(self, record: JournalRecord) -> list[JournalChange]:
        changes = []
        for repeated, ledger, first, last, at, length in _moved_rows(record.payload):
            row = self._index.found(ledger, first, repeated=repeated)
            if row is None or (row.first, row.last, row.length) != (first, last, length):
                continue
            if self._same_bytes(row, record.payload[at : at + length]):
                kind = ChangeKind.REPEAT if repeated else ChangeKind.RUN
                source = JournalPosition(row.file, row.offset)
                changes.append(JournalChange(kind, ledger, first, last, at, length, source=source))
        return changes

    def _same_bytes(self, row: Row, moved: bytes) -> bool:
        """Whether a row's place holds these bytes; a missing file was emptied by this move and those after it."""
        reader = JournalReader(self._directory)
        try:
            return reader.frames(row) == moved
        except FileNotFoundError:
            return True
        finally:
            reader.close()


def _requests(record: JournalRecord) -> Iterator[request_frames.AddRun | request_frames.OtherFrame]:
    """All requests of a record; one scan finds a limited number. CorruptJournal when it holds anything else."""
    payload, at = record.payload, 0
    while at < len(payload):
        found = request_frames.scan(payload, at, len(payload), len(payload))
        if found.end == at:
            raise CorruptJournal(
                f"journal: record {record.sequence} is valid but is not made of requests from byte {at} on; restore "
                "the directory"
            )
        yield from found.requests
        at = found.end


def _moved_rows(payload: bytes) -> list[tuple[bool, int, int, int, int, int]]:
    """Repeated, ledger, first, last, offset in the payload and length of each run that a record moved."""
    (count,) = _COUNT.unpack_from(payload)
    return list(_MOVE.iter_unpack(payload[_COUNT.size : _COUNT.size + count * _MOVE.size]))
