"""What looks by the clock for open topics that nobody uses any more."""

import asyncio
import time
from abc import ABC, abstractmethod

from mledger.broker.settings import BrokerSettings
from mledger.metastore.runtime.times import wall_clock_ms


class UnusedTopics(ABC):
    """Looks at the interval that the settings name, from `start` until `stop`."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def look(self, now_ms: int, slept_s: float) -> None:
        """Look through the topics at `now_ms` since 1970, `slept_s` seconds after the last look ended."""

    def configure(self, settings: BrokerSettings) -> None:
        """Take over changed settings; the next look is at the time that the old ones named."""
        self._settings = settings

    def start(self) -> None:
        """Look again and again."""
        self._task = asyncio.get_running_loop().create_task(self._repeat())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _repeat(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(self._settings.idle_check_s)
            await self.look(wall_clock_ms(), time.monotonic() - began_s)
