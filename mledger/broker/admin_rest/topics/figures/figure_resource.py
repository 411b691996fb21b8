"""`…/stats`, `…/internalStats`, `…/subscriptions`: figures of a topic, which is opened for them.

With `?open=false`, which Pulsar does not have, there are figures of topics only that are open here.
"""

from http import HTTPStatus

from mledger.admin.internal_info import read_info
from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error
from mledger.broker.admin_rest.refusals import AdminRefusal, not_allowed, not_found, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.figures.nonpersistent_stats import (
    nonpersistent_internal_stats_of,
    nonpersistent_stats_of,
)
from mledger.broker.admin_rest.topics.figures.partitioned_figures import plan_partitioned_stats
from mledger.broker.admin_rest.topics.figures.publish_times import add_earliest_times, topic_times
from mledger.broker.admin_rest.topics.figures.topic_stats import Figures, internal_stats_of, stats_of
from mledger.broker.admin_rest.topics.message_position import plan_place
from mledger.broker.admin_rest.topics.ownership import NON_PERSISTENT_ONE, ONE, TopicOwnership
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.served_topic import ServedTopic
from mledger.errors import TopicNotFound


def figures_of(topic: ServedTopic, broker: str, settings: BrokerSettings) -> Figures:
    """The topic's producers, subscriptions and counters; `broker` is the name of the one that serves it."""
    if isinstance(topic, NonPersistentTopic):
        return nonpersistent_stats_of(topic, broker)
    assert isinstance(topic, BrokerTopic)
    return stats_of(topic, broker, settings)


class FigureResource:
    """Answers for the topics of `ownership`'s broker."""

    def __init__(self, ownership: TopicOwnership, fan_out: FanOut, settings: BrokerSettings) -> None:
        self._ownership, self._fan_out, self._settings = ownership, fan_out, settings

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        actions = (
            ("stats", Access.LOOKUP, self.stats),
            ("internalStats", Access.LOOKUP, self.internal_stats),
            ("subscriptions", Access.CONSUME, self.subscriptions),
        )
        found = [
            AdminRoute("GET", f"{one}/{what}", access, action)
            for one in (ONE, NON_PERSISTENT_ONE)
            for what, access, action in actions
        ]
        found += [
            AdminRoute("GET", f"{one}/partitioned-stats", Access.LOOKUP, self.partitioned_stats)
            for one in (ONE, NON_PERSISTENT_ONE)
        ]
        found.append(AdminRoute("GET", f"{ONE}/partitioned-internalStats", Access.LOOKUP, self.partitioned_internal))
        found.append(AdminRoute("GET", f"{ONE}/internal-info", Access.LOOKUP, self.internal_info))
        found.append(AdminRoute("PUT", f"{ONE}/backlogSize", Access.CONSUME, self.backlog_size))
        return found

    async def stats(self, call: AdminCall) -> AdminAnswer:
        """Producers, subscriptions and counters. Backlogs are exact, whatever `getPreciseBacklog` says."""
        topic = await self._topic(call)
        found = figures_of(topic, self._ownership.name, self._settings)
        if isinstance(topic, BrokerTopic):
            found |= await topic_times(self._ownership.store, topic)
            await add_earliest_times(topic, found, wanted=call.request.flag("getEarliestTimeInBacklog"))
        if not call.request.flag("subscriptionBacklogSize", True):
            for each in found["subscriptions"].values():
                each["backlogSize"] = -1
        if call.request.flag("excludePublishers"):
            found["publishers"] = []
        if call.request.flag("excludeConsumers"):
            for each in found["subscriptions"].values():
                each["consumers"] = []
        return json_answer(found)

    async def internal_stats(self, call: AdminCall) -> AdminAnswer:
        """Ledgers and cursors."""
        topic = await self._topic(call)
        if isinstance(topic, NonPersistentTopic):
            return json_answer(nonpersistent_internal_stats_of(topic))
        assert isinstance(topic, BrokerTopic)
        return json_answer(internal_stats_of(topic))

    async def internal_info(self, call: AdminCall) -> AdminAnswer:
        """The stored records of a topic, or of each partition; any broker reads them, as in Pulsar."""
        topic, store = call.topic, self._ownership.store
        try:
            if not (partitions := await self._ownership.partitions(topic)):
                return json_answer(await read_info(store, topic))
            names = [topic.partition(index) for index in range(partitions)]
            return json_answer(
                {"version": 0, "partitions": {str(each): await read_info(store, each) for each in names}}
            )
        except TopicNotFound as missing:
            raise not_found(str(missing)) from None

    async def subscriptions(self, call: AdminCall) -> AdminAnswer:
        """The names of the subscriptions, of all partitions."""
        topic = call.topic
        if partitions := await self._ownership.partitions(topic):
            answers = await self._fan_out.ask_partitions(call, topic, partitions)
            wrong = plan_first_error(answers, (HTTPStatus.NOT_FOUND,))
            served = [each for each in answers if each.status is HTTPStatus.OK]
            return wrong or json_answer(sorted({name for each in served for name in each.json()}))
        return json_answer(sorted((await self._figures(call))["subscriptions"]))

    async def backlog_size(self, call: AdminCall) -> AdminAnswer:
        """The payload bytes of what lies after a message, estimated within its ledger; of all without a message."""
        position = plan_place(call.request.json()).position
        if await self._ownership.partitions(call.topic):
            raise not_allowed("calculate backlog size is not allowed for partitioned-topic")
        ledgers = (await self._ownership.open(call)).managed_ledger.ledger_list
        return json_answer(ledgers.total_size if position.ledger_id < 0 else ledgers.size_above(position))

    async def partitioned_stats(self, call: AdminCall) -> AdminAnswer:
        """The sums of all partitions; each of them too, unless `perPartition` is false."""
        if call.topic.partition_index is not None:
            raise precondition("Partitioned Topic Name should not contain '-partition-'")
        found = await self._of_partitions(call, "stats")
        shown = found if call.request.flag("perPartition", True) else {}
        metadata = {"partitions": len(found), "deleted": False}
        return json_answer(plan_partitioned_stats(list(found.values())) | {"metadata": metadata, "partitions": shown})

    async def partitioned_internal(self, call: AdminCall) -> AdminAnswer:
        """The ledgers and cursors of all partitions."""
        found = await self._of_partitions(call, "internalStats")
        return json_answer({"metadata": {"partitions": len(found), "deleted": False}, "partitions": found})

    async def _figures(self, call: AdminCall) -> Figures:
        return figures_of(await self._topic(call), self._ownership.name, self._settings)

    async def _topic(self, call: AdminCall) -> ServedTopic:
        """The topic with its subscriptions, which are recovered after it was opened."""
        opens = call.request.flag("open", True)
        topic = await self._ownership.open_any(call) if opens else self._ownership.opened(call.topic)
        if isinstance(topic, BrokerTopic):
            await topic.managed_ledger.initialized()
        return topic

    async def _of_partitions(self, call: AdminCall, what: str) -> dict[str, Figures]:
        """The figures of each partition by its name; empty for one that nobody has opened yet."""
        topic = call.topic
        partitions = await self._ownership.partitions(topic)
        if not partitions:
            raise not_found(f"Partitioned Topic {topic} not found")
        path = f"{call.request.path.rpartition('/')[0]}/{what}"
        answers = await self._fan_out.ask_partitions(call.at(path), topic, partitions)
        wrong = plan_first_error([*answers, NO_CONTENT], (HTTPStatus.NOT_FOUND,))
        if wrong is not None:
            raise AdminRefusal(wrong.status, f"a partition gives no figures: {wrong.body.decode(errors='replace')}")
        names = [str(topic.partition(index)) for index in range(partitions)]
        return {
            name: each.json() if each.status is HTTPStatus.OK else {} for name, each in zip(names, answers, strict=True)
        }
