"""A watch that lasts. ZooKeeper's fire once and are lost with the connection; this one is set again before it reports.

Changes between two settings are found by the node's transaction ids, so no lasting change is missed; several changes
may be reported as one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from kazoo.protocol.serialization import Exists, GetChildren2
from kazoo.protocol.states import EventType

from mledger.metastore.errors import NodeNotFound, StoreUnavailable
from mledger.metastore.session import ENDED
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.zookeeper.connection import ZooKeeperConnection

AGAIN_S = 0.5
"""Seconds until a watch that could not be set is set again."""

Mark = tuple[int, int] | None  # transactions of the node's creation and of its last change; None: no node


def plan_changes(before: Mark, after: Mark, changed: NodeChange) -> list[NodeChange]:
    """What happened to a node between two looks at it; `changed` is what a later transaction means."""
    if before == after:
        return []
    if before is None:
        return [NodeChange.CREATED]
    if after is None:
        return [NodeChange.DELETED]
    return [changed] if before[0] == after[0] else [NodeChange.DELETED, NodeChange.CREATED]


class Watch:
    """Watches one node, or its list of children, for one user."""

    def __init__(
        self,
        connection: ZooKeeperConnection,
        path: str,
        children: bool,
        read: Callable[[Any], Awaitable[Any]],
    ) -> None:
        """Watch `path` (chroot included) over `connection`; `read` sends a request and gives its result."""
        self._connection = connection
        self._path = path
        self._children = children
        self._read = read
        self._woken = asyncio.Event()
        self._lost = False
        self._mark: Mark = None
        connection.session.listen(self._session_changed)

    async def arm(self) -> None:
        """Set the watch at the server and remember how the node is now."""
        while True:
            if self._children:
                try:
                    _, stat = await self._read(GetChildren2(self._path, self._on_event))
                except NodeNotFound:
                    pass
                else:
                    self._mark = (stat.czxid, stat.pzxid)
                    return
            stat = await self._read(Exists(self._path, self._on_event))
            if stat is None or not self._children:
                self._mark = None if stat is None else (stat.czxid, stat.mzxid)
                return

    async def changes(self) -> AsyncIterator[NodeChange]:
        """The changes since `arm`; ends with SessionExpired or StoreClosed."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._connection.session.state is SessionState.SUSPENDED:
                await self._woken.wait()
                self._woken.clear()
            self._connection.session.check()
            for change in await self._look_again():
                yield change

    async def _look_again(self) -> list[NodeChange]:
        lost, before = self._lost, self._mark
        self._lost = False
        try:
            await self.arm()
        except StoreUnavailable:
            self._connection.session.check()
            self._lost = True
            await asyncio.sleep(AGAIN_S)  # a server that throttles requests refuses them at once
            self._woken.set()
            return []
        if lost:
            return [NodeChange.UNKNOWN]
        return plan_changes(before, self._mark, NodeChange.CHILDREN if self._children else NodeChange.CHANGED)

    def cancel(self) -> None:
        """Stop watching."""
        self._connection.session.unlisten(self._session_changed)
        self._connection.forget_watch(self._path, self._on_event)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self._lost = True
        if state is SessionState.CONNECTED or state in ENDED:
            self._woken.set()

    def _on_event(self, event: Any) -> None:
        """Kazoo's callback, on its own thread."""
        if event.type != EventType.NONE:
            self._connection.call(self._woken.set)
