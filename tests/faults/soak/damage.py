"""Damage to a bookie's files, and its repair."""

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mledger.bookie.server.storage.directories.directory import decode_format
from mledger.bookie.server.storage.journal import (
    BLOCK,
    LENGTH,
    RECORD,
    checksum,
    file_numbers,
    file_path,
    read_records,
    scan_file,
)

TMPFS_MB = 192


@dataclass(frozen=True, slots=True)
class Flip:
    """One changed byte; `back` changes it back if the file still exists."""

    path: Path
    offset: int

    def back(self) -> bool:
        """Whether the file still exists."""
        with contextlib.suppress(FileNotFoundError):
            _invert(self.path, self.offset)
            return True
        return False


def flip(path: Path, offset: int) -> Flip:
    """Invert the byte of a file at `offset`."""
    _invert(path, offset)
    return Flip(path, offset)


def _invert(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        value = file.read(1)[0]
        file.seek(offset)
        file.write(bytes((value ^ 0xFF,)))
        file.flush()
        os.fsync(file.fileno())


def flip_in_stored_entries(directory: Path, rng: random.Random, count: int) -> list[Flip]:
    """Invert bytes inside records of the journal's files, where a bookie keeps its entries."""
    journal = str(directory / "journal")
    flips = []
    for number in file_numbers(journal)[-3:]:
        path = Path(file_path(journal, number))
        places = _record_places(journal, number, _salt(directory))[:-1]  # the very last one would count as torn
        chosen = rng.sample(places, min(count, len(places)))
        flips += [flip(path, at + rng.randrange(60, 160)) for at in chosen]
    return flips


def _record_places(journal: str, number: int, salt: bytes) -> list[int]:
    """Where the payloads of a file's records of a certain length begin; behind them a reused file has older ones."""
    return [each.place.offset for each in read_records(journal, number, salt) if len(each.payload) > 200]


def has_entries(directory: Path) -> bool:
    """Whether the journal's newest file holds several records of entries."""
    journal = str(directory / "journal")
    return len(_record_places(journal, file_numbers(journal)[-1], _salt(directory))) > 3


def flip_in_index(directory: Path, rng: random.Random) -> list[Flip]:
    """Invert a byte in the blocks of every table of RocksDB."""
    tables = sorted((directory / "store").glob("*.sst"))
    return [flip(table, rng.randrange(table.stat().st_size // 4)) for table in tables]


def tear_journal(directory: Path) -> None:
    """Leave, after the last record, what a power cut leaves of an unacknowledged write: its first half."""
    journal, salt = directory / "journal", _salt(directory)
    scans = [scan_file(str(journal), number, salt) for number in file_numbers(str(journal))]
    last = max(scans, key=lambda scan: scan.last)
    path = Path(file_path(str(journal), last.file))
    end = _end_of_records(path, last.last)
    payload = b"torn" * 4096
    head = RECORD.pack(last.last + 1, len(payload), checksum(salt, last.last + 1, len(payload), (payload,)))
    with path.open("r+b") as file:
        file.seek(end)
        file.write((head + payload)[: len(payload) // 2])


def _end_of_records(path: Path, last: int) -> int:
    data, at = path.read_bytes(), 0
    while True:
        sequence, word, _ = RECORD.unpack_from(data, at)
        at += -(-(RECORD.size + (word & LENGTH)) // BLOCK) * BLOCK
        if sequence == last:
            return at


def _salt(directory: Path) -> bytes:
    path = directory / "FORMAT"
    return decode_format(path.read_text(), str(path)).salt


@contextlib.contextmanager
def small_disk(mount_point: Path, size_mb: int = TMPFS_MB) -> Iterator[bool]:
    """Mount a file system of so many MiB at `mount_point`; False if this machine does not allow it."""
    mount_point.mkdir(parents=True)
    options = f"size={size_mb}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount_point)], capture_output=True, check=False
    )
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", str(mount_point)], check=True)


def fill_disk(directory: Path) -> Path:
    """Write a file as large as the space that is left, and return its path.

    What a bookie releases meanwhile is for the bookie.
    """
    path, found = directory / "ballast", os.statvfs(directory)
    left = found.f_bavail * found.f_frsize
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while left > 0:
            left -= file.write(bytes(min(1 << 20, left)))
    return path
