"""A reader of metadata that asks for at most so many nodes per second, and counts them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from mledger.metastore.runtime.rate_limiter import RateLimiter
from mledger.metastore.store import MetadataReader, Node, NodeChange, SessionState, Stat

BURSTS_A_SECOND = 50
"""Requests are for a fiftieth of a second's nodes each: other programs' requests wait behind them."""

T = TypeVar("T")


class PacedReader(MetadataReader):
    """Reads from `inner`, at most `rate` nodes or lists of children per second; closing it closes `inner`."""

    def __init__(self, inner: MetadataReader, rate: float) -> None:
        self._inner = inner
        self._limiter = RateLimiter(rate)
        self._step = max(1, int(rate / BURSTS_A_SECOND))
        self.requested = 0
        """Nodes and lists of children asked for so far."""

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._inner.url

    @property
    def session_state(self) -> SessionState:
        """The session's last known state."""
        return self._inner.session_state

    async def wait_for_session(self, state: SessionState, timeout: float) -> None:
        """Return when the session is in `state`; TimeoutError after `timeout` seconds."""
        await self._inner.wait_for_session(state, timeout)

    async def sync(self) -> None:
        """As `MetadataReader.sync`."""
        await self._pace(1)
        await self._inner.sync()

    async def get(self, path: str) -> Node:
        """The node at `path`; NodeNotFound."""
        await self._pace(1)
        return await self._inner.get(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, None where there is none."""
        return await self._in_steps(self._inner.get_many, paths)

    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""
        await self._pace(1)
        return await self._inner.exists(path)

    async def children(self, path: str) -> list[str]:
        """The names of the children of `path`, sorted; NodeNotFound."""
        await self._pace(1)
        return await self._inner.children(path)

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node."""
        return await self._in_steps(self._inner.children_many, paths)

    async def acl_many(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The access control list of each of `paths`."""
        return await self._in_steps(self._inner.acl_many, paths)

    def watch(self, path: str, *, children: bool = False) -> AbstractAsyncContextManager[AsyncIterator[NodeChange]]:
        """Changes of a node or of its list of children, as `MetadataReader.watch`."""
        return self._inner.watch(path, children=children)

    async def watch_tree(self, path: str, changed: Callable[[str], None], lost: Callable[[], None]) -> bool:
        """As `MetadataReader.watch_tree`."""
        await self._pace(1)
        return await self._inner.watch_tree(path, changed, lost)

    async def close(self) -> None:
        """End the session. A second call does nothing."""
        await self._inner.close()

    async def _in_steps(self, read: Callable[[Sequence[str]], Awaitable[list[T]]], paths: Sequence[str]) -> list[T]:
        found: list[T] = []
        for start in range(0, len(paths), self._step):
            some = paths[start : start + self._step]
            await self._pace(len(some))
            found += await read(some)
        return found

    async def _pace(self, count: int) -> None:
        self.requested += count
        pause = self._limiter.pause_before(count, asyncio.get_running_loop().time())
        if pause > 0:
            await asyncio.sleep(pause)
