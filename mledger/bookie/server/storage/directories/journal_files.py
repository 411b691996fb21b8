"""Preallocated files for the journal, one of them reserved for the time when the disk is full."""

import contextlib
import errno
import itertools
import mmap
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from mledger.metastore.runtime.durable_files import sync_directory
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

RESERVE = "reserve.journal"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What a system says when a disk is full, or the quota on it used up."""

NO_ROOM_HINT = "the disk is full or its quota used up, make room"

NUMBERED = re.compile(r"([0-9]{8}|[1-9][0-9]{8,})\.journal")
"""The names of files in use, by their number: of eight digits, or more from 100,000,000 on."""

HOLD_AGAIN_S = 300.0
"""How long room that was refused is not reserved again, unless as much has become free meanwhile."""

_FILL_BYTES = 1 << 20
_UNFINISHED = ".new"
_FREE = re.compile(r"free-([0-9]+)\.journal")


class JournalFiles:
    """The unused files in a journal's directory. Used by the thread that writes the journal.

    When the disk or its quota has no room for more, `take` uses the reserve, and after that fails: `last` says that no
    file is left but the one taken last.
    """

    def __init__(
        self, directory: str, file_bytes: int, needed: Callable[[], int] | None = None, *, sync: bool = True
    ) -> None:
        """New files get `file_bytes` bytes; unused files of former processes are taken first.

        `needed` returns the bytes of the disk that something else needs and that are not to be taken.
        Without `sync` nothing here is synced, and room is allocated instead of filled with zeros.

        Raises:
            OSError: the directory cannot be read, or what a killed process left there cannot be removed.
        """
        self._directory, self._file_bytes, self._needed = directory, file_bytes, needed
        self._sync = sync
        found = {name: match for name in sorted(os.listdir(directory)) if (match := _FREE.fullmatch(name))}
        self._free = [os.path.join(directory, name) for name in found]
        self._names = itertools.count(max((int(match[1]) for match in found.values()), default=0) + 1)
        self._spare: Future[str] | None = None
        self._maker = ThreadPoolExecutor(1, "journal-spare")
        self._maker.submit(int)  # begins the thread now: later the system may have no more, and that ends the process
        self._reserve = os.path.join(directory, RESERVE)
        drop_unfinished(self._reserve)
        self._reserved = os.path.exists(self._reserve)
        self._holder = RoomHolder(self._reserve, file_bytes)
        self._short = False

    @property
    def last(self) -> bool:
        """Whether no file follows the one taken last, and there is no room for one."""
        return self._short and not self._free and not self._reserved

    @property
    def no_room(self) -> str:
        """What an error says when no file is left."""
        return f"disk full: there is no room for another journal file in {self._directory}: make room"

    def take(self, path: str) -> int:
        """Put a full-size file at `path`; return its size. OSError, of NO_ROOM when there is no room for one.

        After another error it may be tried again: a file that was put there already is replaced.
        """
        source = self._take_free() or self._make_or_reserved()
        os.rename(source, path)
        if self._sync:
            sync_directory(self._directory)
        return os.stat(path).st_size

    def _take_free(self) -> str:
        if self._spare is not None:
            spare, self._spare = self._spare, None
            try:
                self._free.append(spare.result())
            except OSError as error:  # the disk may have been full then: retry now
                log.warning("journal_spare_failed", directory=self._directory, error=error)
        while self._free:
            path = self._free.pop(0)
            try:
                self._make_room(path)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    self._free.insert(0, path)
                    raise
                os.unlink(path)
                continue
            return path
        return ""

    def _make_or_reserved(self) -> str:
        try:
            path, self._short = self._make(), False
            return path
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._short = True
            if not self._reserved:
                raise OSError(errno.ENOSPC, self.no_room) from error
        log.error("journal_reserve_used", directory=self._directory, hint=NO_ROOM_HINT)
        self._reserved = False
        return self._reserve

    def prepare(self) -> None:
        """Create a file in the background, unless there is one."""
        if not self._free and self._spare is None:
            self._spare = self._maker.submit(self._make)

    def recycle(self, used: str) -> None:
        """Take back a file of which nothing is needed any more, to reuse or remove it."""
        if self._short and not self._reserved and os.stat(used).st_size >= self._file_bytes:
            os.rename(used, self._reserve)
            self._reserved = True
        elif self._free or self._spare is not None:
            os.unlink(used)
        else:
            path = os.path.join(self._directory, f"free-{next(self._names)}.journal")
            os.rename(used, path)
            self._free.append(path)

    def keep_reserve(self) -> None:
        """Reserve space for the time when the disk is full, if there is room now; all of it, if some was released."""
        if not (self._reserved and is_whole(self._reserve, self._file_bytes)):
            self._reserved = self._holder.hold() or self._reserved

    def close(self) -> None:
        """Wait for the file that is being created."""
        self._maker.shutdown()

    def _make(self) -> str:
        """Create a file under a name that marks it as unused."""
        path = os.path.join(self._directory, f"free-{next(self._names)}.journal")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            if self._needed is not None and free_bytes(self._directory) < self._file_bytes + self._needed():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._make_room(path)
        except OSError:
            os.unlink(path)
            raise
        return path

    def _make_room(self, path: str) -> None:
        if self._sync:
            fill(path, self._file_bytes)
        else:
            allocate(path, self._file_bytes)


def free_bytes(directory: str) -> int:
    """The free bytes on a directory's disk. OSError."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def hold_room(path: str, size: int) -> None:
    """Create a file with `size` bytes of allocated, unwritten blocks. OSError, and then there is no file."""
    temporary = path + _UNFINISHED
    file = os.open(temporary, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        os.posix_fallocate(file, 0, size)
        os.fsync(file)
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        os.close(file)


def is_whole(path: str, file_bytes: int) -> bool:
    """Whether a file exists and has `file_bytes` bytes. OSError."""
    return os.path.exists(path) and os.stat(path).st_size >= file_bytes


def release_half(directory: str, file_bytes: int) -> bool:
    """Release half of the space that a journal has reserved in its directory; False if it has no whole file.

    What is left is enough for the next file, which a start may need, and for fences.

    Raises:
        OSError: the file cannot be cut off.
    """
    path = os.path.join(directory, RESERVE)
    if not is_whole(path, file_bytes):
        return False
    os.truncate(path, file_bytes // 2)
    log.error("journal_reserve_cut", directory=directory, bytes=file_bytes // 2, hint=NO_ROOM_HINT)
    return True


class RoomHolder:
    """Reserves room at a path. Where there is none, as under a used-up quota, it is not tried again at once.

    Each try takes what room there is from all others, and waits for the disk. The log says once that there is none.
    """

    def __init__(self, path: str, size: int) -> None:
        self._path, self._size = path, size
        self._refused_at: float | None = None
        self._free = 0

    @property
    def refused(self) -> bool:
        """Whether there was no room when it was tried last."""
        return self._refused_at is not None

    def hold(self) -> bool:
        """Reserve the room; False if that fails, or failed lately."""
        try:
            free = self._free_now()
            if self._refused_lately(free):
                return False
            hold_room(self._path, self._size)
        except OSError as error:
            no_room = error.errno in NO_ROOM
            if not no_room or self._refused_at is None:
                log.warning("reserve_missing", path=self._path, error=error)
            if no_room:
                self._refused_at, self._free = time.monotonic(), free
                with contextlib.suppress(OSError):  # others may have filled the disk meanwhile, and may leave it again
                    self._free = min(free, self._free_now())
            return False
        self._refused_at = None
        return True

    def _free_now(self) -> int:
        return free_bytes(os.path.dirname(self._path))

    def _refused_lately(self, free: int) -> bool:
        """Whether there was no room some minutes ago, and not as much as is wanted has become free since."""
        if self._refused_at is None or time.monotonic() - self._refused_at >= HOLD_AGAIN_S:
            return False
        return free < self._free + self._size


def drop_unfinished(path: str) -> None:
    """Remove what a process that was killed in `hold_room` has left: nobody else would. OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + _UNFINISHED)


def allocate(path: str, wanted: int) -> None:
    """Extend a file to `wanted` bytes of allocated, unwritten blocks. OSError."""
    file = os.open(path, os.O_RDWR)
    try:
        os.posix_fallocate(file, 0, wanted)
    finally:
        os.close(file)


def fill(path: str, wanted: int) -> None:
    """Extend a file to `wanted` bytes of written zeros, so that later syncs change no metadata.

    The zeros bypass the page cache where the file system allows it: there they would only evict data that is read.
    """
    size = os.stat(path).st_size
    if size >= wanted:
        _sync(path)  # a process that was killed while it made the file did not
        return
    start = size // _FILL_BYTES * _FILL_BYTES
    try:
        _write_zeros(path, start, wanted, os.O_RDWR | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _write_zeros(path, start, wanted, os.O_RDWR)


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write_zeros(path: str, start: int, end: int, flags: int) -> None:
    file = os.open(path, flags)
    try:
        os.posix_fallocate(file, 0, end)
        with mmap.mmap(-1, _FILL_BYTES) as zeros:
            for at in range(start, end, _FILL_BYTES):
                os.pwrite(file, zeros, at)
        os.fsync(file)
    finally:
        os.close(file)
