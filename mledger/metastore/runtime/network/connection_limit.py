"""Limits the number of a server's connections."""

import asyncio

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

_TOLD_S = 1.0


class ConnectionLimit:
    """Counts connections. Refusals are logged once a second, not once per connection."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.inside = 0
        self.refused = 0
        self._told_at = float("-inf")

    def enter(self, peer: str) -> bool:
        """Admit a connection; False when the limit is reached."""
        if self.inside < self.most:
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
