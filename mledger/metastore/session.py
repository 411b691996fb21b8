"""A session's state as one event loop sees it, and those who wait for it to change."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection

from mledger.metastore.errors import MetadataError, SessionExpired, StoreClosed
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import MetadataReader, NodeChange, SessionState

SESSION_TIMEOUT_S = 10.0
"""Without contact for so long, a session ends with its ephemeral nodes, unless another time is configured."""
ENDED = (SessionState.EXPIRED, SessionState.CLOSED)


class Session:
    """State of one session; EXPIRED and CLOSED are final. Used on one loop only."""

    def __init__(self, url: str, state: SessionState) -> None:
        self.url = url
        self.state = state
        self._waiters: set[asyncio.Future[None]] = set()
        self._listeners: list[Callable[[SessionState], None]] = []

    def listen(self, listener: Callable[[SessionState], None]) -> None:
        """Have `listener` called with every new state, until `unlisten`."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[SessionState], None]) -> None:
        """Undo `listen`."""
        self._listeners.remove(listener)

    def change(self, state: SessionState) -> None:
        """Move to `state` unless the session has ended, and tell everybody."""
        if state is self.state or self.state in ENDED:
            return
        self.state = state
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in list(self._listeners):
            listener(state)

    async def wait_for(self, state: SessionState) -> None:
        """Return when the session is in `state`."""
        await self.wait_for_any((state,))

    async def wait_for_any(self, states: Collection[SessionState]) -> None:
        """Return when the session is in one of `states`."""
        while self.state not in states:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def ended(self) -> MetadataError | None:
        """The error of a session that has ended; None while it lasts."""
        if self.state is SessionState.EXPIRED:
            return SessionExpired(
                f"the session with {self.url} has expired, its ephemeral nodes are gone: open a new one"
            )
        if self.state is SessionState.CLOSED:
            return StoreClosed(f"{self.url} was closed by this program")
        return None

    def check(self) -> None:
        """Raise SessionExpired or StoreClosed if the session has ended."""
        if error := self.ended():
            raise error


class WatchedChanges:
    """The changes of a node that one user has not taken yet, until the session ends.

    Of equal ones in a row there is one: of a namespace in which thousands of topics are created while its user looks
    at it, the user looks once more, and not thousands of times.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting = asyncio.Queue[NodeChange | None]()
        self._latest: NodeChange | None = None

    def add(self, change: NodeChange | None) -> None:
        """Note a change; None ends them."""
        if self._waiting.empty() or change is not self._latest:
            self._latest = change
            self._waiting.put_nowait(change)

    def state_changed(self, state: SessionState) -> None:
        """End with the session."""
        if state in ENDED:
            self.add(None)

    async def taken(self) -> AsyncIterator[NodeChange]:
        """Take them, one after another; SessionExpired or StoreClosed once the session has ended."""
        while (change := await self._waiting.get()) is not None:
            yield change
        self._session.check()


class SessionReader(MetadataReader):
    """The part of a reader that depends only on its session, `_session`."""

    _session: Session

    @property
    def url(self) -> str:
        """The URL this store was opened with, credentials left out."""
        return self._session.url

    @property
    def session_state(self) -> SessionState:
        """The session's last known state."""
        return self._session.state

    async def wait_for_session(self, state: SessionState, timeout: float) -> None:
        """Return when the session is in `state`; TimeoutError after `timeout` seconds."""
        async with TimeLimit(timeout):
            await self._session.wait_for(state)
