"""`…/stats`, `…/internalStats`, `…/subscriptions`: figures of a topic, which is opened for them."""

from mledger.broker.admin_rest.requests import Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.nonpersistent_stats import nonpersistent_internal_stats_of, nonpersistent_stats_of
from mledger.broker.admin_rest.topics.ownership import NON_PERSISTENT_ONE, ONE, TopicOwnership
from mledger.broker.admin_rest.topics.topic_stats import Figures, internal_stats_of, stats_of
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.served_topic import ServedTopic


def figures_of(topic: ServedTopic, broker: str) -> Figures:
    """The topic's producers, subscriptions and counters; `broker` is the name of the one that serves it."""
    if isinstance(topic, NonPersistentTopic):
        return nonpersistent_stats_of(topic, broker)
    assert isinstance(topic, BrokerTopic)
    return stats_of(topic, broker)


class FigureResource:
    """Answers for the topics of `ownership`'s broker."""

    def __init__(self, ownership: TopicOwnership) -> None:
        self._ownership = ownership

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        actions = {
            "stats": self.stats,
            "internalStats": self.internal_stats,
            "subscriptions": self.subscriptions,
        }
        return [
            AdminRoute("GET", f"{one}/{what}", Access.LOOKUP, action)
            for one in (ONE, NON_PERSISTENT_ONE)
            for what, action in actions.items()
        ]

    async def stats(self, call: AdminCall) -> AdminAnswer:
        """Producers, subscriptions and counters."""
        return json_answer(figures_of(await self._ownership.open_any(call), self._ownership.name))

    async def internal_stats(self, call: AdminCall) -> AdminAnswer:
        """Ledgers and cursors."""
        topic = await self._ownership.open_any(call)
        if isinstance(topic, NonPersistentTopic):
            return json_answer(nonpersistent_internal_stats_of(topic))
        assert isinstance(topic, BrokerTopic)
        return json_answer(internal_stats_of(topic))

    async def subscriptions(self, call: AdminCall) -> AdminAnswer:
        """The names of the subscriptions."""
        return json_answer(sorted(figures_of(await self._ownership.open_any(call), "")["subscriptions"]))
