"""Small files written whole or not at all, and on disk when that is said."""

import contextlib
import os
from pathlib import Path

OWNER_ONLY = 0o600


def write_beside(path: Path, data: bytes, mode: int = 0o666) -> Path:
    """Write and sync a new file in the directory of `path`, to take that name by a link or a rename; its path.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        temporary.unlink()
        raise
    return temporary


def replace_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Put a file with `data` in the place of `path`, durable on return.

    Raises:
        OSError: that failed; what was at `path` is still there.
    """
    temporary = write_beside(path, data, mode)
    try:
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def take_new_name(temporary: Path, path: Path) -> None:
    """Give a written file the name `path`, durable on return; it loses its own.

    Raises:
        FileExistsError: there is a file of that name.
        OSError: it cannot have that name.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links; if that is not the reason, this fails too
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
        try:
            temporary.replace(path)
        except BaseException:
            path.unlink()
            raise
    else:
        temporary.unlink()
    sync_directory(path.parent)


def sync_directory(path: str | Path) -> None:
    """Sync a directory, so that its file names survive a power loss."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
