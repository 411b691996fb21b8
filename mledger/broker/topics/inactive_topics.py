"""Deletes stored topics that nobody uses any more, where a policy or broker.conf says so.

A topic is in use while it has clients, while something is published to it, and by its mode: while it has subscriptions,
or while one of them has a backlog. Retention keeps a topic, too. Nothing is deleted while its policies are not known.
"""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from msgspec import Struct

from mledger.broker.settings import INACTIVE_MODES, BrokerSettings
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.producers.deduplication import CURSOR as DEDUPLICATION
from mledger.broker.topics.system_topics import is_system_topic
from mledger.broker.topics.topic_loads import BrokerTopics
from mledger.ledgers.retention import retention_in_force
from mledger.metastore.cluster.service_policies import InactiveTopics, ServicePolicies
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.logs import get_logger
from mledger.metastore.runtime.times import wall_clock_ms

log = get_logger(__name__)

WITHOUT_SUBSCRIPTIONS, CAUGHT_UP = INACTIVE_MODES


def plan_inactive(settings: BrokerSettings, policies: ServicePolicies) -> InactiveTopics | None:
    """When a stored topic with these policies is deleted, None for never.

    As in Pulsar, no policy counts where broker.conf says that no topic is deleted. Where it says nothing, only a
    policy deletes.
    """
    if settings.delete_idle_topics is False:
        return None
    if (policy := policies.inactive_topics) is not None:
        return policy if policy.delete and policy.mode in INACTIVE_MODES else None
    if settings.delete_idle_topics is None:
        return None
    return InactiveTopics(
        delete=True, mode=settings.idle_mode, after_s=round(settings.idle_limit_s or settings.idle_check_s)
    )


def is_in_use(topic: BrokerTopic, mode: str) -> bool:
    """Whether a topic has clients, or what its mode names: subscriptions, or a backlog."""
    names = set(topic.managed_ledger.cursors) - {DEDUPLICATION}
    if topic.client_count or (names and mode == WITHOUT_SUBSCRIPTIONS):
        return True
    cursors = topic.managed_ledger.open_cursors
    return any(name not in cursors or cursors[name].backlog for name in names)


class _Use(Struct):
    """When a topic was last in use, in ms since 1970, and how many messages it had got then."""

    seen_ms: int
    messages: int


class InactiveTopicDeleter:
    """Looks through the open stored topics by the clock.

    `remove_remains` removes what belongs to the name of a deleted topic: its schema and its policies. MledgerError.
    """

    def __init__(
        self,
        topics: BrokerTopics,
        settings: BrokerSettings,
        remove_remains: Callable[[TopicName], Awaitable[None]],
    ) -> None:
        self._topics, self._settings, self._remove_remains = topics, settings, remove_remains
        self._uses = WeakKeyDictionary[BrokerTopic, _Use]()
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

    async def delete_inactive(self, now_ms: int) -> None:
        """Delete the topics that have been without use for too long at `now_ms` since 1970."""
        for topic in self._topics.stored:
            if not topic.ended and self._is_due(topic, now_ms):
                await self._delete(topic)

    def _is_due(self, topic: BrokerTopic, now_ms: int) -> bool:
        ledger = topic.managed_ledger
        limit = plan_inactive(self._settings, ledger.policies.service) if ledger.policies_known else None
        use = self._uses.setdefault(topic, _Use(now_ms, topic.messages_in))
        if limit is None or is_in_use(topic, limit.mode) or use.messages != topic.messages_in:
            use.seen_ms, use.messages = now_ms, topic.messages_in
            return False
        if is_system_topic(topic.name):
            return False
        retention_ms = retention_in_force(ledger.policies, ledger.config).retention_time_ms
        unused_ms = now_ms - use.seen_ms
        return 0 <= retention_ms <= unused_ms and unused_ms >= max(0, limit.after_s) * 1000

    async def _delete(self, topic: BrokerTopic) -> None:
        # nothing comes between the look at its use and this: the topic is marked as being deleted before any wait
        name = topic.name
        try:
            await self._topics.delete(name, force=False, then=lambda: self._remove_remains(name))
        except MledgerError as error:
            log.warning("inactive_topic_not_deleted", topic=name, error=error)
        else:
            log.info("inactive_topic_deleted", topic=name)

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.idle_check_s)
            await self.delete_inactive(wall_clock_ms())
