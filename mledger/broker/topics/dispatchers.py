"""Which dispatcher a subscription has, by the type of its consumers."""

from typing import TYPE_CHECKING

from mledger.broker.dispatch.delayed_index import DelayedIndex
from mledger.broker.dispatch.dispatcher import Dispatcher
from mledger.broker.dispatch.exclusive import ExclusiveDispatcher
from mledger.broker.dispatch.key_shared import KeySharedDispatcher
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.shared import SharedDispatcher
from mledger.broker.protocol.entry_facts import read_facts, read_facts_with_keys
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.consumer import ConsumerRequest
from mledger.broker.topics.entry_runs import ReadFacts
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.broker_topic import BrokerTopic

SubType = pb.CommandSubscribe


def dispatch_settings(settings: BrokerSettings) -> DispatchSettings:
    """The part of a broker's settings that dispatchers use."""
    return DispatchSettings(
        max_read_batch=settings.read_batch_size,
        min_read_batch=settings.min_read_batch_size,
        max_read_bytes=settings.read_bytes,
        max_round_robin_batch=settings.round_robin_batch_size,
        max_unacked_per_consumer=settings.unacked_messages_per_consumer,
        max_unacked_per_subscription=settings.unacked_messages_per_subscription,
        failover_delay_ms=round(settings.failover_delay_s * 1000),
    )


def make_dispatcher(topic: "BrokerTopic", request: ConsumerRequest) -> Dispatcher:
    """The dispatcher of a subscription whose first consumer subscribes so."""
    settings = dispatch_settings(topic.settings)
    if request.kind == SubType.Shared:
        return SharedDispatcher(settings, delayed=_delayed(topic.settings), broker_limit=topic.unacked_limit)
    if request.kind == SubType.Key_Shared:
        return KeySharedDispatcher(
            settings,
            sticky=request.sticky,
            out_of_order=request.out_of_order,
            delayed=_delayed(topic.settings),
            broker_limit=topic.unacked_limit,
        )
    partition = topic.name.partition_index
    return ExclusiveDispatcher(
        settings,
        failover=request.kind == SubType.Failover,
        topic=str(topic.name),
        partition=-1 if partition is None else partition,
    )


def _delayed(settings: BrokerSettings) -> DelayedIndex | None:
    return DelayedIndex(round(settings.delayed_delivery_tick_s * 1000)) if settings.delayed_delivery else None


def facts_reader(request: ConsumerRequest) -> ReadFacts:
    """What reads the facts that the dispatcher needs of an entry."""
    with_keys = request.kind == SubType.Key_Shared or bool(request.key_ranges)
    return read_facts_with_keys if with_keys else read_facts
