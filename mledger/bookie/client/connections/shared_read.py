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
        self._begun = False

    async def get(self, *, fresh: bool = False) -> T:
        """What `read` returns, or its error; `fresh`: of a read that begins now or later.

        A thousand who ask for a fresh one in the same turn of the loop share it, too: it begins after that.
        """
        reading = self._reading
        if reading is None or (fresh and self._begun):
            self._begun = False
            reading = self._reading = asyncio.get_running_loop().create_task(self._run())
            reading.add_done_callback(self._ended)
        await asyncio.wait([reading])
        return reading.result()

    async def _run(self) -> T:
        self._begun = True
        return await self._read()

    def _ended(self, reading: "asyncio.Task[T]") -> None:
        if self._reading is reading:
            self._reading = None
        if not reading.cancelled():
            reading.exception()  # mark it retrieved: all who waited may be gone
