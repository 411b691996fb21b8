"""What the broker looks at by the clock: a failure is logged and counted, and the next look comes all the same."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.failed_rounds import OutlivedRound, log_failure
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)


class PeriodicCheck:
    """Calls `look` again and again, from `start` until `stop`; `failures` counts errors that are not mledger's own.

    `interval_s` is asked before each wait, in seconds. `look` is given how many seconds the wait before it took.
    """

    def __init__(self, name: str, interval_s: Callable[[], float], look: Callable[[float], Awaitable[None]]) -> None:
        self.name = name
        self.failures = 0
        self._interval_s, self._look = interval_s, look
        self._task: asyncio.Task[None] | None = None

    @property
    def interval_s(self) -> float:
        """How many seconds the next wait takes."""
        return self._interval_s()

    def start(self) -> None:
        """Look for the first time after one interval."""
        self._task = asyncio.get_running_loop().create_task(self._repeat())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def attempt(self, event: str, work: Awaitable[None], **fields: object) -> None:
        """Do `work`, one part of a look; if it fails, log `event` with `fields`, and let the others go on."""

        def failed(error: BaseException) -> None:
            self.failures += not isinstance(error, MledgerError)
            log_failure(log, event, error, check=self.name, **fields)

        with OutlivedRound(failed):
            await work

    async def _repeat(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(self.interval_s)
            await self.attempt("check_failed", self._look(time.monotonic() - began_s))
