"""Background tasks: kept, named, and reported when they fail."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger

T = TypeVar("T")

log = get_logger(__name__)


async def outcome(task: "asyncio.Task[T]", stopped: Callable[[], MledgerError]) -> T:
    """What `task` comes to; who gives up waiting does not end it, and leaves a MledgerError of it without a report.

    Where the task itself was cancelled it raises what `stopped` says: a CancelledError would be taken for the caller's
    own, and drop its work without a word.
    """
    if not task.done():
        try:
            await _ended(task)
        except BaseException:
            task.add_done_callback(_unwaited)
            raise
    if task.cancelled():
        raise stopped()
    return task.result()


async def _ended(task: "asyncio.Task[Any]") -> None:
    """Wait until `task` has ended, however; `asyncio.wait` costs several times as much."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: "asyncio.Task[Any]") -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        task.remove_done_callback(wake)


def _unwaited(task: "asyncio.Task[Any]") -> None:
    """A task has ended for which somebody, perhaps everybody, has given up waiting: report what is a fault."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, MledgerError):
        where = {"message": f"{task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(where)


class Background:
    """The background tasks of one topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._tasks: set[asyncio.Task[Any]] = set()
        self._endless: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], what: str, *, endless: bool = False) -> "asyncio.Task[T]":
        """Run `work`. A MledgerError is logged with `what`; other errors go to the loop's handler.

        `endless`: the work retries until it succeeds, so `finish` cancels it.
        """
        task = asyncio.get_running_loop().create_task(work, name=f"{self._topic}: {what}")
        self._tasks.add(task)
        if endless:
            self._endless.add(task)
        task.add_done_callback(partial(self._done, what))
        return task

    def _done(self, what: str, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        self._endless.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, MledgerError):
            log.warning("task_failed", topic=self._topic, task=what, error=error)
        elif error is not None:
            loop = task.get_loop()
            loop.call_exception_handler({"message": f"{task.get_name()} failed", "exception": error, "task": task})

    async def finish(self) -> None:
        """Cancel endless tasks, also those that begin meanwhile, and wait for all tasks to end."""
        cancelled: set[asyncio.Task[Any]] = set()
        while others := self._tasks - {asyncio.current_task()}:
            for task in self._endless - cancelled:
                task.cancel()
            cancelled |= self._endless
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)

    def stop(self) -> None:
        """Cancel all tasks: what they have not begun does not happen. Those that end already are left to it."""
        for task in self._tasks - {asyncio.current_task()}:
            if not task.cancelling():  # a second time it would cut off what a task does at its end
                task.cancel()

    async def cancel(self) -> None:
        """Cancel all tasks and wait for them to end."""
        self.stop()
        await self.finish()
