"""Proxies before servers that make links slow, deaf, half-open or cut."""

import asyncio
import contextlib
import enum
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_CHUNK = 1 << 16
_CALL_S = 300.0

Address = tuple[str, int]


class LinkState(enum.Enum):
    """The state of a link. All except `CUT` keep connections; held bytes come late, but none is lost."""

    GOOD = "good"
    SLOW = "slow"  # every chunk, either way, takes SLOW_S
    DEAF = "deaf"  # what the server sends does not arrive; what is sent to it does
    HALF_OPEN = "half-open"  # nothing arrives, either way, and neither side is notified
    CUT = "cut"  # connections are reset, new ones too


SLOW_S = 0.05


class Proxies:
    """An event loop in a thread of its own, and the proxies that run on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        self._proxies: list[Proxy] = []

    def before(self, target: Address) -> "Proxy":
        """A new proxy before the server at `target`."""
        proxy = Proxy(self, target)
        self.call(proxy.start())
        self._proxies.append(proxy)
        return proxy

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have work done on the loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)

    def close(self) -> None:
        """End every connection, and the thread."""
        for proxy in self._proxies:
            self.call(proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Proxy:
    """One server's proxy; `address` is where clients reach it."""

    def __init__(self, proxies: Proxies, target: Address) -> None:
        self.target, self.address = target, ("127.0.0.1", 0)
        self._proxies = proxies
        self._link = LinkState.GOOD
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    def set(self, link: LinkState) -> None:
        """Put the link into this state. After `HALF_OPEN` its connections are reset, since nobody would trust them."""
        self._proxies.call(self._set(link))

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        """Reset every connection and stop listening."""
        self._server.close()
        self._reset()
        for task in list(self._tasks):
            task.cancel()

    async def _set(self, link: LinkState) -> None:
        if link is LinkState.CUT or self._link is LinkState.HALF_OPEN:
            self._reset()
        self._link = link
        self._changed.set()
        self._changed = asyncio.Event()

    def _reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._link is LinkState.CUT:
            writer.transport.abort()
            return
        try:
            onward = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward[1]}
        pumps = [self._pump(reader, onward[1], answers=False), self._pump(onward[0], writer, answers=True)]
        tasks = [asyncio.ensure_future(pump) for pump in pumps]
        self._tasks |= set(tasks)
        try:
            await asyncio.wait(tasks)
        finally:
            for each in (writer, onward[1]):
                each.transport.abort()
                self._writers.discard(each)
            self._tasks -= set(tasks)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                while self._link is LinkState.HALF_OPEN or (self._link is LinkState.DEAF and answers):
                    await self._changed.wait()
                if self._link is LinkState.SLOW:
                    await asyncio.sleep(SLOW_S)
                sink.write(data)
                await sink.drain()
        sink.close()
