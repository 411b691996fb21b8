"""Closes non-persistent topics that nobody uses any more, as Pulsar deletes them: nothing else ends them.

A topic is in use while it has producers or subscriptions. A policy of its namespace comes before the broker's settings.
"""

from collections.abc import Callable, Iterable

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.unused_topics import UnusedTopics
from mledger.metastore.cluster.service_policies import ServicePolicies
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)


def plan_idle_limit_s(settings: BrokerSettings, policies: ServicePolicies) -> float | None:
    """For how many seconds a topic stays open without use; None: for ever."""
    inactive = policies.inactive_topics
    if inactive is not None:
        return max(0, inactive.after_s) if inactive.delete else None
    return (settings.idle_limit_s or settings.idle_check_s) if settings.delete_idle_topics is not False else None


class IdleTopics(UnusedTopics):
    """Looks through the open non-persistent topics by the clock."""

    name = "idle topics"

    def __init__(self, topics: Callable[[], Iterable[NonPersistentTopic]], settings: BrokerSettings) -> None:
        super().__init__(settings)
        self._topics = topics

    async def look(self, now_ms: int, slept_s: float) -> None:
        """Close those that are due."""
        self.close_idle(now_ms)

    def close_idle(self, now_ms: int) -> None:
        """Close the topics that have been without use for too long at `now_ms` of `steady_ms`."""
        for topic in self._topics():
            limit_s = plan_idle_limit_s(self._settings, topic.policies)
            if topic.in_use:
                topic.used_ms = now_ms
            elif limit_s is not None and now_ms - topic.used_ms >= limit_s * 1000:
                log.info("idle_topic_closed", topic=topic.name, idle_s=(now_ms - topic.used_ms) // 1000)
                topic.end()
