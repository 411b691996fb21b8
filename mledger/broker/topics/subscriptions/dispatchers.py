"""Which dispatcher a subscription has, by the type of its consumers, and the limits that hold for it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from mledger.admin.system_topics import is_for_brokers
from mledger.broker.dispatch.dispatcher import Dispatcher
from mledger.broker.dispatch.exclusive import ExclusiveDispatcher
from mledger.broker.dispatch.key_shared import KeySharedDispatcher
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.shared import SharedDispatcher
from mledger.broker.dispatch.waiting.delayed_bucket import BucketLimits
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.dispatch.waiting.unacked_limit import BrokerUnackedLimit
from mledger.broker.protocol.entry_facts import read_facts, read_facts_with_keys
from mledger.broker.settings import BUCKETS, BrokerSettings
from mledger.broker.topics.policies_in_force import TopicRates
from mledger.broker.topics.subscriptions.consumer import ConsumerRequest
from mledger.broker.topics.subscriptions.entry_runs import ReadFacts
from mledger.broker.topics.subscriptions.read_ahead_memory import ReadAheadMemory
from mledger.metastore.cluster.service_policies import ThrottleRate
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.broker_topic import BrokerTopic

SubType = pb.CommandSubscribe
NO_RATE = ThrottleRate()


class DispatchLimits(Struct, frozen=True):
    """What dispatchers share: the broker's limit of unacknowledged messages, the rates of broker and topic (D1, D5).

    `subscription` is the rate that each subscription has for itself, except those `by_subscription`. `read_ahead` is
    the memory for what all subscriptions read ahead.
    """

    unacked: BrokerUnackedLimit
    rates: tuple[DispatchRateLimiter, ...]
    subscription: ThrottleRate = NO_RATE
    read_ahead: ReadAheadMemory = field(default_factory=ReadAheadMemory)
    by_subscription: Mapping[str, ThrottleRate] = field(default_factory=dict)

    @classmethod
    def of_broker(cls, settings: BrokerSettings) -> "DispatchLimits":
        """The limits of a whole broker."""
        unacked = BrokerUnackedLimit(settings.unacked_messages_per_broker, settings.unacked_share_on_broker_blocked)
        rates = limiters(ThrottleRate(settings.dispatch_messages_per_s, settings.dispatch_bytes_per_s))
        return cls(unacked, rates, read_ahead=ReadAheadMemory(settings.read_ahead_bytes))

    def for_topic(self, name: TopicName) -> "DispatchLimits":
        """Those that hold for a topic of this name: the broker's rates do not for topics that brokers use."""
        return DispatchLimits(self.unacked, (), read_ahead=self.read_ahead) if is_for_brokers(name) else self

    def of_topic(self, rates: TopicRates) -> "DispatchLimits":
        """These, and those of one topic."""
        shared = (*self.rates, *limiters(rates.dispatch))
        return DispatchLimits(self.unacked, shared, rates.subscription, self.read_ahead, rates.by_subscription)

    def of_subscription(self, name: str) -> tuple[DispatchRateLimiter, ...]:
        """The rates of one subscription: those that it shares, and its own."""
        return (*self.rates, *limiters(self.by_subscription.get(name, self.subscription)))


def limiters(rate: ThrottleRate) -> tuple[DispatchRateLimiter, ...]:
    """What keeps to a rate; nothing if that is no limit."""
    if rate.messages <= 0 and rate.bytes <= 0:
        return ()
    return (DispatchRateLimiter(rate.messages, rate.bytes, period_ms=max(1, rate.period_s) * 1000),)


def dispatch_settings(settings: BrokerSettings, *, durable: bool = True) -> DispatchSettings:
    """The part of a broker's settings that the dispatchers of subscriptions use that are `durable`, or not."""
    return DispatchSettings(
        max_read_batch=settings.read_batch_size,
        min_read_batch=settings.min_read_batch_size,
        max_read_bytes=settings.read_bytes,
        max_round_robin_batch=settings.round_robin_batch_size,
        max_unacked_per_consumer=settings.unacked_messages_per_consumer if durable else 0,
        max_unacked_per_subscription=settings.unacked_messages_per_subscription,
        throttle_without_backlog=settings.throttle_without_backlog,
        throttle_entries=settings.throttle_entries,
        failure_backoff_ms=round(settings.read_failure_pause_s * 1000),
        max_failure_backoff_ms=round(settings.longest_read_failure_pause_s * 1000),
        failover_delay_ms=round(settings.failover_delay_s * 1000),
        failover_consistent_hashing=settings.failover_consistent_hashing,
        consistent_hashing=settings.consistent_hashing,
        consistent_hashing_points=settings.consistent_hashing_points,
        holds_delayed=settings.delayed_delivery,
        delayed_tick_ms=round(settings.delayed_delivery_tick_s * 1000),
        look_ahead_per_consumer=settings.look_ahead_per_consumer,
        look_ahead_per_subscription=settings.look_ahead_per_subscription,
    )


def make_dispatcher(
    topic: "BrokerTopic",
    subscription: str,
    request: ConsumerRequest,
    *,
    durable: bool = True,
    returning: Iterable[str] = (),
) -> Dispatcher:
    """The dispatcher of a subscription of this name, `durable` or not, whose first consumer subscribes so.

    `returning` are the names of consumers that were closed together, and are expected back.
    """
    settings = dispatch_settings(topic.settings, durable=durable)
    rates, delayed = topic.limits.of_subscription(subscription), _delayed(topic.settings, settings, durable=durable)
    if request.kind == SubType.Shared:
        return SharedDispatcher(settings, rates, delayed=delayed, broker_limit=topic.limits.unacked)
    if request.kind == SubType.Key_Shared:
        return KeySharedDispatcher(
            settings,
            rates,
            sticky=request.sticky,
            out_of_order=request.out_of_order,
            delayed=delayed,
            broker_limit=topic.limits.unacked,
        )
    return ExclusiveDispatcher(
        settings,
        rates,
        failover=request.kind == SubType.Failover,
        topic=str(topic.name),
        partition=topic.name.partition_number,
        returning=returning,
    )


def dispatch_mode(request: ConsumerRequest) -> tuple[object, ...]:
    """What of a first consumer's request its driver depends on: a first one with another mode needs another."""
    return request.kind, request.sticky, request.out_of_order, _needs_keys(request), request.read_compacted


def _needs_keys(request: ConsumerRequest) -> bool:
    return request.kind == SubType.Key_Shared or bool(request.key_ranges)


def _delayed(settings: BrokerSettings, dispatch: DispatchSettings, *, durable: bool) -> DelayedIndex:
    limits = bucket_limits(settings) if durable and settings.delayed_delivery else None
    return DelayedIndex(
        dispatch.delayed_tick_ms, settings.delayed_delivery_strict, settings.fixed_delay_lookahead, limits
    )


def bucket_limits(settings: BrokerSettings) -> BucketLimits | None:
    """How delayed messages are kept in buckets; None if the index of them is in memory only."""
    if settings.delayed_tracker != BUCKETS:
        return None
    return BucketLimits(
        min_indexes=settings.delayed_bucket_indexes,
        max_segment_ms=round(settings.delayed_segment_s * 1000),
        max_segment_indexes=settings.delayed_segment_indexes,
        max_buckets=settings.delayed_buckets,
    )


def facts_reader(request: ConsumerRequest) -> ReadFacts:
    """What reads the facts that the dispatcher needs of an entry."""
    return read_facts_with_keys if _needs_keys(request) else read_facts
