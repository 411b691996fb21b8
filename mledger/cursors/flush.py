"""Brings a cursor's changes to its store: one write for whatever has arrived, as often as the throttle says (C3)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from mledger.metastore.errors import MledgerError


class Flusher:
    """Runs `write`, which makes the state of that moment durable, for those who asked since the last time.

    `interval_s` is the least time between the starts of two writes; `flush` does not wait for it.
    """

    def __init__(self, write: Callable[[], Awaitable[None]], interval_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._interval = interval_s
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._next_at = 0.0
        self._hurry: asyncio.Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a write is asked for or under way."""
        return self._task is not None

    def request(self) -> "asyncio.Future[None]":
        """A future that is done when a write that began after this call has succeeded, or has its error."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        return waiter

    async def flush(self) -> None:
        """The same, at once."""
        waiter = self.request()
        self._next_at = 0.0
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)
        await waiter

    async def stop(self) -> "list[asyncio.Future[None]]":
        """Wait for the write under way; who asked for another one gets none from here and is returned."""
        waiters, self._waiters = self._waiters, []
        self._next_at = 0.0
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)
        if self._task is not None:
            await asyncio.wait([self._task])
        return waiters

    def fail(self, error: MledgerError) -> None:
        """Give `error` to those who wait for a write that has not begun."""
        waiters, self._waiters = self._waiters, []
        fail(waiters, error)

    async def abandon(self, error: MledgerError) -> None:
        """Begin no further write, give up the one under way; `error` for all who wait."""
        self.fail(error)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiters:
                await self._turn()
                waiters, self._waiters = self._waiters, []
                if not waiters:
                    break
                self._next_at = self._loop.time() + self._interval
                try:
                    await self._write()
                except MledgerError as error:
                    fail(waiters, error)
                except BaseException as error:
                    fail(waiters, MledgerError(f"the write of a cursor's state was cut off: {error!r}"))
                    raise
                else:
                    succeed(waiters)
        finally:
            self._task = None

    async def _turn(self) -> None:
        delay = self._next_at - self._loop.time()
        if delay > 0:
            self._hurry = self._loop.create_future()
            await asyncio.wait([self._hurry], timeout=delay)
            self._hurry = None


def succeed(waiters: "Iterable[asyncio.Future[None]]") -> None:
    """What they wait for is durable."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def fail(waiters: "Iterable[asyncio.Future[None]]", error: MledgerError) -> None:
    """It is not, because of `error`."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)
            waiter.exception()  # it was reported as an event: who does not wait need not hear of it again
