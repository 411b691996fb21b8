"""Directories of standalones that keep nothing: each is removed at the end, or by the next start after a kill -9.

Its owner holds a lock on it while it lives. It gets its name only once it is locked, so a directory of that name
without a lock is always one that a dead process left. systemd's cleaning of /tmp minds these locks, too.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref

from mledger.metastore.runtime.network.fork_guard import close_held, hold
from mledger.standalone.errors import not_usable

PREFIX = "mledger-ephemeral-"
_NEW = "mledger-new-"


class EphemeralDirectory:
    """A new directory, this process's own until `remove`, the end of the process, or nobody uses this object."""

    def __init__(self) -> None:
        """Remove what dead processes left, and make the directory. StandaloneError."""
        parent = tempfile.gettempdir()
        remove_abandoned(parent)
        try:
            new = tempfile.mkdtemp(prefix=_NEW, dir=parent)
            lock = open_locked(new)
            self.path = os.path.join(parent, PREFIX + os.path.basename(new).removeprefix(_NEW))
            os.rename(new, self.path)
        except OSError as error:
            raise not_usable(parent, error.strerror or str(error)) from error
        self.remove = weakref.finalize(self, _remove_own, self.path, lock, os.getpid())
        """Remove it with all that is in it; later calls, and those of a forked process, do nothing."""


def remove_abandoned(parent: str) -> None:
    """Remove this user's directories in `parent` whose owners are dead; leave those that cannot be removed."""
    with contextlib.suppress(OSError), os.scandir(parent) as found:
        for each in found:
            if each.name.startswith(PREFIX) and each.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(each)


def _remove_if_abandoned(found: os.DirEntry[str]) -> None:
    if found.stat(follow_symlinks=False).st_uid == os.geteuid():
        _remove(found.path, open_locked(found.path))


def open_locked(path: str, *, follow_symlinks: bool = False) -> int:
    """Lock a directory and return its descriptor. BlockingIOError if another process has the lock."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | (0 if follow_symlinks else os.O_NOFOLLOW))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    hold(lock)
    return lock


def _remove_own(path: str, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked process that ends does not take the directory from its parent
        _remove(path, lock)


def _remove(path: str, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    close_held(lock)
