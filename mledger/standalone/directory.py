"""The directory of a standalone: its lock, one process at a time, and where its parts have theirs."""

import contextlib
import fcntl
import os
import re
import shutil

from mledger.bookie.server.storage.directories.directory import is_bookie_directory
from mledger.metastore.rocksdb.directory import holds_store
from mledger.metastore.runtime.network.fork_guard import close_held, hold
from mledger.standalone.ephemeral_directory import EphemeralDirectory, open_locked
from mledger.standalone.errors import in_use, metadata_missing, not_usable, of_a_cluster, part_in_use

_LOCK = "standalone.lock"
_METADATA = "metadata"
_BOOKIE = "bookie-"
_CLUSTER = "cluster.json"  # of `mledger up`
_BOOKIES = re.compile(rf"{_BOOKIE}([1-9][0-9]?)")


class StandaloneDirectory:
    """A directory, locked for this process until `close`, which removes a temporary one."""

    def __init__(self, path: str = "") -> None:
        """Lock the directory, and create it if missing; without a path a temporary one. StandaloneError."""
        self._temporary = None if path else EphemeralDirectory()
        self.path = os.path.abspath(path) if self._temporary is None else self._temporary.path
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            if os.path.exists(os.path.join(self.path, _CLUSTER)):
                raise of_a_cluster(self.path)
            self._lock = os.open(os.path.join(self.path, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise not_usable(self.path, error.strerror or str(error)) from error
        try:
            self._take()
        except BaseException:
            os.close(self._lock)
            raise
        hold(self._lock)

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._lock, 0)
            os.write(self._lock, f"{os.getpid()}\n".encode())
        except BlockingIOError:
            owner = os.read(self._lock, 20).decode(errors="replace").strip()
            raise in_use(self.path, owner) from None
        except OSError as error:
            raise not_usable(self.path, error.strerror or str(error)) from error

    @property
    def metadata(self) -> str:
        """Where the metadata store is."""
        return os.path.join(self.path, _METADATA)

    def bookie(self, number: int) -> str:
        """Where a bookie is; the first is 1."""
        return os.path.join(self.path, f"{_BOOKIE}{number}")

    def check_metadata(self) -> None:
        """Raise StandaloneError if a bookie has been here and the metadata store is gone; nothing is written.

        The bookie would refuse a new store, and that would stay, in the place of the one to restore.
        """
        if holds_store(self.metadata):
            return
        for number in range(1, self.bookies + 1):
            if is_bookie_directory(self.bookie(number)):
                raise metadata_missing(self.metadata, self.bookie(number))

    @property
    def bookies(self) -> int:
        """How many bookies have been here."""
        found = (_BOOKIES.fullmatch(name) for name in os.listdir(self.path))
        return max((int(each.group(1)) for each in found if each is not None), default=0)

    def wipe(self) -> None:
        """Remove the metadata and what the bookies hold; other files stay. StandaloneError, before anything is removed.

        A part may have a server of its own (`mledger bookie run`), so each is locked first.
        """
        names = [name for name in sorted(os.listdir(self.path)) if name == _METADATA or _BOOKIES.fullmatch(name)]
        parts = [os.path.join(self.path, name) for name in names]
        with contextlib.ExitStack() as locks:
            for part in parts:
                try:
                    locks.callback(close_held, open_locked(part, follow_symlinks=True))
                except BlockingIOError:
                    raise part_in_use(part) from None
                except OSError as error:
                    raise not_usable(part, error.strerror or str(error)) from error
            for part in parts:
                _empty(part)

    def close(self) -> None:
        """Let another process use the directory; remove a temporary one."""
        if self._temporary is not None:
            self._temporary.remove()
        close_held(self._lock)


def _empty(part: str) -> None:
    """Remove what is in a directory, which may be a disk of its own. StandaloneError."""
    try:
        for each in list(os.scandir(part)):
            if each.is_dir(follow_symlinks=False):
                shutil.rmtree(each.path)
            else:
                os.unlink(each.path)
    except OSError as error:
        raise not_usable(str(error.filename or part), error.strerror or str(error)) from error


def plan_bookies(asked: int | None, known: int) -> int:
    """How many bookies to start: all that have been there, since they hold entries, and at least one."""
    return max(asked or 1, known)
