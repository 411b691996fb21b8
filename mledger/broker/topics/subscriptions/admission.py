"""Which consumers a subscription admits, and who may delete it: of stored topics and of others alike."""

from typing import TYPE_CHECKING, Protocol

from mledger.broker.protocol.versions import ClientFeatures
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.subscriptions.consumer import Consumer, ConsumerRequest, kind_name
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import INTERNAL_PROPERTY
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPLICATORS = "pulsar.repl"
"""How the names of the cursors begin with which Pulsar's brokers send messages to other clusters."""


class _AdmittingTopic(Protocol):
    @property
    def name(self) -> TopicName: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def subscriptions(self) -> "Iterable[_WithConsumers]": ...

    def check_serves(self) -> None: ...


class _AdmittingSubscription(Protocol):
    name: str
    deleted: bool

    @property
    def topic(self) -> _AdmittingTopic: ...

    @property
    def consumers(self) -> "Sequence[Consumer]": ...

    @property
    def kind(self) -> int | None: ...


class _PublishedTopic(Protocol):
    name: TopicName
    batch_published: bool


class _WithConsumers(Protocol):
    @property
    def consumers(self) -> "Sequence[Consumer]": ...


def check_request(
    topic: TopicName, subscription: str, opened: "Iterable[_WithConsumers]", settings: BrokerSettings
) -> None:
    """Raise BrokerRefusal if a topic with these subscriptions open admits no consumer of one of that name."""
    if not subscription:
        raise BrokerRefusal(pb.MetadataError, f"a subscription of {topic} needs a name")
    if subscription.startswith(REPLICATORS):
        raise BrokerRefusal(
            pb.NotAllowedError,
            f"a subscription of {topic} is called {subscription!r}: names that begin with {REPLICATORS} are those of "
            "replicators' cursors, take another one",
        )
    _check_count(topic, opened, settings)


def _check_count(topic: TopicName, opened: "Iterable[_WithConsumers]", settings: BrokerSettings) -> None:
    """Raise BrokerRefusal if a topic with these subscriptions open may have no more consumers."""
    if settings.max_consumers_per_topic <= 0:
        return
    count = sum(len(each.consumers) for each in opened)
    if settings.max_consumers_per_topic <= count:
        raise BrokerRefusal(
            pb.ConsumerBusy, f"{topic} has {count} consumers, the most that maxConsumersPerTopic allows"
        )


def check_kind(topic: TopicName, kind: int, settings: BrokerSettings) -> None:
    """Raise BrokerRefusal if a topic takes no subscriptions of that type."""
    if kind == pb.CommandSubscribe.Key_Shared and not settings.key_shared_subscriptions:
        why = f"{topic} takes no subscriptions of type Key_Shared: this broker has subscriptionKeySharedEnable=false"
        raise BrokerRefusal(pb.NotAllowedError, why)
    if kind_name(kind) not in settings.subscription_types:
        raise BrokerRefusal(pb.NotAllowedError, f"{topic} takes no subscriptions of type {kind_name(kind)}")


def check_batches(topic: _PublishedTopic, features: ClientFeatures) -> None:
    """Raise BrokerRefusal if a client cannot read the batches of several messages that a topic has."""
    if topic.batch_published and not features.takes_batches:
        raise BrokerRefusal(
            pb.UnsupportedVersionError,
            f"{topic.name} has batches, which a client of protocol version {features.version} cannot read: take a "
            "newer client",
        )


def check_metadata(topic: TopicName, metadata: "Mapping[str, str]", settings: BrokerSettings) -> None:
    """Raise BrokerRefusal if a consumer's metadata is longer than it may be, in characters."""
    size, most = sum(len(name) + len(value) for name, value in metadata.items()), settings.longest_consumer_metadata
    if size > most:
        raise BrokerRefusal(
            pb.MetadataError,
            f"the metadata of a consumer of {topic} has {size} characters, and maxConsumerMetadataSize is {most}",
        )


def check_properties(topic: TopicName, properties: "Iterable[str]") -> None:
    """Raise BrokerRefusal if a client gives a subscription properties by which brokers note something of their own.

    They name ledgers, which are deleted with the subscription.
    """
    internal = sorted(name for name in properties if name.startswith(INTERNAL_PROPERTY))
    if internal:
        raise BrokerRefusal(
            pb.NotAllowedError,
            f"a property of a subscription of {topic} is called {internal[0]!r}: names that begin with "
            f"{INTERNAL_PROPERTY} are the brokers' own, take another one",
        )


def check_subscription_count(topic: TopicName, count: int, settings: BrokerSettings) -> None:
    """Raise BrokerRefusal if a topic with so many subscriptions may have no more."""
    if 0 < settings.max_subscriptions_per_topic <= count:
        raise BrokerRefusal(
            pb.NotAllowedError, f"{topic} has {count} subscriptions, the most that maxSubscriptionsPerTopic allows"
        )


def check_consumer(subscription: _AdmittingSubscription, consumer: Consumer) -> None:
    """Raise BrokerRefusal if a consumer is not admitted.

    It has another type than the others, or divides keys otherwise, there are too many, also of its address, the
    subscription was deleted or the topic is closed here.
    """
    topic, request = subscription.topic, consumer.request
    most = topic.settings.max_consumers_per_subscription
    topic.check_serves()  # it may have ended while a seek held the lock
    _check_count(topic.name, topic.subscriptions, topic.settings)  # others came while the subscription was opened
    if subscription.deleted:  # while this waited: the next attempt creates it anew, where clients may
        why = f"subscription {subscription.name} of {topic.name} was deleted just now: subscribe again"
        raise BrokerRefusal(pb.ServiceNotReady, why)
    if subscription.kind is not None and subscription.kind != request.kind:
        kind = kind_name(subscription.kind)
        raise BrokerRefusal(pb.ConsumerBusy, f"subscription {subscription.name} of {topic.name} is {kind}")
    _check_keys(subscription, request)
    if 0 < most <= len(subscription.consumers):
        raise BrokerRefusal(
            pb.ConsumerBusy,
            f"subscription {subscription.name} of {topic.name} has {len(subscription.consumers)} consumers, the most "
            "that maxConsumersPerSubscription allows",
        )
    _check_host(topic, consumer)


def _check_host(topic: _AdmittingTopic, consumer: Consumer) -> None:
    """Raise BrokerRefusal if a topic may have no more consumers from the address of this one."""
    most = topic.settings.max_consumers_per_topic_and_host
    if most <= 0:
        return
    host = consumer.connection.host
    count = sum(other.connection.host == host for each in topic.subscriptions for other in each.consumers)
    if most <= count:
        raise BrokerRefusal(
            pb.ConsumerBusy,
            f"{topic.name} has {count} consumers from {host}, the most that maxSameAddressConsumersPerTopic allows",
        )


def _check_keys(subscription: _AdmittingSubscription, request: ConsumerRequest) -> None:
    """Raise BrokerRefusal if a consumer of a Key_Shared subscription expects keys divided otherwise than the others."""
    if request.kind != pb.CommandSubscribe.Key_Shared or not subscription.consumers:
        return
    wanted, given = _key_policy(request), _key_policy(subscription.consumers[0].request)
    if wanted != given:
        raise BrokerRefusal(
            pb.ConsumerBusy,
            f"subscription {subscription.name} of {subscription.topic.name} is Key_Shared with {given}, and not with "
            f"{wanted}: give all its consumers one policy",
        )


def _key_policy(request: ConsumerRequest) -> str:
    mode = "STICKY" if request.sticky else "AUTO_SPLIT"
    return f"{mode} and allowOutOfOrderDelivery={str(request.out_of_order).lower()}"


def check_only_consumer(subscription: _AdmittingSubscription, consumer: Consumer, *, force: bool) -> None:
    """Raise BrokerRefusal if a consumer wants to delete its subscription while that has others, unless `force`."""
    if list(subscription.consumers) != [consumer] and not force:
        raise BrokerRefusal(
            pb.MetadataError,
            f"subscription {subscription.name} of {subscription.topic.name} has {len(subscription.consumers)} "
            "consumers: close the others, or unsubscribe with force",
        )
