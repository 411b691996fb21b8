"""A broker's own metrics for Prometheus, under Pulsar's names (monitoring.md)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.dispatch.drop_rate import DropRate
from mledger.broker.process.broker_sums import add_broker_sums
from mledger.broker.process.storage_metrics import add_index_size, add_storage, add_waiting
from mledger.broker.process.topic_readings import SubscriptionReading, TopicReading, plan_namespaces, read_topic
from mledger.broker.topics.client_rates import rates_in, rates_out
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.subscriptions.consumer import Consumer
from mledger.metastore.runtime.exposition import Families
from mledger.metastore.runtime.times import wall_clock_ms

TOPICS_AT_ONCE = 100
_Client = TypeVar("_Client", Consumer, Producer)


_GAUGES = {
    "pulsar_producers_count": "Producers connected to this broker",
    "pulsar_consumers_count": "Consumers connected to this broker",
}
_RATES_IN = {
    "pulsar_rate_in": "Messages published a second",
    "pulsar_throughput_in": "Bytes published a second",
    "pulsar_average_msg_size": "Bytes of a message that was published",
}
_RATES_OUT = {
    "pulsar_rate_out": "Messages sent to consumers a second",
    "pulsar_throughput_out": "Bytes sent to consumers a second",
}
_RATES_OF_SUBSCRIPTION = {
    "pulsar_subscription_msg_rate_out": "Messages sent to consumers a second",
    "pulsar_subscription_msg_throughput_out": "Bytes sent to consumers a second",
    "pulsar_subscription_msg_rate_redeliver": "Messages that consumers gave back a second",
    "pulsar_subscription_msg_ack_rate": "Messages acknowledged a second",
}
_OF_CONSUMER = {
    "pulsar_consumer_msg_rate_out": "Messages sent to the consumer a second",
    "pulsar_consumer_msg_throughput_out": "Bytes sent to the consumer a second",
    "pulsar_consumer_msg_rate_redeliver": "Messages that the consumer gave back a second",
    "pulsar_consumer_msg_ack_rate": "Messages that the consumer acknowledged a second",
    "pulsar_consumer_unacked_messages": "Messages that the consumer has and has not acknowledged",
    "pulsar_consumer_blocked_on_unacked_messages": "1 if the consumer is held back by that",
    "pulsar_consumer_available_permits": "Messages that the consumer takes more",
}
_OF_PRODUCER = {
    "pulsar_producer_msg_rate_in": "Messages that the producer published a second",
    "pulsar_producer_msg_throughput_in": "Bytes that the producer published a second",
    "pulsar_producer_msg_average_Size": "Bytes of a message of the producer",
}
_TIMES = {
    "pulsar_subscription_last_consumed_flow_timestamp": "When a consumer last asked for messages",
    "pulsar_subscription_last_consumed_timestamp": "When messages were last sent to a consumer that is connected",
    "pulsar_subscription_last_acked_timestamp": "When a consumer that is connected last acknowledged",
}
_OF_STORED = {
    "pulsar_subscription_back_log_no_delayed": "Entries not acknowledged that need not wait for their time",
    "pulsar_subscription_in_replay": "Entries that wait to be sent again",
    "pulsar_subscription_delayed_message_index_size_bytes": "Bytes of its index of delayed messages, estimated",
    "pulsar_subscription_msg_rate_expired": "Entries that expired a second",
    "pulsar_subscription_total_msg_expired": "Entries that expired since the topic was opened",
    "pulsar_subscription_last_expire_timestamp": "When entries that outlived their time were last looked for",
    "pulsar_subscription_last_mark_delete_advanced_timestamp": "When the mark-delete position last advanced",
}
_TOTALS_IN = {
    "pulsar_in_messages": "Messages published since the topic was opened",
    "pulsar_in_bytes": "Bytes published since the topic was opened",
}
_TOTALS_OUT = {
    "pulsar_out_messages": "Messages sent to consumers since the topic was opened",
    "pulsar_out_bytes": "Bytes sent to consumers since the topic was opened",
}


_HELD_BACK = "pulsar_publish_rate_limit_times", "How often publish rates held a connection back"
_ACKED = "pulsar_consumer_msg_ack_rate", "Messages acknowledged a second"


class BrokerMetrics:
    """Reads the figures of a broker; without `topics` there are only sums per namespace."""

    def __init__(self, broker: ServedBroker, cluster_name: str, *, topics: bool) -> None:
        self._broker, self._settings = broker, broker.settings
        self._cluster = {"cluster": cluster_name}
        self._topics = topics

    async def read(self) -> Callable[[Families], None]:
        """Read all figures, those of some topics at a time; what is returned adds them to the metrics."""
        broker = self._broker
        connections, made, pending = len(broker.connections), broker.connections_made, broker.pending_bytes
        failures = Counter[str]()
        for check in broker.checks:
            failures[check.name] += check.failures
        read = []
        for number, topic in enumerate(list(broker.topics.open), 1):
            read.append(read_topic(topic))
            if number % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)

        def add(families: Families) -> None:
            found = read if self._topics else plan_namespaces(read)
            families.gauge("pulsar_active_connections", "Clients' connections", connections, self._cluster)
            for state, count in (("created", made), ("closed", made - connections)):
                name, means = f"pulsar_connection_{state}_total_count", f"Clients' connections that were {state}"
                families.original(name, means, count, self._cluster)
            families.gauge(
                "mledger_broker_pending_publish_bytes", "Received and not yet stored", pending, self._cluster
            )
            for name, count in failures.items():
                families.total(
                    "mledger_broker_failed_checks", "Errors of the program", count, self._cluster | {"check": name}
                )
            for each in found:
                self._add(families, each)
            add_broker_sums(families, read, self._cluster)

        return add

    def _add(self, families: Families, each: TopicReading) -> None:
        labels = self._cluster | {"namespace": each.namespace}
        if each.topic:
            labels["topic"] = each.topic
        for name, means in _GAUGES.items():
            families.gauge(name, means, each.figures[name], labels)
        for name, means in (_TOTALS_IN if self._topics else _TOTALS_IN | _TOTALS_OUT).items():
            families.total(name, means, each.figures[name], labels)
        if each.storage is not None:
            add_storage(families, each.storage, labels)
            add_index_size(families, each, labels)
        consumers = [consumer for subscription in each.subscriptions for consumer in subscription.connected]
        published = rates_in(each.producers)
        _add_gauges(families, _RATES_IN, (published.messages, published.size, published.average_size), labels)
        sent = rates_out(consumers)
        _add_gauges(families, _RATES_OUT, sent[:2], labels)
        if not self._topics:
            add_waiting(families, each, labels)
            families.gauge(*_ACKED, sent.acked, labels)
            return
        families.gauge(*_HELD_BACK, each.held_back, labels)
        if self._settings.producer_metrics:
            self._add_producers(families, each.producers, labels)
        for subscription in each.subscriptions:
            self._add_subscription(families, subscription, labels | {"subscription": subscription.name})

    def _add_subscription(self, families: Families, each: SubscriptionReading, labels: Mapping[str, str]) -> None:
        for name, means, value in (
            ("consumers_count", "Consumers of the subscription", len(each.connected)),
            ("unacked_messages", "Messages delivered and not acknowledged", each.unacked),
            ("blocked_on_unacked_messages", "1 if the subscription is held back by that", each.blocked),
            ("delayed", "Messages that wait for their time", each.delayed),
        ):
            families.gauge(f"pulsar_subscription_{name}", means, value, labels)
        for (name, means), value in zip(_TOTALS_OUT.items(), each.sent, strict=True):
            families.total(name, means, value, labels)
        if (stored := each.stored) is not None:
            values = stored.without_delayed, stored.in_replay, stored.index_bytes, *stored.expiry
            _add_gauges(families, _OF_STORED, values, labels)
        _add_gauges(families, _RATES_OF_SUBSCRIPTION, rates_out(each.connected)[:4], labels)
        _add_gauges(families, _TIMES, _times(each), labels)
        if each.drops is not None:
            self._add_drops(families, each.drops, labels)
        if self._settings.consumer_metrics:
            self._add_consumers(families, each.connected, labels)

    @staticmethod
    def _add_consumers(families: Families, consumers: Sequence[Consumer], labels: Mapping[str, str]) -> None:
        for (name, number), same in _alike(consumers).items():  # of several clients: a series comes once
            held = [each.dispatch for each in same]
            unacked, permits = sum(each.unacked for each in held), sum(each.permits for each in held)
            values = (*rates_out(same)[:4], unacked, any(each.blocked for each in held), permits)
            _add_gauges(families, _OF_CONSUMER, values, {**labels, "consumer_name": name, "consumer_id": number})

    @staticmethod
    def _add_producers(families: Families, producers: Sequence[Producer], labels: Mapping[str, str]) -> None:
        for (name, number), same in _alike(producers).items():
            found, named = rates_in(same), {**labels, "producer_name": name, "producer_id": number}
            _add_gauges(families, _OF_PRODUCER, (found.messages, found.size, found.average_size), named)

    def _add_drops(self, families: Families, drops: DropRate, labels: Mapping[str, str]) -> None:
        rate, dropped = drops.per_second(wall_clock_ms()), drops.dropped
        families.gauge("pulsar_subscription_msg_drop_rate", "Messages a second that nobody got", rate, labels)
        families.total("mledger_subscription_dropped_messages", "Messages that nobody got", dropped, labels)


def _alike(clients: Sequence[_Client]) -> dict[tuple[str, str], list[_Client]]:
    """Consumers or producers by name and number."""
    found: dict[tuple[str, str], list[_Client]] = {}
    for each in clients:
        found.setdefault((each.name, str(each.id)), []).append(each)
    return found


def _add_gauges(
    families: Families, names: Mapping[str, str], values: Sequence[float], labels: Mapping[str, str]
) -> None:
    for (name, means), value in zip(names.items(), values, strict=True):
        families.gauge(name, means, value, labels)


def _times(subscription: SubscriptionReading) -> tuple[int, int, int]:
    return (
        subscription.last_flow_ms,
        max((each.last_consumed_ms for each in subscription.connected), default=0),
        max((each.last_acked_ms for each in subscription.connected), default=0),
    )
