"""Decides by free disk space whether a bookie takes new entries."""

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from mledger.bookie.errors import BookieError, DiskFull, InvalidBookieDirectory
from mledger.bookie.server.storage.directories.journal_files import (
    NO_ROOM,
    NO_ROOM_HINT,
    RoomHolder,
    drop_unfinished,
    free_bytes,
)
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

_UNUSABLE = (errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.ENFILE)

FREE_MIB = 256
FEWEST_FILES = 64
"""A disk counts as full on which fewer files can be created: a flush of the index needs some, and a start too."""
LARGEST_COMPACTION = 256 << 20
"""Bytes that one compaction of the index takes at most: its files are small for that. A bookie that takes entries has
as much room, unless its settings say otherwise: uncompacted, its index would get slower with each journal file."""

FLUSH_BYTES = 4 << 20
"""Bytes that must be free beside the index's memtables where its reserve is gone: for flushes before the next look."""

LARGEST_WHOLE_COMPACTION = 2 << 30
"""The same of a compaction of the whole index, which RocksDB does in larger parts."""

LITTLE_BYTES = 1 << 20
"""Free bytes below which a start writes only what it must into the index's directory."""


class DiskLimits(Struct, frozen=True):
    """When a disk counts as full, and how often to check. Shares are of the disk's size, 1.0 is no limit."""

    min_free_bytes: int = FREE_MIB << 20
    full_share: float = 1.0
    warn_share: float = 1.0
    low_water_share: float = 1.0
    look_s: float = 5.0
    stop_when_full: bool = False


class Disk(Struct, frozen=True):
    """A disk that a bookie writes to, in bytes; `files` can still be created on it."""

    size: int
    free: int
    files: int = sys.maxsize

    @property
    def used_share(self) -> float:
        """The share of the disk that is not free to the bookie."""
        return 1 - self.free / self.size if self.size else 1.0

    @property
    def left(self) -> str:
        """What is free, in words; inodes only where they are few."""
        return f"{self.free} bytes{f' and {self.files} inodes' if self.has_few_files else ''} free"

    @property
    def has_few_files(self) -> bool:
        """Whether a bookie that is read-only for its inodes stays so."""
        return self.files < 2 * FEWEST_FILES


def plan_read_only(read_only: bool, disk: Disk, limits: DiskLimits) -> bool:
    """Whether a bookie is to be read-only.

    It becomes read-only when less than the minimum is free or more than the full share is used. It becomes writable
    when twice the minimum is free and the low-water share is not exceeded, so that it does not fill up again at once.
    The same holds for the fewest files that it must be possible to create.
    """
    times, share = (2, limits.low_water_share) if read_only else (1, limits.full_share)
    return disk.free < times * limits.min_free_bytes or disk.used_share > share or disk.files < times * FEWEST_FILES


def plan_full(read_only: bool, disks: Mapping[str, Disk], limits: DiskLimits) -> list[str]:
    """The paths for whose disks a bookie is to be read-only: every disk needs room, however full others are."""
    return [path for path, disk in disks.items() if plan_read_only(read_only, disk, limits)]


def why_full(disks: Iterable[Disk]) -> str:
    """What a log says of the `disks` that are full; none if only the journal has no room for another file."""
    if any(disk.has_few_files for disk in disks):
        return "the disk has no room for more files (inodes), remove some"
    return "disk full, make room"


def disk_of(path: str) -> Disk:
    """The disk that holds `path`. OSError.

    Any number of files can be created on one that does not count inodes: it says that it has none, or, as CephFS does,
    that the largest unsigned number is free, which is -1 here.
    """
    found = os.statvfs(path)
    counted = found.f_files and found.f_favail >= 0
    files = found.f_favail if counted else sys.maxsize
    return Disk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, files)


def fullest(paths: Sequence[str]) -> Disk:
    """Of the disks that hold `paths` the one of which the largest share is used. OSError."""
    return min(map(disk_of, paths), key=lambda disk: (-disk.used_share, disk.free))


def plan_reserve(kept: bool, free: int, size: int) -> bool:
    """Whether to keep `size` bytes of space reserved: no longer when less than half as much is free besides.

    They are reserved again when three times as much is free.
    """
    return free >= size // 2 if kept else free >= 3 * size


def plan_compacting(free: int, missing: int, index_bytes: int, largest: int = LARGEST_COMPACTION) -> bool:
    """Whether an index may be compacted on a disk with `free` bytes, `missing` of which are to be kept.

    A compaction writes what it reads again, `largest` bytes at most, before it removes that, and would leave nothing
    for a flush.
    """
    return free - missing > min(index_bytes, largest)


def plan_flushing(free: int, missing: int, unwritten: Sequence[int]) -> bool:
    """Whether an index's disk has room for flushes: `free` bytes, of which `missing` are to be reserved.

    `unwritten` are the bytes of the memtables of each column family.
    """
    return not missing or free >= sum(unwritten) + FLUSH_BYTES


def plan_index_room(unwritten: Sequence[int], memtable_bytes: int) -> int:
    """Bytes that the journal may take before a memtable of `memtable_bytes` is full, and all of them are flushed.

    A ledger's row in the index has at most three times the bytes that it has in the journal.
    """
    return max(memtable_bytes * 3 // 4 - max(unwritten), 0) // 3


def says_full(error: BaseException) -> bool:
    """Whether an error says that a disk is full, or a quota used up. RocksDB says so only in its text."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return True
    return any(os.strerror(code) in str(error) for code in NO_ROOM)


def says_unusable(error: BaseException) -> bool:
    """Whether an error says that a disk or its permissions fail, or open files; what is on the disk may be whole."""
    return any(os.strerror(code) in str(error) for code in _UNUSABLE)


@contextlib.contextmanager
def though_full() -> Iterator[None]:
    """Go on although a disk is full."""
    try:
        yield
    except Exception as error:
        if not says_full(error):
            raise


@contextlib.contextmanager
def damage_named(path: str) -> Iterator[None]:
    """Raise what keeps a directory from being opened, begun or looked at as InvalidBookieDirectory or DiskFull.

    For blocks that fail their checksum, and for what the disk refuses, rocksdict raises nothing more specific than
    Exception.
    """
    try:
        yield
    except BookieError:
        raise
    except Exception as error:
        if says_full(error):
            raise DiskFull(
                f"{path}: disk full, the bookie cannot start: {error}. Make room and start it again"
            ) from error
        if isinstance(error, OSError) or (type(error) is Exception and says_unusable(error)):
            what = f"{path}: cannot be opened: {error}; see to the disk and its permissions and start again"
            raise InvalidBookieDirectory(what) from error
        if type(error) is not Exception:
            raise
        what = f"{path}: the index is damaged: {error}"
        raise InvalidBookieDirectory(f"{what}; restore the directory, or remove it and re-replicate") from error


class Reserve:
    """Disk space reserved for the time when the disk is full, so that the index can be opened and flushed."""

    def __init__(self, directory: str, size: int) -> None:
        """`size` bytes in the file `reserve` of a bookie's directory.

        Raises:
            OSError: what a killed process left there cannot be removed.
        """
        self._directory, self._size = directory, size
        self._path = os.path.join(directory, "reserve")
        drop_unfinished(self._path)
        self._holder = RoomHolder(self._path, size)
        self._tending = threading.Lock()

    @property
    def missing(self) -> int:
        """Bytes that should be reserved and are not."""
        return 0 if os.path.exists(self._path) else self._size

    @property
    def refused(self) -> bool:
        """Whether there was no room for them when the disk said that there is: a quota keeps it."""
        return self._holder.refused and self.missing > 0

    def is_on_disk_of(self, directory: str) -> bool:
        """Whether a directory is on the disk of the reserved space. OSError."""
        return os.stat(directory).st_dev == os.stat(self._directory).st_dev

    def needed_of(self, directory: str) -> int:
        """Bytes on the disk of `directory` that should be reserved and are not.

        Under a quota that keeps them from being reserved these are all that are free: what the quota still gives is
        needed for the index's flushes, and nobody can tell how much that is.
        """
        if not self.is_on_disk_of(directory):
            return 0
        return free_bytes(directory) if self.refused else self.missing

    def tend(self, *, keep: bool = True) -> None:
        """Release the space where the disk is nearly full. Where it has room, reserve the space again, if `keep`.

        On any thread: who needs the space waits until it is free, if another thread releases it. The file's name goes
        before its blocks do.

        Raises:
            OSError: the disk cannot be looked at, or the file cannot be removed.
        """
        with self._tending:
            self._tend(keep)

    def release(self) -> bool:
        """Release the space although the disk says that more is free: a quota keeps it. False if there was none.

        Raises:
            OSError: the file cannot be removed.
        """
        with self._tending:
            kept = os.path.exists(self._path)
            if kept:
                self._release()
            return kept

    def _tend(self, keep: bool) -> None:
        kept = os.path.exists(self._path)
        wanted = plan_reserve(kept, free_bytes(self._directory), self._size)
        if kept and not wanted:
            self._release()
        elif wanted and keep and not kept:
            self._holder.hold()

    def _release(self) -> None:
        log.error("reserve_released", directory=self._directory, bytes=self._size, hint=NO_ROOM_HINT)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
