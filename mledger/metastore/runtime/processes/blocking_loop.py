"""An event loop for blocking calls: in the thread that asks, or, if a loop runs there already, in one of its own.

So the same call works in a script and in a notebook.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from mledger.metastore.runtime.processes.event_loop import loop_factory

T = TypeVar("T")


class BlockingLoop:
    """Runs coroutines, one after the other, until it is closed; a context manager."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "mledger-blocking") if _runs_here() else None
        self._runner = asyncio.Runner(loop_factory=loop_factory())

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """The result of `main`, or its error."""
        if self._thread is None:
            return self._runner.run(main)
        return self._thread.submit(self._runner.run, main).result()

    def close(self) -> None:
        """End what still runs in the loop."""
        if self._thread is None:
            self._runner.close()
            return
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
