"""ZooKeeper's persistent recursive watch (op 106, servers from 3.6 on): an event for each change in a tree.

Kazoo lacks it. A request is the path and the mode. An event names a node that was created, changed or deleted; a
changed list of children is not one. The server sends it before any reply that shows the change, and the connection
passes both on in that order. The watch ends with the connection.
"""

import struct
from collections.abc import Awaitable, Callable
from typing import Any

from kazoo.exceptions import MarshallingError, UnimplementedError

from mledger.metastore.errors import MetadataError
from mledger.metastore.store import SessionState
from mledger.metastore.zookeeper.connection import ZooKeeperConnection

ADD_WATCH = 106
PERSISTENT_RECURSIVE = 1

_INT = struct.Struct("!i")


class AddWatch:
    """A request for a persistent recursive watch, as kazoo's client sends it."""

    type = ADD_WATCH

    def __init__(self, path: str) -> None:
        """Watch the tree at `path`, which includes the chroot."""
        self._path = path

    def serialize(self) -> bytes:
        """The bytes after the request's own header."""
        encoded = self._path.encode()
        return _INT.pack(len(encoded)) + encoded + _INT.pack(PERSISTENT_RECURSIVE)

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> None:
        """The reply says nothing that its header does not."""


class TreeWatch:
    """Watches a tree until the connection is lost."""

    def __init__(
        self,
        connection: ZooKeeperConnection,
        root: str,
        changed: Callable[[str], None],
        lost: Callable[[], None],
    ) -> None:
        """Call `changed` with each node that changes at or below `root`, chroots included, and `lost` at the end."""
        self._connection = connection
        self._root = root
        self._below = root.rstrip("/") + "/"
        self._changed = changed
        self._lost = lost
        self._armed = False

    async def arm(self, read: Callable[[Any], Awaitable[Any]]) -> bool:
        """Set the watch; False if the server has none. `read` sends a request, again after a lost connection.

        If the connection was lost meanwhile, `lost` has been called already.
        """
        self._connection.listen_to_events(self._event)
        self._connection.session.listen(self._session_changed)
        self._armed = True
        try:
            await read(AddWatch(self._root))
        except BaseException as error:
            self._disarm()
            if is_refused(error):
                return False
            raise
        return True

    def _event(self, path: str) -> None:
        if self._armed and (path == self._root or path.startswith(self._below)):
            self._changed(path)

    def _session_changed(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED and self._armed:
            self._disarm()
            self._lost()

    def _disarm(self) -> None:
        if self._armed:
            self._armed = False
            self._connection.unlisten_to_events(self._event)
            self._connection.session.unlisten(self._session_changed)


def is_refused(error: BaseException) -> bool:
    """Whether the server has no such watch: it is too old, or its watch manager (`WatchManagerOptimized`) lacks it."""
    cause = error.__cause__ if isinstance(error, MetadataError) else error
    return isinstance(cause, MarshallingError | UnimplementedError)
