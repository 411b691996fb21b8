"""A non-persistent topic that this broker serves: its producers and subscriptions, all of them in memory (D12)."""

from collections.abc import Callable, Iterator, Sequence

from mledger.broker.facts import FactsRun
from mledger.broker.protocol.entry_facts import read_facts, read_facts_with_keys
from mledger.broker.protocol.requests import SendRun
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.nonpersistent.subscription import NOT_STORED, NonPersistentSubscription
from mledger.broker.topics.policies_in_force import plan_rates, plan_settings
from mledger.broker.topics.producers.access import NO_EPOCH
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.producers.publish_limits import BrokerPublishLimits
from mledger.broker.topics.producers.refused_sends import without_plain, without_transactions
from mledger.broker.topics.producers.topic_producers import TopicProducers, check_encrypted
from mledger.broker.topics.subscriptions.admission import check_request, check_subscription_count
from mledger.broker.topics.subscriptions.subscribe_limiter import Subscriber
from mledger.broker.topics.subscriptions.topic_subscriptions import SubscriptionRequest
from mledger.ledgers.retention import TopicPolicies
from mledger.metastore.cluster.service_policies import ServicePolicies
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import steady_ms, wall_clock_ms
from mledger.pb import PulsarApi_pb2 as pb

log = get_logger(__name__)

DROPPED = Position(-1, -1)
"""The id in the receipt of a message that the broker did not take, as in Pulsar."""


class NonPersistentSubscriptions:
    """The subscriptions of one topic, by name."""

    def __init__(self, topic: "NonPersistentTopic") -> None:
        self._topic = topic
        self._by_name: dict[str, NonPersistentSubscription] = {}

    def __iter__(self) -> Iterator[NonPersistentSubscription]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> NonPersistentSubscription | None:
        """The subscription of that name, or None."""
        return self._by_name.get(name)

    async def open(self, request: SubscriptionRequest) -> NonPersistentSubscription:
        """The subscription, created if it is new. It gets what is published once it has a consumer.

        Raises:
            BrokerRefusal: it may not be created, or the topic has too many consumers.
        """
        topic = self._topic
        topic.check_serves()
        check_request(topic.name, request.name, self, topic.settings)
        found = self._by_name.get(request.name)
        if found is None:
            check_subscription_count(topic.name, len(self), topic.settings)
            found = self._by_name[request.name] = NonPersistentSubscription(
                topic, request.name, durable=request.durable
            )
            log.info("subscription_opened", topic=topic.name, subscription=request.name)
        return found

    def forget(self, subscription: NonPersistentSubscription) -> None:
        """A subscription was deleted, or nobody can come back to it."""
        subscription.deleted = True
        if self._by_name.get(subscription.name) is subscription:
            del self._by_name[subscription.name]
            log.info("subscription_deleted", topic=self._topic.name, subscription=subscription.name)

    def send(self, entries: Sequence[bytes], now_ms: int) -> None:
        """Send published entries to whom they go; what no consumer receives is left out."""
        if not self._by_name:
            return
        read = read_facts_with_keys if any(each.needs_keys for each in self._by_name.values()) else read_facts
        facts = [read(entry) for entry in entries]
        wanted = [each for each in facts if each is not None]
        if len(wanted) < len(entries):
            entries = [entry for entry, each in zip(entries, facts, strict=True) if each is not None]
        if wanted:
            run = FactsRun.of(*NOT_STORED, wanted)
            for subscription in self._by_name.values():
                subscription.send(entries, run, now_ms)

    def stop(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Serve nobody any more; clients are told, and subscribe again, at the broker at `moved_to` if one is named."""
        for subscription in self:
            subscription.disconnect(moved_to)
        self._by_name.clear()


class NonPersistentTopic:
    """One open topic and its clients. `on_end` is called once it serves nobody any more."""

    def __init__(
        self,
        name: TopicName,
        settings: BrokerSettings,
        policies: TopicPolicies,
        broker_limits: BrokerPublishLimits,
        on_end: Callable[["NonPersistentTopic"], None],
    ) -> None:
        self.name = name
        self._broker_settings = settings
        self.policies = policies.service
        self.settings = plan_settings(name, settings, self.policies)
        """The broker's, with the policies of the topic's namespace."""
        self.publish_limits = broker_limits.of_topic(name, plan_rates(settings, self.policies).publish)
        self.ended = False
        self._on_end = on_end
        self.producers = TopicProducers(str(name), NO_EPOCH, _keep_in_memory)
        self.producers.configure(self.settings, encrypted=self.settings.encryption_required)
        self.subscriptions = NonPersistentSubscriptions(self)
        self.used_ms = steady_ms()
        """When it was last known to have producers or subscriptions, by `steady_ms`."""
        self.messages_in = 0
        self.bytes_in = 0
        self.batch_published = False

    @property
    def in_use(self) -> bool:
        """Whether it has producers or subscriptions; one that has none is closed after a while."""
        return len(self.producers) > 0 or len(self.subscriptions) > 0

    @property
    def has_messages(self) -> bool:
        """Whether messages were published since it was opened."""
        return self.messages_in > 0

    def take_policies(self, policies: TopicPolicies) -> None:
        """Follow changed policies of its namespace."""
        self._follow(self._broker_settings, policies.service)

    def sample(self) -> None:
        """It has no storage, and no rates beside those of its clients."""

    def configure(self, settings: BrokerSettings) -> None:
        """Take over changed settings of the broker, where no policy comes before them."""
        self._follow(settings, self.policies)

    def _follow(self, settings: BrokerSettings, policies: ServicePolicies) -> None:
        if self.ended:
            return
        self._broker_settings, self.policies = settings, policies
        self.settings = plan_settings(self.name, settings, policies)
        self.producers.configure(self.settings, encrypted=self.settings.encryption_required)
        self.publish_limits.configure(plan_rates(settings, policies).publish)

    def check_serves(self) -> None:
        """Raise BrokerRefusal if the topic is closed here: the client looks it up again."""
        if self.ended:
            raise BrokerRefusal(pb.ServiceNotReady, f"{self.name} is closed here: look it up again")

    def check_subscribe_rate(self, subscriber: Subscriber) -> None:
        """Consumers of this topic subscribe as often as they like, as in Pulsar."""

    # -- producers

    async def prepare_subscription(self, name: str) -> None:
        """A subscription of this topic lasts only while it has consumers."""

    async def add_producer(self, producer: Producer, on_wait: Callable[[], None]) -> None:
        """Admit a producer; `on_wait` as in `TopicProducers.admit`. BrokerRefusal if it is not admitted."""
        await self.producers.free_name(producer)
        self.check_serves()
        if self.settings.encryption_required:
            check_encrypted(self.name, producer)
        await self.producers.admit(producer, on_wait)

    def remove_producer(self, producer: Producer) -> None:
        """A producer is closed."""
        self.producers.remove(producer)

    def publish(self, producer: Producer, run: SendRun, size: int) -> None:
        """Send a producer's entries of `size` bytes on to consumers, once their receipts are on their way."""
        connection = producer.connection
        if not producer.closed and run.unusual:
            run, size = without_transactions(producer, run, size)
        if not producer.closed and self.settings.encryption_required:
            run, size = without_plain(producer, run, size)
        if not producer.closed and run:
            self._take(producer, run)
        connection.published(len(run), size)

    def _take(self, producer: Producer, run: SendRun) -> None:
        """Answer the sends, and send on as many as the connection may have in hand; the others are dropped."""
        count = producer.connection.take_unstored(len(run))
        entries, messages = run.entries[:count], sum(run.messages[:count])
        size, now_ms = sum(map(len, entries)), wall_clock_ms()
        if count:
            producer.connection.answer_unstored(producer, run, 0, count, NOT_STORED)
        if count < len(run):
            producer.connection.answer_unstored(producer, run, count, len(run), DROPPED)
            producer.drops.add(sum(run.messages) - messages, now_ms)
        self.publish_limits.take(messages, size)
        producer.published(run if count == len(run) else run.only(range(count)), messages, size)
        self.messages_in += messages
        self.bytes_in += size
        self.batch_published |= messages > count
        self.subscriptions.send(entries, now_ms)

    async def last_message(self, *, compacted: bool = False) -> tuple[Position, int]:
        """Nothing is kept, so there is no last message.

        Raises:
            BrokerRefusal: always.
        """
        raise BrokerRefusal(pb.NotAllowedError, f"{self.name} keeps no messages, and so has no last one")

    def end(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Serve nobody any more: clients are told, and look the topic up again, or go to the broker at `moved_to`."""
        if self.ended:
            return
        self.ended = True
        self.producers.disconnect(moved_to)
        self.subscriptions.stop(moved_to)
        self._on_end(self)


async def _keep_in_memory(epoch: int) -> None:
    """The topic's epoch ends with the topic, as in Pulsar."""
