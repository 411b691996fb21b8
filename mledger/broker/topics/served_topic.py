"""What a topic and a subscription are to the connections of clients, whether their messages are stored or not.

Stored topics are `BrokerTopic` with `BrokerSubscription`, non-persistent ones those of `nonpersistent`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.protocol.requests import AckRun, CumulativeAck, SendRun
    from mledger.broker.settings import BrokerSettings
    from mledger.broker.topics.producers.producer import Producer
    from mledger.broker.topics.producers.publish_limits import PublishLimits
    from mledger.broker.topics.producers.topic_producers import TopicProducers
    from mledger.broker.topics.subscriptions.consumer import Consumer
    from mledger.broker.topics.subscriptions.subscribe_limiter import Subscriber
    from mledger.broker.topics.subscriptions.topic_subscriptions import SubscriptionRequest


class ServedSubscription(Protocol):
    """A subscription with its consumers. `lock` is held while consumers are added."""

    name: str
    durable: bool
    consumers: "list[Consumer]"
    lock: asyncio.Lock
    messages_out: int
    bytes_out: int
    last_flow_ms: int

    @property
    def topic(self) -> "ServedTopic":
        """Its topic."""

    @property
    def kind(self) -> int | None:
        """The type of its consumers, None if it has none."""

    @property
    def active_consumer(self) -> "Consumer | None":
        """The one that gets everything, of an exclusive or failover subscription."""

    @property
    def backlog(self) -> int:
        """How many entries are not acknowledged."""

    @property
    def mark_delete(self) -> Position | None:
        """Up to where everything is acknowledged; None where nothing is kept."""

    @property
    def delayed(self) -> int:
        """How many messages wait for their time."""

    def add(self, consumer: "Consumer") -> None:
        """Admit a consumer. BrokerRefusal or DispatchError if it is not admitted."""

    def begin(self) -> None:
        """Serve a consumer that was added, once its client knows of it."""

    def close_consumer(self, consumer: "Consumer") -> None:
        """A client closed its consumer, or is gone; a subscription that is not durable goes with its last one."""

    def run(self) -> None:
        """Send what may be sent now: a connection takes more again."""

    def flow(self, consumer: "Consumer", permits: int) -> None:
        """A consumer takes so many messages more (D1)."""

    def redeliver(self, consumer: "Consumer", positions: Sequence[Position] | None, epoch: int) -> None:
        """A consumer wants these entries again, or all that it holds (D3)."""

    def acknowledge(self, consumer: "Consumer", run: "AckRun") -> None:
        """Acknowledge entries and parts of batches; every request among them is answered."""

    def acknowledge_cumulative(self, consumer: "Consumer", ack: "CumulativeAck") -> None:
        """Acknowledge everything up to a position; a request is answered."""

    async def seek(self, to: Position, ack_set: Sequence[int] = ()) -> None:
        """Continue at `to`, of its batch with what `ack_set` has left (C7)."""

    async def seek_to_time(self, time_ms: int) -> None:
        """Continue at the first message published at or after that time, ms since 1970 (C7)."""

    async def delete(self, consumer: "Consumer", *, force: bool) -> None:
        """Delete the subscription at the wish of a consumer. BrokerRefusal if it has others, unless `force`."""


class ServedSubscriptions(Protocol):
    """The subscriptions of one topic."""

    def __iter__(self) -> Iterator[ServedSubscription]: ...

    def get(self, name: str) -> ServedSubscription | None:
        """The open subscription of that name, or None."""

    async def open(self, request: "SubscriptionRequest") -> ServedSubscription:
        """The subscription, created if it is new. MledgerError if it cannot be opened."""


class ServedTopic(Protocol):
    """An open topic with its clients."""

    name: TopicName
    ended: bool
    settings: "BrokerSettings"
    producers: "TopicProducers"
    publish_limits: "PublishLimits"
    messages_in: int
    bytes_in: int
    batch_published: bool
    """Whether a batch of several messages was published since the topic was opened, or met on its way to a consumer."""

    @property
    def subscriptions(self) -> ServedSubscriptions:
        """Its subscriptions."""

    @property
    def has_messages(self) -> bool:
        """Whether messages were published that tell what schema it has, or that it has none."""

    def sample(self) -> None:
        """Bring the rates of its storage up to date."""

    def configure(self, settings: "BrokerSettings") -> None:
        """Take over changed settings of the broker."""

    def check_subscribe_rate(self, subscriber: "Subscriber") -> None:
        """Count a subscribe. BrokerRefusal if the consumer subscribes too often."""

    async def prepare_subscription(self, name: str) -> None:
        """Create the subscription if there is none, before a producer's first message. BrokerRefusal, MledgerError."""

    async def add_producer(self, producer: "Producer", on_wait: Callable[[], None]) -> None:
        """Admit a producer; calls `on_wait` if it has to wait. BrokerRefusal if it is not admitted."""

    def remove_producer(self, producer: "Producer") -> None:
        """A producer is closed."""

    def publish(self, producer: "Producer", run: "SendRun", size: int) -> None:
        """Take a producer's entries of `size` bytes; each is answered."""

    async def last_message(self, *, compacted: bool = False) -> tuple[Position, int]:
        """The position of the last message, and its index if it is in a batch, else -1. MledgerError."""

    def end(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Serve nobody any more: clients are told, and look the topic up again, or go to the broker at `moved_to`."""


def check_enabled(topic: TopicName, settings: "BrokerSettings") -> None:
    """Raise BrokerRefusal for a topic of a kind that the settings do not have the broker serve."""
    served = settings.persistent_topics if topic.is_persistent else settings.nonpersistent_topics
    if not served:
        key = "enablePersistentTopics" if topic.is_persistent else "enableNonPersistentTopics"
        raise BrokerRefusal(pb.NotAllowedError, f"{topic} is not served: this broker has {key}=false")


def client_count(topic: ServedTopic) -> int:
    """How many producers and consumers a topic has."""
    return len(topic.producers) + sum(len(each.consumers) for each in topic.subscriptions)
