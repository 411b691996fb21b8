"""A broker's read-only admin API over HTTP: figures of the topics open here, at the paths of Pulsar's.

They change nothing and open nothing: a topic that no client uses here is not found. How many partitions a topic has is
a client's lookup, and of any topic.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.process.http_lookup import HttpLookup, json_answer, refusal_answer
from mledger.broker.process.nonpersistent_stats import nonpersistent_internal_stats_of, nonpersistent_stats_of
from mledger.broker.process.topic_stats import internal_stats_of, stats_of
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.served_topic import ServedTopic
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import NON_PERSISTENT, PERSISTENT, TopicName
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse, Route

ADMIN = "/admin/v2"
PARTITIONS = "partitions"
HEALTH = "/admin/v2/brokers/health"

Answer = Callable[[ServedTopic], Any]


class BrokerAdmin:
    """Answers for the topics of `broker`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker
        self._lookup = HttpLookup(broker)
        self._answers: Mapping[str, Answer] = {
            "stats": lambda topic: _stats(topic, broker.owners.roster.address.name),
            "internalStats": _internal_stats,
            "subscriptions": lambda topic: sorted(_stats(topic, "")["subscriptions"]),
        }

    @property
    def routes(self) -> dict[str, Route]:
        """The paths with answers of their own."""
        return {HEALTH: self.health}

    @property
    def below(self) -> dict[str, Route]:
        """The paths below which everything is answered."""
        topics = {f"{ADMIN}/{domain}": self.topic for domain in (PERSISTENT, NON_PERSISTENT)}
        return {**topics, **self._lookup.below}

    async def health(self, _: HttpRequest) -> HttpResponse:
        """200: clients are served."""
        return HttpResponse(b"ok")

    async def topic(self, asked: HttpRequest) -> HttpResponse:
        """`/admin/v2/DOMAIN/TENANT/NAMESPACE/TOPIC/WHAT`: the partitions, or figures if the topic is open here."""
        *parts, what = [unquote(each) for each in asked.path.removeprefix(ADMIN).strip("/").split("/")]
        answer = self._answers.get(what)
        if (answer is None and what != PARTITIONS) or len(parts) not in (4, 5):
            return refusal_answer(
                HTTPStatus.NOT_FOUND, f"below a topic there is: {PARTITIONS} {' '.join(self._answers)}"
            )
        try:
            name = TopicName.parse_served(f"{parts[0]}://{'/'.join(parts[1:])}")
        except InvalidName as error:
            return refusal_answer(HTTPStatus.PRECONDITION_FAILED, str(error))
        if answer is None:
            return await self._lookup.partitions(name, create=asked.query.get("checkAllowAutoCreation") == "true")
        topic = self._broker.topics.find(name)
        if topic is None:
            return refusal_answer(HTTPStatus.NOT_FOUND, f"{name} is not open at this broker")
        return json_answer(answer(topic))


def _stats(topic: ServedTopic, broker: str) -> Any:
    if isinstance(topic, NonPersistentTopic):
        return nonpersistent_stats_of(topic, broker)
    assert isinstance(topic, BrokerTopic)
    return stats_of(topic, broker)


def _internal_stats(topic: ServedTopic) -> Any:
    if isinstance(topic, NonPersistentTopic):
        return nonpersistent_internal_stats_of(topic)
    assert isinstance(topic, BrokerTopic)
    return internal_stats_of(topic)
