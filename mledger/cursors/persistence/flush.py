"""Writes a cursor's changes to its store: one write for all pending changes, at the throttled rate (C3)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from mledger.metastore.errors import MledgerError


class Flusher:
    """Runs `write`, which makes the current state durable, once for all requests since the last run.

    `interval_s` is the minimum time between the starts of two writes; `flush` does not wait for it.
    """

    def __init__(self, write: Callable[[], Awaitable[None]], interval_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self.interval_s = interval_s
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._next_at = 0.0
        self._hurry: asyncio.Future[None] | None = None
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether a write is requested or under way."""
        return self._task is not None

    def request(self) -> "asyncio.Future[None]":
        """A future with the outcome of the next write that begins after this call."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        return waiter

    async def flush(self) -> None:
        """Write now, without waiting for the interval."""
        waiter = self.request()
        self._next_at = 0.0
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)
        await waiter

    async def stop(self) -> "list[asyncio.Future[None]]":
        """Wait for the write under way; return the waiters for another one, which will not happen.

        Those that `fail` has failed meanwhile, as where that write was of a reset, are not among them.
        """
        self._stopping = True
        self._next_at = 0.0
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)
        if self._task is not None:
            await asyncio.wait([self._task])
        self._stopping = False
        waiters, self._waiters = self._waiters, []
        return waiters

    async def idle(self) -> None:
        """Wait until no write is requested or under way."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def fail(self, error: MledgerError) -> None:
        """Fail the waiters for a write that has not begun."""
        waiters, self._waiters = self._waiters, []
        fail(waiters, error)

    async def abandon(self, error: MledgerError) -> None:
        """Start no more writes, cancel the one under way, and fail all waiters with `error`."""
        self.fail(error)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._waiters:
                await self._turn()
                if self._stopping or not self._waiters:
                    break
                waiters, self._waiters = self._waiters, []
                self._next_at = self._loop.time() + self.interval_s
                try:
                    await self._write()
                except MledgerError as error:
                    fail(waiters, error)
                except BaseException as error:  # who asked meanwhile would wait for good
                    interrupted = MledgerError(f"the write of a cursor's state was interrupted: {error!r}")
                    fail(waiters, interrupted)
                    self.fail(interrupted)
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
    """Complete the waiters: the state is durable."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def fail(waiters: "Iterable[asyncio.Future[None]]", error: MledgerError) -> None:
    """Fail the waiters with `error`."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)
            waiter.exception()  # mark it as retrieved: an event reports the error anyway
