"""`asyncio.timeout`, also for what a cancelled task still does to clean up.

There, asyncio of Python 3.11.2, as Debian has it, lets the CancelledError of the limit itself pass, as if somebody had
cancelled the task again: what was to follow the limit is skipped.
"""

import asyncio
from types import TracebackType


class TimeLimit:
    """An async context manager that raises TimeoutError after so many seconds; None: never."""

    __slots__ = ("_before", "_bound", "_task")

    def __init__(self, seconds: float | None) -> None:
        self._bound = asyncio.timeout(seconds)

    async def __aenter__(self) -> asyncio.Timeout:
        """Begin; returns what says whether it has expired."""
        task = asyncio.current_task()
        assert task is not None
        self._task, self._before = task, task.cancelling()
        return await self._bound.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; TimeoutError if it has expired and nobody has cancelled the task meanwhile."""
        await self._bound.__aexit__(kind, error, traceback)
        cut_off = kind is asyncio.CancelledError and self._bound.expired()
        if cut_off and self._task.cancelling() <= self._before:
            raise TimeoutError from error
