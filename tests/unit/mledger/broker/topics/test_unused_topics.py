"""How long topics are unused goes by a clock that nobody sets."""

import asyncio
import time

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.unused_topics import UnusedTopics
from tests.support.aio import run

HOUR_MS = 3_600_000


class NotedLooks(UnusedTopics):
    """Hands out when it looks."""

    name = "looks"

    def __init__(self):
        super().__init__(BrokerSettings(idle_check_s=0.001))
        self.times = asyncio.Queue()

    async def look(self, now_ms, slept_s):
        self.times.put_nowait(now_ms)


def test_no_hour_passes_when_the_clock_is_set_forward_by_one(monkeypatch):
    async def main():
        looks = NotedLooks()
        looks.check.start()
        before, now_ns = await looks.times.get(), time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: now_ns() + HOUR_MS * 1_000_000)
        while not looks.times.empty():
            looks.times.get_nowait()
        assert await looks.times.get() - before < HOUR_MS
        looks.check.stop()

    run(main())
