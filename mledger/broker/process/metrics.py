"""A broker's own metrics for Prometheus, under Pulsar's names (monitoring.md)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.dispatch.drop_rate import DropRate
from mledger.broker.topics.nonpersistent.subscription import NonPersistentSubscription
from mledger.broker.topics.served_topic import ServedSubscription, ServedTopic
from mledger.metastore.runtime.exposition import Families
from mledger.metastore.runtime.times import wall_clock_ms

TOPICS_AT_ONCE = 100


class _SubscriptionFigures(NamedTuple):
    name: str
    consumers: int
    unacked: int
    blocked: int
    delayed: int
    drops: DropRate | None


class _BrokerFigures(NamedTuple):
    """A topic, or a namespace's topics together: its labels, and its figures at the time of the scrape."""

    namespace: str
    topic: str
    figures: dict[str, int]
    subscriptions: tuple[_SubscriptionFigures, ...]


_GAUGES = {
    "pulsar_producers_count": "Producers connected to this broker",
    "pulsar_consumers_count": "Consumers connected to this broker",
}
_TOTALS = {
    "pulsar_in_messages": "Messages published since the topic was opened",
    "pulsar_in_bytes": "Bytes published since the topic was opened",
    "pulsar_out_messages": "Messages sent to consumers since the topic was opened",
    "pulsar_out_bytes": "Bytes sent to consumers since the topic was opened",
}


class BrokerMetrics:
    """Reads the figures of a broker; without `topics` there are only sums per namespace."""

    def __init__(self, broker: ServedBroker, cluster_name: str, *, topics: bool) -> None:
        self._broker = broker
        self._cluster = {"cluster": cluster_name}
        self._topics = topics

    async def read(self) -> Callable[[Families], None]:
        """Read all figures, those of some topics at a time; what is returned adds them to the metrics."""
        broker = self._broker
        connections, pending = len(broker.connections), broker.pending_bytes
        failures = Counter[str]()
        for check in broker.checks:
            failures[check.name] += check.failures
        read = []
        for number, topic in enumerate(list(broker.topics.open), 1):
            read.append(_figures(topic))
            if number % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
        found = read if self._topics else _sums(read)

        def add(families: Families) -> None:
            families.gauge("pulsar_active_connections", "Clients' connections", connections, self._cluster)
            families.gauge(
                "mledger_broker_pending_publish_bytes", "Received and not yet stored", pending, self._cluster
            )
            for name, count in failures.items():
                families.total(
                    "mledger_broker_failed_checks", "Errors of the program", count, self._cluster | {"check": name}
                )
            for each in found:
                self._add(families, each)

        return add

    def _add(self, families: Families, each: _BrokerFigures) -> None:
        labels = self._cluster | {"namespace": each.namespace}
        if each.topic:
            labels["topic"] = each.topic
        for name, means in _GAUGES.items():
            families.gauge(name, means, each.figures[name], labels)
        for name, means in _TOTALS.items():
            families.total(name, means, each.figures[name], labels)
        for subscription in each.subscriptions:
            named = labels | {"subscription": subscription.name}
            for name, means, value in (
                ("consumers_count", "Consumers of the subscription", subscription.consumers),
                ("unacked_messages", "Messages delivered and not acknowledged", subscription.unacked),
                ("blocked_on_unacked_messages", "Consumers held back by that", subscription.blocked),
                ("delayed", "Messages that wait for their time", subscription.delayed),
            ):
                families.gauge(f"pulsar_subscription_{name}", means, value, named)
            if subscription.drops is not None:
                self._add_drops(families, subscription.drops, named)

    def _add_drops(self, families: Families, drops: DropRate, labels: Mapping[str, str]) -> None:
        rate, dropped = drops.per_second(wall_clock_ms()), drops.dropped
        families.gauge("pulsar_subscription_msg_drop_rate", "Messages a second that nobody got", rate, labels)
        families.total("mledger_subscription_dropped_messages", "Messages that nobody got", dropped, labels)


def _figures(topic: ServedTopic) -> _BrokerFigures:
    subscriptions = list(topic.subscriptions)
    figures = {
        "pulsar_producers_count": len(topic.producers),
        "pulsar_consumers_count": sum(len(each.consumers) for each in subscriptions),
        "pulsar_in_messages": topic.messages_in,
        "pulsar_in_bytes": topic.bytes_in,
        "pulsar_out_messages": sum(each.messages_out for each in subscriptions),
        "pulsar_out_bytes": sum(each.bytes_out for each in subscriptions),
    }
    of_each = tuple(
        _SubscriptionFigures(
            each.name,
            len(each.consumers),
            sum(consumer.dispatch.unacked for consumer in each.consumers),
            sum(consumer.dispatch.blocked for consumer in each.consumers),
            each.delayed,
            _drops(each),
        )
        for each in subscriptions
    )
    return _BrokerFigures(topic.name.namespace_name, str(topic.name), figures, of_each)


def _drops(subscription: ServedSubscription) -> DropRate | None:
    return subscription.drops if isinstance(subscription, NonPersistentSubscription) else None


def _sums(topics: list[_BrokerFigures]) -> list[_BrokerFigures]:
    found: dict[str, Counter[str]] = {}
    for topic in topics:
        found.setdefault(topic.namespace, Counter()).update(topic.figures)
    return [_BrokerFigures(namespace, "", dict(counts), ()) for namespace, counts in found.items()]
