"""A non-persistent topic's figures under the names of Pulsar's admin API; `msgDropCounter` is of ours.

Rates of dropped messages are those of the last minute.
"""

from mledger.broker.admin_rest.topics.figures.topic_stats import (
    Figures,
    consumer_figures,
    consumer_rates,
    publisher_figures,
    rate_figures,
)
from mledger.broker.topics.nonpersistent.subscription import NonPersistentSubscription
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.subscriptions.consumer import kind_name
from mledger.metastore.runtime.times import wall_clock_ms


def nonpersistent_stats_of(topic: NonPersistentTopic, broker: str) -> Figures:
    """The topic's producers, subscriptions and counters; `broker` is the name of the one that serves it."""
    now_ms, subscriptions = wall_clock_ms(), sorted(topic.subscriptions, key=lambda each: each.name)
    return {
        **rate_figures(topic),
        "msgInCounter": topic.messages_in,
        "bytesInCounter": topic.bytes_in,
        "msgOutCounter": sum(each.messages_out for each in subscriptions),
        "bytesOutCounter": sum(each.bytes_out for each in subscriptions),
        "msgDropRate": sum(each.drops.per_second(now_ms) for each in subscriptions),
        "publishers": [_publisher(each, now_ms) for each in topic.producers],
        "subscriptions": {each.name: _subscription(each, now_ms) for each in subscriptions},
        "ownerBroker": broker,
    }


def nonpersistent_internal_stats_of(topic: NonPersistentTopic) -> Figures:
    """There are no ledgers, and the cursors of its subscriptions say nothing, as in Pulsar."""
    return {"ledgers": [], "cursors": {each.name: {} for each in topic.subscriptions}}


def _publisher(producer: Producer, now_ms: int) -> Figures:
    drops = producer.drops
    return publisher_figures(producer) | {"msgDropRate": drops.per_second(now_ms), "msgDropCounter": drops.dropped}


def _subscription(subscription: NonPersistentSubscription, now_ms: int) -> Figures:
    kind, active = subscription.kind, subscription.active_consumer
    return {
        **consumer_rates(subscription.consumers),
        "msgOutCounter": subscription.messages_out,
        "bytesOutCounter": subscription.bytes_out,
        "msgBacklog": 0,
        "msgDropRate": subscription.drops.per_second(now_ms),
        "msgDropCounter": subscription.drops.dropped,
        "type": None if kind is None else kind_name(kind),
        "activeConsumerName": None if active is None else active.name,
        "consumers": [consumer_figures(each) for each in subscription.consumers],
        "isDurable": subscription.durable,
    }
