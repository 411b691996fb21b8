"""What a scrape reads of a topic: its figures at that time, read on the loop, and shown by a thread beside it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from mledger.broker.dispatch.drop_rate import DropRate
from mledger.broker.topics.backlog_figures import QuotaLimits, plan_backlog_age, plan_quota_limits
from mledger.broker.topics.backlog_limits import plan_quotas
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.compaction.compaction_counts import CompactionCounts
from mledger.broker.topics.nonpersistent.subscription import NonPersistentSubscription
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.served_topic import ServedSubscription, ServedTopic
from mledger.broker.topics.storage_figures import BucketCounts, StorageRates
from mledger.broker.topics.subscriptions.consumer import Consumer
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.metastore.cluster.service_policies import QuotaKind
from mledger.metastore.runtime.times import wall_clock_ms


class StoredSubscriptionReading(NamedTuple):
    """What only a subscription of a stored topic has; `expiry` in the order of its metrics."""

    without_delayed: int
    in_replay: int
    index_bytes: int
    expiry: tuple[float, int, int, int]


class SubscriptionReading(NamedTuple):
    """A subscription; rates and times of the consumers `connected` are read for the answer."""

    name: str
    unacked: int
    blocked: bool
    delayed: int
    connected: Sequence[Consumer]
    last_flow_ms: int
    drops: DropRate | None
    sent: tuple[int, int]
    stored: StoredSubscriptionReading | None

    @property
    def in_replay(self) -> int:
        """Entries that wait to be sent again."""
        return 0 if self.stored is None else self.stored.in_replay

    @property
    def index_bytes(self) -> int:
        """What the index of its delayed messages takes."""
        return 0 if self.stored is None else self.stored.index_bytes


class StorageReading(NamedTuple):
    """What a stored topic keeps, or those of a namespace together, which have no age and no limits."""

    backlog_size: int
    evictions: Mapping[QuotaKind, int]
    rates: StorageRates
    latencies: BucketCounts
    sizes: BucketCounts
    backlog_age_s: int = 0
    limits: QuotaLimits | None = None
    compaction: CompactionCounts | None = None


class TopicReading(NamedTuple):
    """A topic, or a namespace's topics together, which have no name of a `topic`."""

    namespace: str
    topic: str
    figures: Mapping[str, int]
    producers: Sequence[Producer]
    subscriptions: Sequence[SubscriptionReading]
    storage: StorageReading | None
    held_back: int = 0


def read_topic(topic: ServedTopic) -> TopicReading:
    """The figures of a topic now."""
    subscriptions = list(topic.subscriptions)
    figures = {
        "pulsar_producers_count": len(topic.producers),
        "pulsar_consumers_count": sum(len(each.consumers) for each in subscriptions),
        "pulsar_in_messages": topic.messages_in,
        "pulsar_in_bytes": topic.bytes_in,
        "pulsar_out_messages": sum(each.messages_out for each in subscriptions),
        "pulsar_out_bytes": sum(each.bytes_out for each in subscriptions),
    }
    return TopicReading(
        topic.name.namespace_name,
        str(topic.name),
        figures,
        list(topic.producers),
        [_read_subscription(each) for each in subscriptions],
        _read_storage(topic) if isinstance(topic, BrokerTopic) else None,
        topic.publish_limits.held_back,
    )


def _read_subscription(each: ServedSubscription) -> SubscriptionReading:
    stored = _read_stored(each) if isinstance(each, BrokerSubscription) else None
    tracked = each.tracked if isinstance(each, BrokerSubscription) else None
    return SubscriptionReading(
        each.name,
        sum(consumer.dispatch.unacked for consumer in each.consumers),
        tracked is not None and tracked.blocked,
        each.delayed,
        list(each.consumers),
        each.last_flow_ms,
        each.drops if isinstance(each, NonPersistentSubscription) else None,
        (each.messages_out, each.bytes_out),
        stored,
    )


def _read_stored(each: BrokerSubscription) -> StoredSubscriptionReading:
    tracked, advance = each.tracked, each.advance
    index = None if tracked is None else tracked.delayed
    return StoredSubscriptionReading(
        each.backlog - each.delayed,
        0 if tracked is None else tracked.replay_count,
        0 if index is None else index.size,
        (advance.rates.per_second[0], advance.expired, advance.expiry_ms, advance.advanced_ms),
    )


def _read_storage(topic: BrokerTopic) -> StorageReading:
    storage, figures, compaction = topic.managed_ledger, topic.storage_figures, topic.compaction.counts
    backlog = storage.backlog_quotas.read()
    waiting = backlog.oldest is not None and any(
        each.backlog for name, each in storage.open_cursors.items() if name != DEDUPLICATION
    )
    return StorageReading(
        backlog.size,
        {kind: topic.evictions[kind] for kind in (QuotaKind.SIZE, QuotaKind.AGE)},
        figures.rates,
        figures.latencies,
        figures.sizes,
        plan_backlog_age(backlog.oldest, wall_clock_ms(), waiting=waiting).seconds,
        plan_quota_limits(plan_quotas(storage.policies.service, topic.settings)),
        compaction if compaction.any else None,
    )


def plan_namespaces(topics: Sequence[TopicReading]) -> list[TopicReading]:
    """The sums of namespaces."""
    found: dict[str, list[TopicReading]] = {}
    for topic in topics:
        found.setdefault(topic.namespace, []).append(topic)
    return [_sum(namespace, each) for namespace, each in found.items()]


def _sum(namespace: str, topics: Sequence[TopicReading]) -> TopicReading:
    counts = Counter[str]()
    for topic in topics:
        counts.update(topic.figures)
    stored = [topic.storage for topic in topics if topic.storage is not None]
    return TopicReading(
        namespace,
        "",
        dict(counts),
        [each for topic in topics for each in topic.producers],
        [each for topic in topics for each in topic.subscriptions],
        reduce(_plus, stored)._replace(backlog_age_s=0, limits=None, compaction=None) if stored else None,
    )


def _plus(one: StorageReading, other: StorageReading) -> StorageReading:
    return StorageReading(
        one.backlog_size + other.backlog_size,
        {kind: count + other.evictions[kind] for kind, count in one.evictions.items()},
        StorageRates(*map(float.__add__, one.rates, other.rates)),
        one.latencies.plus(other.latencies),
        one.sizes.plus(other.sizes),
    )
