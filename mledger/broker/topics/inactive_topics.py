"""Deletes stored topics that nobody uses any more, where a policy or broker.conf says so.

A topic is in use while it has clients, while something is published to it, and by its mode: while it has subscriptions,
or while one of them has a backlog. Retention keeps a topic, too. Nothing is deleted while its policies are not known.
Before a topic is deleted, its policies are read again, and no other process may own it: this one may have stood still.
"""

from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from msgspec import Struct

from mledger.admin.system_topics import is_system_topic
from mledger.broker.settings import INACTIVE_MODES, BrokerSettings
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.served_topic import client_count
from mledger.broker.topics.topic_loads import BrokerTopics
from mledger.broker.topics.unused_topics import UnusedTopics
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.ledgers.retention import TopicPolicies, retention_in_force
from mledger.metastore.cluster.service_policies import InactiveTopics, ServicePolicies
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.topics.services.policy_watch import FollowedPolicies

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
    ledger = topic.managed_ledger
    names = {*ledger.cursors, *ledger.new_cursors, *ledger.non_durable_cursors} - {DEDUPLICATION}
    if client_count(topic) or (names and mode == WITHOUT_SUBSCRIPTIONS):
        return True
    cursors = ledger.open_cursors
    return any(name not in cursors or cursors[name].backlog for name in names)


class _Use(Struct):
    """When a topic was last in use, in ms of `steady_ms`, and how many messages it had got then."""

    seen_ms: int
    messages: int


class InactiveTopicDeleter(UnusedTopics):
    """Looks through the open stored topics by the clock.

    `remove_remains` removes what belongs to the name of a deleted topic: permissions, schema, policies. MledgerError.
    """

    name = "inactive topics"

    def __init__(
        self,
        topics: BrokerTopics,
        policies: FollowedPolicies,
        settings: BrokerSettings,
        remove_remains: Callable[[TopicName], Awaitable[None]],
    ) -> None:
        super().__init__(settings)
        self._topics, self._policies = topics, policies
        self._remove_remains = remove_remains
        self._uses = WeakKeyDictionary[BrokerTopic, _Use]()

    async def look(self, now_ms: int, slept_s: float) -> None:
        """Delete those that are due."""
        await self.delete_inactive(now_ms, slept_s)

    async def delete_inactive(self, now_ms: int, slept_s: float = 0.0) -> None:
        """Delete the topics that have been without use for too long at `now_ms` of `steady_ms`.

        The last look was `slept_s` seconds ago. If that is far longer than it should be, the process stood still, and
        the time of no topic counts: its clients could not reach it.
        """
        if slept_s > 2 * self._settings.idle_check_s:
            self._uses.clear()
        for topic in self._topics.stored:
            ledger = topic.managed_ledger
            policies = ledger.policies if ledger.policies_known else None
            if not topic.ended and self._is_due(topic, policies, now_ms):
                await self.check.attempt("inactive_topic_not_deleted", self._delete(topic, now_ms), topic=topic.name)

    def _is_due(self, topic: BrokerTopic, policies: TopicPolicies | None, now_ms: int) -> bool:
        limit = None if policies is None else plan_inactive(self._settings, policies.service)
        use = self._uses.setdefault(topic, _Use(now_ms, topic.messages_in))
        if policies is None or limit is None or is_in_use(topic, limit.mode) or use.messages != topic.messages_in:
            use.seen_ms, use.messages = now_ms, topic.messages_in
            return False
        if is_system_topic(topic.name):
            return False
        retention_ms = retention_in_force(policies, topic.managed_ledger.config).retention_time_ms
        unused_ms = now_ms - use.seen_ms
        return 0 <= retention_ms <= unused_ms and unused_ms >= max(0, limit.after_s) * 1000

    async def _delete(self, topic: BrokerTopic, now_ms: int) -> None:
        name = topic.name
        await topic.managed_ledger.initialized()
        policies = (await self._policies.of_namespace(name)).of(name)
        if topic.ended or not self._is_due(topic, policies, now_ms):
            return
        # no wait comes between this look and the mark that it is being deleted
        await self._topics.delete(name, force=False, take_over=False, then=lambda: self._remove_remains(name))
        log.info("inactive_topic_deleted", topic=name)
