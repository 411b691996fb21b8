"""The journal: preallocated files of records, one record per turn (Q8; bookie-storage.md has the bytes).

A record is sequence 8, kind and length 4, CRC32C 4 and the frames of one turn as they arrived, padded to a whole block.
One record is one write and one sync, and the next is written only after that has returned: so only the last record can
be torn. A bad record with a valid later sequence anywhere is corruption. Files are numbered in the order of their use,
and are kept for as long as the index names anything in them.
"""

import contextlib
import errno
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import google_crc32c
import numpy
from msgspec import Struct

from mledger.bookie.errors import CorruptJournal, DiskFull
from mledger.bookie.server.storage.directories.journal_files import NO_ROOM, NO_ROOM_HINT, NUMBERED, JournalFiles
from mledger.bookie.server.storage.directories.open_files import PATIENCE_S, patiently
from mledger.metastore.runtime.durable_files import sync_directory
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

BLOCK = 4096
"""Records begin at multiples of this, so that writing one never rewrites a block that holds another."""

RECORD = struct.Struct(">QII")
FRAMES = 1
"""Kind of a record with changes by clients: frames of adds, ledgers' records."""
MOVED = 3
"""Kind of a record with runs that were moved from another file."""
OLD_FRAMES, OLD_MOVED = 0, 2
"""Kinds in directories of versions 1 and 2: no boundaries of runs, no places from which they were moved."""

MOST_TURN_BYTES = 1 << 28
"""The most bytes of a turn: with a request of LARGEST_FRAME its record stays within the limit on records."""

_KIND_SHIFT = 30
LENGTH = (1 << _KIND_SHIFT) - 1
"""The bits of a record's length, and the most bytes that a payload may have."""
_COVERED = struct.Struct(">QI")
_FARTHEST_LATER = 1 << 32
_MOST_CHUNKS = 512
_READ_BYTES = 1 << 20


class JournalPosition(Struct, frozen=True):
    """Where a record's payload begins."""

    file: int
    offset: int


class JournalRecord(Struct, frozen=True):
    """One record as found in a file."""

    sequence: int
    kind: int
    place: JournalPosition
    payload: bytes


class FileScan(Struct, frozen=True):
    """The contents of one journal file: consecutive records from its start; `first` is 0 if there are none.

    `stray` are the sequences of valid records behind the first invalid one.
    """

    file: int
    first: int
    last: int
    stray: tuple[int, ...]
    end: int = 0
    """Where the next record would begin."""
    broken: int = 0
    """The sequence that the first invalid record says it has; 0 where none was begun."""


class ReplayPlan(Struct, frozen=True):
    """What to apply again after a start: the records of `files`, in order, from sequence `first` to `last`."""

    files: tuple[int, ...]
    first: int
    last: int


def plan_replay(scans: Sequence[FileScan], first: int) -> ReplayPlan:
    """The files to replay so that everything from sequence `first` on is applied.

    CorruptJournal when a record from `first` on is bad or missing and a later one exists: a torn write at the end
    cannot cause that.
    """
    chains = sorted((scan for scan in scans if scan.first), key=lambda scan: scan.first)
    last = max((scan.last for scan in chains), default=0)
    for scan in scans:
        later = [sequence for sequence in scan.stray if sequence > last and sequence >= first]
        if later:
            raise CorruptJournal(_corrupt(f"record {last + 1} is bad, but file {scan.file} has a valid {min(later)}"))
    needed = [scan for scan in chains if scan.last >= first]
    expected = first
    for scan in needed:
        if scan.first > expected:
            missing = f"records {expected} to {scan.first - 1} are bad or missing"
            raise CorruptJournal(_corrupt(f"{missing}, but file {scan.file} continues at {scan.first}"))
        expected = scan.last + 1
    return ReplayPlan(tuple(scan.file for scan in needed), first, max(last, first - 1))


def has_reached(scans: Sequence[FileScan], first: int, file: int, live: Mapping[int, int]) -> bool:
    """Whether `file` still has the record before `first`, which the index has entered from there, or a damaged one.

    An older copy of the journal beside its index lacks it, and what was acknowledged after it. Where no row names
    anything in the file (`live`), the file may have begun without a record.
    """
    if live.get(file, 0) <= 0:
        return True
    last = first - 1
    return all(scan.broken == last or max(scan.last, *scan.stray, 0) >= last for scan in scans if scan.file == file)


def plan_continued(scans: Sequence[FileScan], last: int, live: Mapping[int, int]) -> FileScan | None:
    """The highest file, which is continued behind its `end` if there is no room for another one.

    Args:
        scans: the scanned files.
        last: the journal's last record. A file that does not end with it has only old records, of a former use.
        live: bytes of each file that the index names.

    Returns:
        None if the index names data behind unreadable records: that must not be overwritten.
    """
    highest = max(scans, key=lambda scan: scan.file, default=None)
    if highest is None or highest.last == last:
        return highest
    return None if live.get(highest.file, 0) > 0 else FileScan(highest.file, 0, 0, ())


def _corrupt(what: str) -> str:
    return f"journal: {what}; no torn write does this: restore the directory, or remove it and re-replicate its ledgers"


def checksum(salt: bytes, sequence: int, word: int, chunks: Sequence[bytes]) -> int:
    """The CRC32C of a record: the directory's salt, sequence, kind and length, and the payload."""
    value: int = google_crc32c.value(salt + _COVERED.pack(sequence, word))
    for chunk in chunks:
        value = google_crc32c.extend(value, chunk)
    return value


def file_path(directory: str, number: int) -> str:
    """The path of a journal file."""
    return os.path.join(directory, f"{number:08d}.journal")


def file_size(directory: str, number: int) -> int:
    """The bytes of a journal file. OSError."""
    return os.stat(file_path(directory, number)).st_size


def file_numbers(directory: str) -> list[int]:
    """The numbers of the journal files in `directory`, rising."""
    return sorted(int(found[1]) for name in os.listdir(directory) if (found := NUMBERED.fullmatch(name)))


def make_durable(directory: str, numbers: Iterable[int]) -> None:
    """Sync files, so that everything that can be read of them survives a power loss. OSError.

    A process that was killed, or a sync that failed, leaves unsynced data in the page cache: it would be served and
    then be lost. So the files are synced, and then read from the disk.
    """
    for number in numbers:
        file = os.open(file_path(directory, number), os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
    sync_directory(directory)


def scan_file(directory: str, number: int, salt: bytes) -> FileScan:
    """Scan one journal file. OSError when it cannot be read."""
    with _opened(directory, number) as file:
        first = last = end = 0
        for record in _chain(file, salt):
            first, last = first or record.sequence, record.sequence
            end = padded(record.place.offset + len(record.payload))
        return FileScan(number, first, last, tuple(_stray(file, salt, end, last)), end, _sequence(file, end))


def read_records(directory: str, number: int, salt: bytes) -> Iterator[JournalRecord]:
    """The consecutive records from the start of a file. OSError when it cannot be read."""
    with _opened(directory, number) as file:
        yield from _chain(file, salt)


def padded(size: int) -> int:
    """The size of the blocks that `size` bytes occupy."""
    return (size + BLOCK - 1) // BLOCK * BLOCK


class _File(Struct, frozen=True):
    """A journal file that is read, never memory-mapped: there a bad sector would end the process without a message."""

    number: int
    descriptor: int
    size: int

    def read(self, at: int, length: int) -> bytes:
        """`length` bytes at `at`, which are within the file."""
        parts = []
        while length:
            try:
                part = os.pread(self.descriptor, length, at)
            except OSError as error:
                what = f"journal file {self.number} cannot be read at {at}: {error.strerror}"
                raise OSError(error.errno, what) from error
            if not part:
                raise OSError(errno.EIO, f"journal file {self.number} was cut off at {at} while it was read")
            parts.append(part)
            at, length = at + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@contextlib.contextmanager
def _opened(directory: str, number: int) -> Iterator[_File]:
    descriptor = os.open(file_path(directory, number), os.O_RDONLY)
    try:
        yield _File(number, descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _record(file: _File, salt: bytes, at: int) -> JournalRecord | None:
    """The record at `at`, None if there is no valid one."""
    if at + RECORD.size > file.size:
        return None
    sequence, word, crc = RECORD.unpack(file.read(at, RECORD.size))
    start, length = at + RECORD.size, word & LENGTH
    if not sequence or start + length > file.size:
        return None
    payload = file.read(start, length)
    if checksum(salt, sequence, word, (payload,)) != crc:
        return None
    return JournalRecord(sequence, word >> _KIND_SHIFT, JournalPosition(file.number, start), payload)


def _sequence(file: _File, at: int) -> int:
    """The sequence that a record at `at` says it has; 0 if there is none."""
    return RECORD.unpack(file.read(at, RECORD.size))[0] if at + RECORD.size <= file.size else 0


def _chain(file: _File, salt: bytes) -> Iterator[JournalRecord]:
    at, expected = 0, 0
    while (record := _record(file, salt, at)) is not None and expected in (0, record.sequence):
        yield record
        at, expected = padded(record.place.offset + len(record.payload)), record.sequence + 1


def _stray(file: _File, salt: bytes, start: int, last: int) -> Iterator[int]:
    """Sequences above `last` of valid records at or behind `start`."""
    for at in range(start, file.size - BLOCK + 1, _READ_BYTES):
        blocks = min(_READ_BYTES, file.size - at) // BLOCK
        data = file.read(at, blocks * BLOCK)
        heads = numpy.ndarray(blocks, ">u8", data, 0, (BLOCK,)).astype(numpy.uint64)
        for block in numpy.flatnonzero((heads > last) & (heads < last + _FARTHEST_LATER)).tolist():
            record = _record(file, salt, at + block * BLOCK)
            if record is not None:
                yield record.sequence


class Journal:
    """The files of one directory, written by one thread. A record is durable when `append` returns."""

    def __init__(
        self,
        directory: str,
        salt: bytes,
        file_bytes: int,
        number: int,
        needed: Callable[[], int] | None = None,
        *,
        sync: bool = True,
    ) -> None:
        """Write behind file `number`. Fresh files get `file_bytes` bytes; files called free are used first.

        `needed` says how many bytes of the disk are needed for something else. Without `sync`, records outlive the
        process, but not the machine.
        """
        self._directory, self._salt = directory, salt
        self._number, self._sync = number, sync
        self._files = JournalFiles(directory, file_bytes, needed, sync=sync)
        self._file = -1
        self._at = self._size = 0
        self.write_s = self.sync_s = 0.0
        """How long the last record took to write, and to sync."""
        self.index_room: Callable[[], int] | None = None
        """Tells how many bytes may be written before the index is flushed, if its disk has no room for a flush."""

    @property
    def current(self) -> int:
        """The number of the file that is written."""
        return self._number

    @property
    def size(self) -> int:
        """The bytes of that file: it never gets shorter."""
        return max(self._size, self._at)

    @property
    def last_room(self) -> int | None:
        """Bytes left in the current file if there is no room for another one, or for the flush after it; else None."""
        if self.index_room is not None:
            return min(self._size - self._at, self.index_room())
        return self._size - self._at if self._files.last else None

    def holds(self, length: int) -> bool:
        """Whether the current file has room for a record of `length` bytes."""
        return self._at + padded(RECORD.size + length) <= self._size

    def check_room(self, wanted: int) -> None:
        """Raise DiskFull if the disk has no room for another file, and `wanted` bytes exceed what this one has left."""
        if self.last_room is not None and wanted > self.last_room:
            raise DiskFull(self._files.no_room)

    def open(self, last: FileScan | None = None) -> None:
        """Prepare a file to write to. OSError, of NO_ROOM when there is no room for one.

        If there is no room for another file, `last` is continued at its end (`plan_continued`); a torn record behind it
        is overwritten.
        """
        try:
            self._next_file()
        except OSError as error:
            if error.errno not in NO_ROOM or last is None:
                raise
            path = file_path(self._directory, last.file)
            size = os.stat(path).st_size
            if size - last.end < BLOCK:
                raise
            self._file, self._at, self._size = os.open(path, os.O_RDWR), last.end, size
            log.error("journal_file_continued", file=last.file, at=last.end, hint=NO_ROOM_HINT)

    def append(self, sequence: int, kind: int, chunks: list[bytes]) -> JournalPosition:
        """Write one record and sync it. OSError: the record's state is unknown, and the process must end."""
        length = sum(map(len, chunks))
        size = RECORD.size + length
        room = padded(size)
        if length > LENGTH:
            raise ValueError(f"a record of {length} bytes, {LENGTH} is the most")
        if self._at and not self.holds(length):
            self._next_file(PATIENCE_S)
        word = kind << _KIND_SHIFT | length
        head = RECORD.pack(sequence, word, checksum(self._salt, sequence, word, chunks))
        if len(chunks) > _MOST_CHUNKS:
            chunks = [b"".join(chunks)]
        began = time.perf_counter()
        written = os.pwritev(self._file, [head, *chunks, bytes(room - size)], self._at)
        if written != room:
            raise OSError(f"journal file {self._number}: {written} of {room} bytes written")
        at = time.perf_counter()
        if self._sync:
            os.fdatasync(self._file)
        self.write_s, self.sync_s = at - began, time.perf_counter() - at
        place = JournalPosition(self._number, self._at + RECORD.size)
        self._at += room
        if self._at * 2 > self._size:
            self._files.prepare()
        return place

    def recycle(self, number: int) -> None:
        """Reuse a file of which nothing is needed any more."""
        self._files.recycle(file_path(self._directory, number))

    def keep_reserve(self) -> None:
        """Reserve a file for the time when the disk is full, if there is room for one now."""
        self._files.keep_reserve()

    def close(self) -> None:
        """Close the file in use; nothing is written."""
        self._files.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _next_file(self, patience_s: float = 0.0) -> None:
        path = file_path(self._directory, self._number + 1)
        size = patiently(partial(self._files.take, path), patience_s)
        file = patiently(partial(os.open, path, os.O_RDWR), patience_s)
        if self._file >= 0:
            os.close(self._file)
        self._number += 1
        self._file, self._at, self._size = file, 0, size
