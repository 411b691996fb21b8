"""Answers reads from the turns in progress and from the journal (formats.md, Bookie protocol)."""

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from mledger.bookie import wire
from mledger.bookie.errors import Code
from mledger.bookie.request_frames import is_rising
from mledger.bookie.server.storage.directories.open_files import open_file_limit, plan_journal_files
from mledger.bookie.server.storage.journal import file_path
from mledger.bookie.server.storage.ledgers import LedgerDescriptor
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.runs import StoredRun, parse_run
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

Parts = list[bytes | memoryview]


_CACHE_BYTES = 24 << 20


class JournalReader:
    """Fetches runs from the journal's files, the latest ones from memory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._files: OrderedDict[int, int] = OrderedDict()
        self._most_files = plan_journal_files(open_file_limit())
        self._runs: OrderedDict[tuple[int, int], StoredRun] = OrderedDict()
        self._cached = 0
        self._gone: set[int] = set()
        self._failed: dict[tuple[int, int], Exception] = {}

    def run(self, row: Row) -> StoredRun:
        """The run that an index row locates. OSError, wire.MalformedFrame when the file does not hold it."""
        key = (row.file, row.offset)
        run = self._runs.get(key)
        if run is not None:
            self._runs.move_to_end(key)
            return run
        if key in self._failed:
            raise self._failed[key]
        run = parse_row(row, self.frames(row))
        self.keep(row, run)
        return run

    def keep(self, row: Row, run: StoredRun) -> None:
        """Keep a run in memory, unless its file has been removed."""
        key = (row.file, row.offset)
        if key in self._runs or row.file in self._gone:
            return
        self._runs[key] = run
        self._cached += row.length
        while self._cached > _CACHE_BYTES and len(self._runs) > 1:
            self._cached -= len(self._runs.popitem(last=False)[1].value)

    def load(self, row: Row) -> bool:
        """Whether no disk wait is needed: the run is in memory or in the page cache, or reading it has failed."""
        if self.has(row) or (row.file, row.offset) in self._failed:
            return True
        buffer = bytearray(row.length)
        try:
            if os.preadv(self._open(row.file), [buffer], row.offset, os.RWF_NOWAIT) != row.length:
                return False
            self.keep(row, parse_row(row, bytes(buffer)))
        except (OSError, wire.MalformedFrame):  # missing, or unknown without a disk read
            return False
        return True

    def fail(self, row: Row, error: Exception) -> None:
        """Make reads of a run fail with `error`, until `forgive`: the disk has been read already."""
        self._failed[row.file, row.offset] = error

    def forgive(self, row: Row) -> None:
        """Let the disk be read again."""
        self._failed.pop((row.file, row.offset), None)

    def has(self, row: Row) -> bool:
        """Whether the run is in memory."""
        return (row.file, row.offset) in self._runs

    def frames(self, row: Row) -> bytes:
        """The frames of a row. OSError when the file is shorter."""
        return _read(self._open(row.file), row)

    def forget(self, file: int) -> None:
        """Drop a file that was removed. Reads of it still in progress are not kept: numbers are never reused."""
        self._gone.add(file)
        descriptor = self._files.pop(file, None)
        if descriptor is not None:
            os.close(descriptor)
        for key in [key for key in self._runs if key[0] == file]:
            self._cached -= len(self._runs.pop(key).value)

    def close(self) -> None:
        """Close all files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _open(self, file: int) -> int:
        descriptor = self._files.get(file)
        if descriptor is not None:
            self._files.move_to_end(file)
            return descriptor
        if len(self._files) >= self._most_files:
            os.close(self._files.popitem(last=False)[1])
        descriptor = self._files[file] = os.open(file_path(self.directory, file), os.O_RDONLY)
        return descriptor


def read_frames(directory: str, file: int, rows: Sequence[Row]) -> list[bytes]:
    """Read the frames of rows of one file from disk; on any thread. OSError when the file is missing or too short.

    If the index still names a row after this returns, the frames are that row's: file numbers are never reused.
    """
    descriptor = os.open(file_path(directory, file), os.O_RDONLY)
    try:
        return [_read(descriptor, row) for row in rows]
    finally:
        os.close(descriptor)


def parse_row(row: Row, frames: bytes) -> StoredRun:
    """The run that was read for a row. wire.MalformedFrame when it is not the row's.

    Damage that changes an entry id leaves a run that can be read. Searched for that entry, it would say that there is
    none, and absence must be proven (Q9).
    """
    run = parse_run(frames)
    if (run.ledger, run.first, run.last) != (row.ledger, row.first, row.last) or not is_rising(run.entries):
        raise wire.MalformedFrame(f"journal file {row.file} does not hold the run at {row.offset}")
    return run


def _read(descriptor: int, row: Row) -> bytes:
    frames = os.pread(descriptor, row.length, row.offset)
    if len(frames) != row.length:
        raise OSError(f"journal file {row.file} ends inside a run at {row.offset}")
    return frames


class Reader:
    """Finds entries."""

    def __init__(self, index: Index, journal: JournalReader, max_frame: int = wire.MAX_FRAME) -> None:
        self._index, self._journal, self._max_frame = index, journal, max_frame

    def answer(self, state: LedgerDescriptor, request: wire.ReadRequest) -> Parts:
        """The response to a read or batch read of the ledger with `state`."""
        fencing = request.fencing
        code = Code.BAD_VERSION if request.version > wire.VERSION else check_read(state, request.entry, fencing=fencing)
        if code:
            return [request.refusal(code)]
        try:
            if request.batch is not None:
                return self._batch(state, request, request.batch)
            entry = self.entry(state, request.entry)
        except Exception as error:
            log.exception("read_failed", ledger=request.ledger, entry=request.entry, error=error)
            return [request.refusal(Code.IO_ERROR)]
        if entry is None:
            return [request.refusal(missing(state, request.entry, fencing=fencing))]
        return [wire.encode_response(request.op, Code.OK, request.ledger, request.entry, entry, request.version)]

    def cold(self, state: LedgerDescriptor, entry: int, batch: wire.BatchReadRequest | None = None) -> list[Row]:
        """The rows that a read or batch read needs and that must be read from the disk first."""
        if entry == wire.LAST_ENTRY:
            entry, batch = state.highest, None
        last = state.last_read
        if batch is None and last is not None and last.first <= entry <= last.last and self._journal.has(last):
            return []
        if state.record is None or not 0 <= entry <= state.highest:
            return []
        if any(pending.first <= entry <= pending.last for pending in state.pending):
            return []
        rows = self._single(state, entry) if batch is None else self._wanted(state, entry, batch)
        return [row for row in rows if not self._journal.load(row)]

    def _single(self, state: LedgerDescriptor, entry: int) -> list[Row]:
        row = (self._index.repeat(state.ledger, entry) if state.repeats else None) or self._row(state, entry)
        return [row] if row is not None and row.last >= entry else []

    def _wanted(self, state: LedgerDescriptor, entry: int, batch: wire.BatchReadRequest) -> list[Row]:
        """The rows that a batch read may need, up to the entries or bytes that it asks for."""
        end = entry + batch.max_count if batch.max_count > 0 else state.highest + 1
        size = min(batch.max_size, self._max_frame)
        row = self._row(state, entry)
        rows = list(_until(self._index.runs(state.ledger, entry if row is None else row.first), end, size))
        if state.repeats:
            rows += _until(self._index.repeats(state.ledger, entry), end, size)
        return rows

    def entry(self, state: LedgerDescriptor, entry: int) -> bytes | None:
        """An entry as stored; wire.LAST_ENTRY is the highest one."""
        if entry == wire.LAST_ENTRY:
            entry = state.highest
        found = self._find(state, entry) if 0 <= entry <= state.highest else None
        return None if found is None else found[0].entry(found[1])

    def in_memory(self, state: LedgerDescriptor, entries: Iterable[int], most_bytes: int) -> list[bytes]:
        """Stored entries, up to the first that is missing, is not in memory, or cannot be read.

        The entry with which they reach `most_bytes` is the last one.
        """
        found: list[bytes] = []
        run, first, last, gapless, size = None, 0, -1, False, 0
        for entry in entries:
            if run is not None and first <= entry <= last:
                at = entry - first if gapless else run.index(entry)
            elif (holder := self._in_memory(state, entry)) is not None:
                run, at = holder
                first, last = (run.first, run.last) if not state.repeats else (entry, entry)
                gapless = last - first == len(run.entries) - 1
            else:
                break
            if at < 0:
                break
            data = run.entry(at)
            found.append(data)
            size += len(data)
            if size >= most_bytes:
                break
        return found

    def _in_memory(self, state: LedgerDescriptor, entry: int) -> tuple[StoredRun, int] | None:
        """As `_find`, but only for a run that is in memory."""
        try:
            if not 0 <= entry <= state.highest or self.cold(state, entry):
                return None
            return self._find(state, entry)
        except Exception:  # reported when this entry is read alone
            return None

    def _find(self, state: LedgerDescriptor, entry: int) -> tuple[StoredRun, int] | None:
        """The run that holds an entry, and the index of its frame; the latest, if it was added more than once."""
        for pending in reversed(state.pending):
            if pending.first <= entry <= pending.last and (at := pending.run.index(entry)) >= 0:
                return pending.run, at
        row = self._index.repeat(state.ledger, entry) if state.repeats else None
        if row is None:
            row = self._row(state, entry)
        if row is None or row.last < entry:
            return None
        run = self._journal.run(row)
        at = run.index(entry)
        return None if at < 0 else (run, at)

    def _row(self, state: LedgerDescriptor, entry: int) -> Row | None:
        """The row of the run that may hold an entry; usually it is the row that was read last."""
        last = state.last_read
        if last is not None and last.first <= entry <= last.last and self._journal.has(last):
            return last
        state.last_read = self._index.run_at(state.ledger, entry)
        return state.last_read

    def _batch(self, state: LedgerDescriptor, request: wire.ReadRequest, batch: wire.BatchReadRequest) -> Parts:
        first = self.entry(state, request.entry)
        if first is None:
            return [request.refusal(missing(state, request.entry, fencing=request.fencing))]
        room = min(batch.max_size, self._max_frame) - wire.BATCH_RESPONSE.size
        most = batch.max_count if batch.max_count > 0 else 1 << 31
        most = 1 if request.entry == wire.LAST_ENTRY else most
        parts: Parts = [wire.LENGTH.pack(len(first)), first]
        size = wire.LENGTH.size + len(first)
        entry, most = request.entry + 1, most - 1
        while most > 0 and entry <= state.highest:
            try:
                found, count, taken = self._sized(state, entry, most, room - size)
            except Exception as error:  # what is whole before it is not withheld: other replicas lack other entries
                log.exception("read_failed", ledger=request.ledger, entry=entry, error=error)
                break
            if not count:
                break
            parts += found
            size, entry, most = size + taken, entry + count, most - count
        head = wire.header_word(wire.Op.BATCH_READ, 0, request.version)
        length = wire.BATCH_RESPONSE.size - 4 + size
        ids = (request.ledger, request.entry, batch.request_id)
        return [wire.BATCH_RESPONSE.pack(length, head, Code.OK, *ids), *parts]

    def _sized(self, state: LedgerDescriptor, entry: int, most: int, room: int) -> tuple[Parts, int, int]:
        """(size 4, entry)… of consecutive entries from `entry` on: the parts, the number of entries, the bytes."""
        found = self._find(state, entry)
        if found is None:
            return [], 0, 0
        parts, count, size = found[0].sized(found[1], 1 if state.repeats else most, room)
        return list(parts), count, size


def check_read(state: LedgerDescriptor, entry: int, *, fencing: bool = False) -> Code:
    """Whether an entry of a ledger may be read; `fencing`: by a read that fences it."""
    if state.ledger < 0 or entry < wire.LAST_ENTRY:
        return Code.BAD_REQUEST
    if state.record is None:
        return Code.NO_LEDGER
    if entry == wire.LAST_ENTRY and not state.record.proves_absence(None, fencing=fencing):
        return Code.UNKNOWN_LEDGER_STATE
    return Code.OK


def _until(rows: Iterator[Row], end: int, size: int) -> Iterator[Row]:
    """Rows with entries below `end`, up to `size` bytes."""
    for row in rows:
        if row.first >= end:
            return
        yield row
        size -= row.length
        if size <= 0:
            return


def missing(state: LedgerDescriptor, entry: int, *, fencing: bool = False) -> Code:
    """The code for an entry that the ledger does not hold; `fencing`: to a read that fences it."""
    proven = state.record is None or state.record.proves_absence(entry, fencing=fencing)
    return Code.NO_ENTRY if proven else Code.UNKNOWN_LEDGER_STATE
