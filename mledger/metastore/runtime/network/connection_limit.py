"""Limits the number of a server's connections."""

import asyncio
import resource
import socket

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

_TOLD_S = 1.0
_LAST_FILES = 512
"""The files that connections leave to the rest of a process; half of all if it may open fewer than twice as many."""


class ConnectionLimit:
    """Counts connections. Refusals are logged once a second, not once per connection."""

    def __init__(self, most: int, *, leaves_files: bool = False) -> None:
        """Admit `most` at once; `leaves_files`: none that takes the last files of a process with other parts."""
        self.most, self._leaves_files = most, leaves_files
        self.inside = 0
        self.refused = 0
        self._told_at = float("-inf")

    def enter(self, peer: str, connection: socket.socket | None = None) -> bool:
        """Admit a connection; False when the limit is reached."""
        if self.inside < self.most and not (self._leaves_files and takes_last_files(connection)):
            self.inside += 1
            return True
        self.refused += 1
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= _TOLD_S:
            self._told_at = now
            log.warning("connection_refused", peer=peer, connections=self.inside, refused=self.refused, most=self.most)
        return False

    def leave(self) -> None:
        """Note that an admitted connection has ended."""
        self.inside -= 1


def takes_last_files(connection: socket.socket | None) -> bool:
    """Whether a new connection is one of the last files that its process can open; False for one without a socket.

    The rest of the process needs them: in a standalone, a metadata store and bookies, which end if they can open no
    file. A new file gets the lowest free number, so that its number shows how many others are open.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if connection is None or soft == resource.RLIM_INFINITY:
        return False
    return connection.fileno() >= max(soft - _LAST_FILES, soft // 2)
