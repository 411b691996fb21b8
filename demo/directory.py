"""The demo's directory: the demo removes what an earlier run left there, and nothing of anyone else's."""

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

LOCK = "demo.lock"
"""In every directory of the demo; whoever runs the demo there holds a lock on it."""
STANDALONE, STANDALONE_LOCK = "standalone", "standalone.lock"


class DirectoryNotFree(Exception):
    """The directory is not the demo's, or in use."""


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Have the directory for this run; it is created if missing. DirectoryNotFree, before anything is changed."""
    if directory.exists() and not (directory / LOCK).exists() and any(directory.iterdir()):
        raise DirectoryNotFree(f"{directory} holds something that the demo did not make: name another --dir")
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory / LOCK, f"{directory}: another demo runs here: wait for it, or name another --dir"):
        yield


def empty(directory: Path) -> None:
    """Remove what an earlier run left. DirectoryNotFree if a standalone that was started on its data runs."""
    lock = directory / STANDALONE / STANDALONE_LOCK
    if lock.exists():
        with _locked(lock, f"{lock.parent}: a standalone runs on the earlier demo's data: stop it"):
            pass
    for each in directory.iterdir():
        if each.name == LOCK:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


@contextlib.contextmanager
def _locked(path: Path, otherwise: str) -> Iterator[None]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DirectoryNotFree(otherwise) from None
        yield
