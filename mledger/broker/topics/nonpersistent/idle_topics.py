"""Closes non-persistent topics that nobody uses any more, as Pulsar deletes them: nothing else ends them.

A topic is in use while it has producers or subscriptions. A policy of its namespace comes before the broker's settings.
"""

import asyncio
from collections.abc import Callable, Iterable

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.metastore.cluster.service_policies import ServicePolicies
from mledger.metastore.runtime.logs import get_logger
from mledger.metastore.runtime.times import wall_clock_ms

log = get_logger(__name__)


def plan_idle_limit_s(settings: BrokerSettings, policies: ServicePolicies) -> float | None:
    """For how many seconds a topic stays open without use; None: for ever."""
    inactive = policies.inactive_topics
    if inactive is not None:
        return max(0, inactive.after_s) if inactive.delete else None
    return (settings.idle_limit_s or settings.idle_check_s) if settings.delete_idle_topics is not False else None


class IdleTopics:
    """Looks through the open non-persistent topics by the clock."""

    def __init__(self, topics: Callable[[], Iterable[NonPersistentTopic]], settings: BrokerSettings) -> None:
        self._topics = topics
        self._settings = settings
        self._task: asyncio.Task[None] | None = None

    def configure(self, settings: BrokerSettings) -> None:
        """Take over changed settings; the next look is at the time that the old ones named."""
        self._settings = settings

    def start(self) -> None:
        """Look at the interval that the settings name, until `stop`."""
        self._task = asyncio.get_running_loop().create_task(self._repeat())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    def close_idle(self, now_ms: int) -> None:
        """Close the topics that have been without use for too long at `now_ms` since 1970."""
        for topic in self._topics():
            limit_s = plan_idle_limit_s(self._settings, topic.policies)
            if topic.in_use:
                topic.used_ms = now_ms
            elif limit_s is not None and now_ms - topic.used_ms >= limit_s * 1000:
                log.info("idle_topic_closed", topic=topic.name, idle_s=(now_ms - topic.used_ms) // 1000)
                topic.end()

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.idle_check_s)
            self.close_idle(wall_clock_ms())
