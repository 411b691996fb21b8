"""A reader of metadata that outlives its session: when the session ends at the server, it opens another.

- A read in progress is sent again in the new session.
- Reads never go back in time: servers keep this promise within a session only, so that a new one, which may be with a
  server that lags, is synced before it is used. An older record would look like another owner's, and a ledger that was
  created since like one that is deleted already.
- A watch continues in the new session, beginning with NodeChange.UNKNOWN.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

from mledger.metastore.errors import SessionExpired, StoreClosed, StoreUnavailable
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import MetadataReader, Node, NodeChange, SessionState, Stat

R = TypeVar("R", bound=MetadataReader)
T = TypeVar("T")

REOPEN_FIRST_S = 0.1
REOPEN_LAST_S = 5.0
LOOK_EVERY_S = 0.5
WATCH_AGAIN_S = 0.5
SESSION_ENDED = (SessionExpired, StoreClosed)
"""What a store's session ends with: a store of two is closed as a whole when the session of one has expired."""

log = get_logger(__name__)


class RenewedReader(MetadataReader, Generic[R]):
    """Uses `store`, and after its session has ended what `reopen` returns; requests wait at most `timeout` seconds."""

    def __init__(self, store: R, reopen: Callable[[], Awaitable[R]], timeout: float) -> None:
        self._store = store
        self._reopen = reopen
        self._timeout = timeout
        self._listeners: list[Callable[[], None]] = []
        self._renewing: asyncio.Task[None] | None = None
        self._closed = False
        self._looking = asyncio.get_running_loop().create_task(self._look())

    def on_renewed(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each new session."""
        self._listeners.append(listener)

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._store.url

    @property
    def session_state(self) -> SessionState:
        """The session's last known state; SUSPENDED until another session is open."""
        if self._closed:
            return SessionState.CLOSED
        state = self._store.session_state
        return SessionState.SUSPENDED if self._renewing is not None or state is SessionState.EXPIRED else state

    async def wait_for_session(self, state: SessionState, timeout: float) -> None:
        """Return when the session is in `state`; TimeoutError after `timeout` seconds."""
        async with TimeLimit(timeout):
            while self.session_state is not state:
                if self._renewing is not None:
                    await asyncio.wait([self._renewing], timeout=LOOK_EVERY_S)
                    continue
                with contextlib.suppress(TimeoutError):
                    await self._store.wait_for_session(state, LOOK_EVERY_S)

    async def sync(self) -> None:
        """As `MetadataReader.sync`."""
        await self._read(lambda store: store.sync())

    async def get(self, path: str) -> Node:
        """The node at `path`; NodeNotFound."""
        return await self._read(lambda store: store.get(path))

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, None where there is none."""
        return await self._read(lambda store: store.get_many(paths))

    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""
        return await self._read(lambda store: store.exists(path))

    async def children(self, path: str) -> list[str]:
        """The names of the children of `path`, sorted; NodeNotFound."""
        return await self._read(lambda store: store.children(path))

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node."""
        return await self._read(lambda store: store.children_many(paths))

    async def acl_many(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The access control list of each of `paths`."""
        return await self._read(lambda store: store.acl_many(paths))

    @asynccontextmanager
    async def watch(self, path: str, *, children: bool = False) -> AsyncIterator[AsyncIterator[NodeChange]]:
        """Changes, as `MetadataReader.watch`, across sessions."""
        async with AsyncExitStack() as stack:

            async def arm() -> AsyncIterator[NodeChange]:
                return await self._read(lambda store: stack.enter_async_context(store.watch(path, children=children)))

            async def follow(changes: AsyncIterator[NodeChange]) -> AsyncGenerator[NodeChange, None]:
                while True:
                    try:
                        async for change in changes:
                            yield change
                        return
                    except SESSION_ENDED:
                        await stack.aclose()
                    while True:
                        with contextlib.suppress(StoreUnavailable):
                            changes = await arm()
                            break
                        await asyncio.sleep(WATCH_AGAIN_S)  # a store that refuses at once must not be asked without end
                    yield NodeChange.UNKNOWN

            yield follow(await arm())

    async def close(self) -> None:
        """End the session without opening another."""
        self._closed = True
        for task in (self._looking, self._renewing):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._store.close()

    async def _read(self, ask: Callable[[R], Awaitable[T]]) -> T:
        while True:
            store = await self._live()
            try:
                return await ask(store)
            except SESSION_ENDED:  # `_live` raises, if this store is closed
                self._renew(store)

    async def _live(self) -> R:
        """The store of the current session."""
        if self._closed:
            raise StoreClosed(f"{self.url} was closed by this program")
        if self._renewing is not None:
            await asyncio.wait([self._renewing], timeout=self._timeout)
            if self._renewing is not None:
                raise StoreUnavailable(
                    f"the session with {self.url} has ended and no other could be opened within {self._timeout:g} s: "
                    "check that it runs there and can be reached"
                )
        return self._store

    def _renew(self, ended: R) -> None:
        """Open another session, unless that of `ended` has been replaced already or is being replaced."""
        if self._store is ended and self._renewing is None and not self._closed:
            self._renewing = asyncio.get_running_loop().create_task(self._open_another(ended))

    async def _open_another(self, ended: R) -> None:
        log.warning("session_ended", url=self.url)
        delay = REOPEN_FIRST_S
        while True:
            try:
                self._store = await self._open_synced()
                break
            except Exception as error:  # errors of the system too: nobody else would try again
                log.warning("session_not_renewed", url=self.url, error=error)
                await asyncio.sleep(delay)
                delay = min(REOPEN_LAST_S, 2 * delay)
        self._renewing = None
        log.warning("session_renewed", url=self.url)
        for listener in self._listeners:
            listener()
        await ended.close()

    async def _open_synced(self) -> R:
        store = await self._reopen()
        try:
            await store.sync()
        except BaseException:
            await store.close()
            raise
        return store

    async def _look(self) -> None:
        """Notice when a session ends while there are no requests."""
        while True:
            if self._renewing is not None:
                await asyncio.wait([self._renewing])
            store = self._store
            with contextlib.suppress(TimeoutError):
                await store.wait_for_session(SessionState.EXPIRED, 3600.0)
                self._renew(store)
