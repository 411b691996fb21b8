"""Replay at a restart: journal records after the index's last flush are entered in the index again.

The records were accepted once, so they are not checked again. A record is in the index as a whole or not at all.
"""

from collections.abc import Iterable

from mledger.bookie.errors import CorruptJournal
from mledger.bookie.server.storage.journal import FRAMES, MOVED, JournalRecord, ReplayPlan, read_records
from mledger.bookie.server.storage.ledgers import NO_ENTRY
from mledger.bookie.server.storage.records.journal_changes import ChangeKind, JournalChange, decode_changes, enter
from mledger.bookie.server.storage.records.old_records import OldRecords
from mledger.bookie.server.storage.rows.index import Index

_RECORDS_A_BATCH = 256


def replay(index: Index, directory: str, salt: bytes, plan: ReplayPlan) -> int:
    """Enter the plan's records in the index and flush it; return their number.

    Only the index knows that a ledger was deleted, and it loses that if it was not flushed. If the ledger was begun
    anew, its earlier rows are deleted first: between the later ones they would hide entries.
    """
    old, records, runs = OldRecords(index, directory), 0, _Runs(index)
    for number in plan.files:
        for record in read_records(directory, number, salt):
            if record.sequence < plan.first:
                continue
            if record.kind != FRAMES:
                index.commit(record.sequence, number)  # a move needs the rows that were entered before it
            changes = _changes(old, record)
            if record.kind == FRAMES and (deleted := runs.begun_anew(changes)):
                _delete(index, deleted, record.sequence, number)
            enter(index, changes, record.place)
            records += 1
            if not records % _RECORDS_A_BATCH:
                index.commit(record.sequence + 1, number)
    last_file = plan.files[-1] if plan.files else index.file
    if records or index.sequence != plan.last + 1:
        index.commit(plan.last + 1, last_file)
        index.flush()
    return records


class _Runs:
    """Checks that the runs of each ledger ascend, as they do until the ledger is deleted."""

    def __init__(self, index: Index) -> None:
        self._index, self._highest = index, dict[int, int]()

    def begun_anew(self, changes: Iterable[JournalChange]) -> set[int]:
        """The ledgers with rows in the index that were deleted before a record with these changes."""
        found = set[int]()
        for change in changes:
            if change.kind != ChangeKind.RUN:
                continue
            highest = self._highest.get(change.ledger)
            if highest is None:
                row = self._index.last_run(change.ledger)
                highest = NO_ENTRY if row is None else row.last
            if change.first <= highest:
                found.add(change.ledger)
            self._highest[change.ledger] = change.last
        return found


def _delete(index: Index, ledgers: Iterable[int], sequence: int, file: int) -> None:
    """Delete the entries of ledgers that were deleted before record `sequence`, before the record is entered."""
    index.commit(sequence, file)
    for ledger in ledgers:
        index.delete_entries(ledger, index.needed_bytes(ledger))
    index.commit(sequence, file)


def _changes(old: OldRecords, record: JournalRecord) -> list[JournalChange]:
    if record.kind in (FRAMES, MOVED):
        try:
            return decode_changes(record.payload, moved=record.kind == MOVED)
        except ValueError as error:
            raise CorruptJournal(
                f"journal: record {record.sequence} is valid but cannot be decoded: {error}; restore the directory"
            ) from None
    return old.changes(record)


def ledger_spans(record: JournalRecord) -> list[tuple[int, int, int]]:
    """Ledger, lowest and highest entry of all entries in a record."""
    if record.kind not in (FRAMES, MOVED):
        return OldRecords.ledger_spans(record)
    changes = decode_changes(record.payload, moved=record.kind == MOVED)
    return [(change.ledger, change.first, change.last) for change in changes if change.record is None]
