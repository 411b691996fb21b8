"""What makes entries durable: preallocated files, overwritten and recycled (Q8; docs/bookie-storage.md has the bytes).

A record is sequence 8, length 4, CRC32C 4 and the frames of one turn as they came, padded to a whole block. One record
is one write and one sync, and the next is written only when that has returned: so only the last record may be torn. A
bad record with a valid later sequence anywhere is corruption.
"""

import mmap
import os
import re
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import google_crc32c
import numpy

from bookie.errors import CorruptJournal

BLOCK = 4096
"""Records begin at multiples of this, so that writing one never rewrites a block that holds another."""

RECORD = struct.Struct(">QII")
_COVERED = struct.Struct(">QI")
_FARTHEST_LATER = 1 << 32
_MOST_CHUNKS = 512
_FILL = bytes(1 << 20)
_NAME = re.compile(r"[0-9]{8}\.journal")


def checksum(salt: bytes, sequence: int, chunks: Sequence[bytes]) -> int:
    """The CRC32C of a record: the directory's salt, sequence, length, and the frames."""
    value: int = google_crc32c.value(salt + _COVERED.pack(sequence, sum(map(len, chunks))))
    for chunk in chunks:
        value = google_crc32c.extend(value, chunk)
    return value


@dataclass(frozen=True, slots=True)
class FileScan:
    """What one journal file holds: consecutive records from its start; `first` is 0 where there are none.

    `stray` are the sequences of records that verify and lie behind the first one that does not.
    """

    path: str
    first: int
    last: int
    stray: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What to apply again after a start: the records of `paths`, in order, from sequence `first` to `last`."""

    paths: tuple[str, ...]
    first: int
    last: int


def plan_replay(scans: Sequence[FileScan], first: int) -> ReplayPlan:
    """Which files to replay so that everything from sequence `first` on is applied.

    CorruptJournal when a record from `first` on is bad or missing and a later one is there: a torn write at the end
    cannot leave that behind.
    """
    chains = sorted((scan for scan in scans if scan.first), key=lambda scan: scan.first)
    last = max((scan.last for scan in chains), default=0)
    for scan in scans:
        later = [sequence for sequence in scan.stray if sequence > last and sequence >= first]
        if later:
            raise CorruptJournal(_corrupt(f"record {last + 1} is bad, but {scan.path} has a valid record {min(later)}"))
    needed = [scan for scan in chains if scan.last >= first]
    expected = first
    for scan in needed:
        if scan.first > expected:
            missing = f"records {expected} to {scan.first - 1} are bad or missing"
            raise CorruptJournal(_corrupt(f"{missing}, but {scan.path} goes on at {scan.first}"))
        expected = scan.last + 1
    return ReplayPlan(tuple(scan.path for scan in needed), first, max(last, first - 1))


def _corrupt(what: str) -> str:
    return f"journal: {what}; no torn write does this: restore the directory, or remove it and re-replicate its ledgers"


def scan_file(path: str, salt: bytes) -> FileScan:
    """Look through one journal file."""
    with _mapped(path) as data:
        first = last = 0
        end = 0
        for sequence, start, stop in _chain(data, salt):
            first, last, end = first or sequence, sequence, _padded(stop)
            del start
        return FileScan(path, first, last, tuple(_stray(data, salt, end, last)))


def replay(plan: ReplayPlan, salt: bytes) -> Iterator[tuple[int, bytes]]:
    """The sequence and frames of every record of the plan, in order."""
    for path in plan.paths:
        with _mapped(path) as data:
            for sequence, start, stop in _chain(data, salt):
                if sequence >= plan.first:
                    yield sequence, data[start:stop]


def journal_files(directory: str) -> list[str]:
    """The paths of the journal files in `directory`, by number."""
    return [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if _NAME.fullmatch(name)]


def _padded(size: int) -> int:
    return (size + BLOCK - 1) // BLOCK * BLOCK


class _mapped:  # noqa: N801 - used as a function
    """A file's bytes, mapped; an empty file is no bytes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._map: mmap.mmap | None = None

    def __enter__(self) -> "mmap.mmap | bytes":
        with open(self._path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return self._map

    def __exit__(self, *_: object) -> None:
        if self._map is not None:
            self._map.close()


def _record(data: "mmap.mmap | bytes", salt: bytes, at: int) -> tuple[int, int, int] | None:
    """Sequence, start and end of the frames of the record at `at`, None if there is no valid one."""
    if at + RECORD.size > len(data):
        return None
    sequence, length, crc = RECORD.unpack_from(data, at)
    start = at + RECORD.size
    if not sequence or start + length > len(data) or checksum(salt, sequence, (data[start : start + length],)) != crc:
        return None
    return sequence, start, start + length


def _chain(data: "mmap.mmap | bytes", salt: bytes) -> Iterator[tuple[int, int, int]]:
    """The consecutive records from the start of a file."""
    at, expected = 0, 0
    while (record := _record(data, salt, at)) is not None and expected in (0, record[0]):
        yield record
        at, expected = _padded(record[2]), record[0] + 1


def _stray(data: "mmap.mmap | bytes", salt: bytes, start: int, last: int) -> list[int]:
    """Sequences above `last` of valid records at or behind `start`."""
    blocks = (len(data) - start) // BLOCK
    if blocks <= 0:
        return []
    heads = numpy.ndarray(blocks, ">u8", bytes(data[start : start + blocks * BLOCK]), 0, (BLOCK,)).astype(numpy.uint64)
    candidates = numpy.flatnonzero((heads > last) & (heads < last + _FARTHEST_LATER)).tolist()
    records = (_record(data, salt, start + block * BLOCK) for block in candidates)
    return [record[0] for record in records if record is not None]


class Journal:
    """The files of one directory, written by one thread. What `append` was given is durable when it returns."""

    def __init__(self, directory: str, salt: bytes, file_bytes: int) -> None:
        """Take over the files in `directory`, all of them free; fresh ones get `file_bytes` bytes."""
        self._directory, self._salt, self._file_bytes = directory, salt, file_bytes
        paths = journal_files(directory)
        self._number = max((int(os.path.basename(path)[:8]) for path in paths), default=0)
        self._free = paths
        self._full: list[tuple[str, int]] = []  # path and last sequence, oldest first
        self._spare: Future[str] | None = None
        self._maker = ThreadPoolExecutor(1, "journal-spare")
        self._path = ""
        self._file = -1
        self._at = self._size = self._last = 0

    @property
    def full_files(self) -> int:
        """How many written files wait for the store to flush what they hold."""
        return len(self._full)

    def open(self) -> None:
        """Have a file ready to write to."""
        self._next_file()

    def append(self, sequence: int, chunks: list[bytes]) -> None:
        """Write one record and sync it. OSError: nothing is known of this record and the process must end."""
        length = sum(map(len, chunks))
        size = RECORD.size + length
        room = _padded(size)
        if self._at + room > self._size and self._at:
            self._full.append((self._path, self._last))
            self._next_file()
        head = RECORD.pack(sequence, length, checksum(self._salt, sequence, chunks))
        if len(chunks) > _MOST_CHUNKS:
            chunks = [b"".join(chunks)]
        written = os.pwritev(self._file, [head, *chunks, bytes(room - size)], self._at)
        if written != room:
            raise OSError(f"{self._path}: {written} of {room} bytes written")
        os.fdatasync(self._file)
        self._at += room
        self._last = sequence
        if not self._free and self._spare is None and self._at * 2 > self._size:
            self._spare = self._maker.submit(self._make)

    def recycle(self, first_needed: int) -> int:
        """Free the full files whose every record is below `first_needed`; how many they were."""
        passed = 0
        while passed < len(self._full) and self._full[passed][1] < first_needed:
            passed += 1
        self._free += [path for path, _ in self._full[:passed]]
        del self._full[:passed]
        return passed

    def close(self) -> None:
        """Close the file in use; nothing is written."""
        self._maker.shutdown()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _next_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        if self._free:
            self._path = self._free.pop(0)
        elif self._spare is not None:
            self._path, self._spare = self._spare.result(), None
        else:
            self._path = self._make()
        self._file = os.open(self._path, os.O_RDWR)
        self._at, self._size = 0, self._fill(self._file)

    def _make(self) -> str:
        """A fresh file, its blocks written, its name durable."""
        self._number += 1
        path = os.path.join(self._directory, f"{self._number:08d}.journal")
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            self._fill(file)
        finally:
            os.close(file)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return path

    def _fill(self, file: int) -> int:
        """Bring a file up to its size with zeros written out, so that later syncs change no metadata; its size."""
        size = os.fstat(file).st_size
        if size >= self._file_bytes:
            return size
        for at in range(size, self._file_bytes, len(_FILL)):
            os.pwrite(file, _FILL[: self._file_bytes - at], at)
        os.fsync(file)
        return self._file_bytes
