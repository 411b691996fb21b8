"""One read for all who ask while it is under way: of a thousand ledgers created at once, each looks for bookies."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Calls `read`, once for all who ask meanwhile. Cancelling one who waits does not end it for the others."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._reading: asyncio.Task[T] | None = None

    async def get(self, *, fresh: bool = False) -> T:
        """What `read` returns, or its error; `fresh`: of a read that began now or later."""
        reading = self._reading
        if reading is None or fresh:
            reading = self._reading = asyncio.get_running_loop().create_task(self._run())
            reading.add_done_callback(self._ended)
        await asyncio.wait([reading])
        return reading.result()

    async def _run(self) -> T:
        return await self._read()

    def _ended(self, reading: "asyncio.Task[T]") -> None:
        if self._reading is reading:
            self._reading = None
        if not reading.cancelled():
            reading.exception()  # mark it retrieved: all who waited may be gone
