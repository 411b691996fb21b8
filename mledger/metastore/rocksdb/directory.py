"""The directory of a RocksDB metadata store: its format, its lock (one process at a time), and its socket.

A Unix socket's path holds only some 100 bytes. Where the directory's path is longer, the socket is reached through
`/proc/self/fd/<the open directory>/`, which allows paths of any length.
"""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator

from mledger.metastore.errors import InvalidMetadataDirectory
from mledger.metastore.runtime.network.fork_guard import close_held, hold, hold_listener

FORMAT_VERSION = 1
"""The layout this program writes, and the only one it reads."""

SOCKET = "metadata.sock"
_FORMAT = "FORMAT"
_TITLE = "mledger metadata directory"
_ROWS = "store"
_CURRENT = "CURRENT"  # every RocksDB directory has it
_LONGEST = 100  # bytes: 104 on some systems, 108 on Linux, with an end mark
_BACKLOG = 1024


class MetadataDirectory:
    """A directory, locked for this process. Nothing in it is changed before `begin`."""

    def __init__(self, path: str) -> None:
        """Lock the directory; create it if missing. InvalidMetadataDirectory when it is in use or not a store's."""
        self.path = os.path.abspath(path)
        self._listens = False
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._file = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise InvalidMetadataDirectory(f"{self.path}: cannot be opened: {error.strerror}; name another") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise InvalidMetadataDirectory(
                f"{self.path}: another process serves this directory: use it as rocksdb:{self.path}, or stop it"
            ) from None
        hold(self._file)
        try:
            self._check()
        except InvalidMetadataDirectory:
            self.unlock()
            raise

    @property
    def rows(self) -> str:
        """Where RocksDB is."""
        return os.path.join(self.path, _ROWS)

    @property
    def begun(self) -> bool:
        """Whether the directory may hold a tree."""
        return os.path.exists(self.rows)

    def begin(self) -> None:
        """Mark the directory as ours, in this program's format."""
        path = os.path.join(self.path, _FORMAT)
        if os.path.exists(path):
            return
        with open(f"{path}.new", "w") as file:
            file.write(f"{_TITLE}\nversion {FORMAT_VERSION}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)
        os.fsync(self._file)

    def keep_rows(self) -> None:
        """Make the name of RocksDB's directory durable: without it, the next start would begin an empty tree."""
        os.fsync(self._file)

    def listen(self) -> socket.socket:
        """Listen on the directory's socket, to which clients connect; it replaces a former process's socket."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.path, SOCKET))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _reachable(self.path) as path:
                listener.bind(path)
            os.chmod(os.path.join(self.path, SOCKET), 0o600)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            hold_listener(listener)
        except OSError:
            listener.close()
            raise
        self._listens = True
        return listener

    def unlock(self) -> None:
        """Let another process use the directory."""
        if self._listens:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, SOCKET))
        close_held(self._file)

    def _check(self) -> None:
        path = os.path.join(self.path, _FORMAT)
        try:
            with open(path, errors="replace") as file:
                title, *lines = file.read().splitlines() or [""]
        except FileNotFoundError:
            if os.path.exists(os.path.join(self.path, _CURRENT)):
                raise InvalidMetadataDirectory(
                    f"{self.path} is another program's RocksDB (Pulsar's own store perhaps): name another directory"
                ) from None
            if os.path.exists(self.rows):
                raise InvalidMetadataDirectory(
                    f"{path} is missing but there is a {_ROWS}: restore it, or name another directory"
                ) from None
            return
        if title != _TITLE or lines != [f"version {FORMAT_VERSION}"]:
            raise InvalidMetadataDirectory(
                f"{path} says {' '.join([title, *lines])!r}, this program knows {_TITLE} version {FORMAT_VERSION}: "
                "start the version of mledger that wrote it, or name another directory"
            )


def holds_store(path: str) -> bool:
    """Whether there is a store in the directory `path`; neither is changed or created."""
    return os.path.exists(os.path.join(path, _ROWS, _CURRENT))


def connect(directory: str) -> socket.socket:
    """Connect to the server of `directory`; the socket does not block. OSError when there is none or it is too busy."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        with _reachable(directory) as path:
            connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def _reachable(directory: str) -> Iterator[str]:
    """A path of the socket in `directory` that is short enough to connect to."""
    path = os.path.join(directory, SOCKET)
    if len(os.fsencode(path)) <= _LONGEST:
        yield path
        return
    if not os.path.isdir("/proc/self/fd"):
        raise OSError(errno.ENAMETOOLONG, f"a socket's path holds {_LONGEST} bytes here: use a shorter path", path)
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{SOCKET}"
    finally:
        os.close(opened)
