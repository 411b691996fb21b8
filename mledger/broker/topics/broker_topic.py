"""A topic that this broker serves: its managed ledger, producers and subscriptions."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import cast

from mledger.bookie.errors import EntryTooLarge
from mledger.broker.protocol.broker_metadata import fields_of
from mledger.broker.protocol.requests import SendRun
from mledger.broker.refusals import BrokerRefusal, refusal_of
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.compaction.attached_ledgers import AttachedLedgers
from mledger.broker.topics.compaction.compacted_view import CompactedView
from mledger.broker.topics.compaction.topic_compaction import TopicCompaction
from mledger.broker.topics.last_message import find_last_message
from mledger.broker.topics.policies_in_force import plan_encrypted, plan_largest_bytes, plan_rates, plan_settings
from mledger.broker.topics.producers.access import NO_EPOCH
from mledger.broker.topics.producers.deduplication import TopicDeduplication
from mledger.broker.topics.producers.entry_metadata import TopicEntryMetadata
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.producers.publish_limits import BrokerPublishLimits
from mledger.broker.topics.producers.refused_sends import (
    kept,
    without_larger,
    without_later,
    without_plain,
    without_transactions,
)
from mledger.broker.topics.producers.sequence_ids import Duplicate
from mledger.broker.topics.producers.topic_producers import TopicProducers, check_encrypted
from mledger.broker.topics.storage_figures import StorageFigures
from mledger.broker.topics.subscriptions.cursor_advance import CursorAdvances
from mledger.broker.topics.subscriptions.dispatchers import DispatchLimits
from mledger.broker.topics.subscriptions.subscribe_limiter import SubscribeLimiter, Subscriber
from mledger.broker.topics.subscriptions.topic_subscriptions import SubscriptionRequest, TopicSubscriptions
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.errors import TopicTerminated
from mledger.ledgers.background import Background
from mledger.ledgers.entries.open_ledger import Appended
from mledger.ledgers.retention import TopicPolicies
from mledger.metastore.cluster.service_policies import QuotaKind, QuotaPolicy
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.managed_ledger import ManagedLedger
from mledger.topics.state import TopicState, topic_terminated

log = get_logger(__name__)


POLICIES_RETRY_S = 60.0
EPOCH_PROPERTY = "pulsar.topic.epoch"


class BrokerTopic:
    """One open topic and its clients. `on_end` is called once it serves nobody any more."""

    def __init__(
        self,
        name: TopicName,
        managed_ledger: ManagedLedger,
        settings: BrokerSettings,
        limits: DispatchLimits,
        broker_publish_limits: BrokerPublishLimits,
        compacted: CompactedView,
        attached: AttachedLedgers,
        on_end: Callable[["BrokerTopic"], None],
    ) -> None:
        self.name = name
        self.managed_ledger = managed_ledger
        self._broker_settings = settings
        self._broker_limits = limits = limits.for_topic(name)
        policies = managed_ledger.policies.service
        self.settings = plan_settings(name, settings, policies)
        """The broker's, with the policies of the topic and its namespace."""
        self.rates = plan_rates(settings, policies)
        self.limits = limits.of_topic(self.rates)
        self.publish_limits = broker_publish_limits.of_topic(name, self.rates.publish)
        self.compacted = compacted
        self.attached = attached
        self.compaction = TopicCompaction(self)
        self.ended = False
        self._on_end = on_end
        epoch = _epoch_of(managed_ledger.properties.get(EPOCH_PROPERTY, ""))
        self.producers = TopicProducers(str(name), epoch, self._set_epoch)
        self.subscriptions = TopicSubscriptions(self)
        self.deduplication: TopicDeduplication | None = None
        self.cursor_advances = CursorAdvances()
        self._subscribe_limiter = SubscribeLimiter()
        self._largest_bytes = plan_largest_bytes(name, policies, managed_ledger.config)
        self._encrypted = plan_encrypted(name, self.settings)
        self.held_by: QuotaPolicy | None = None
        """The policy of the backlog quota that is exceeded, None if none is."""
        self.evictions = Counter[QuotaKind]()
        """How often evictions for each quota moved subscriptions; those that failed do not count."""
        self.entry_metadata: TopicEntryMetadata | None = None
        self.on_stored: Callable[[], None] | None = None
        """Called whenever entries are stored."""
        self._properties_lock = asyncio.Lock()
        self._deduplication_lock = asyncio.Lock()
        self._background = Background(str(name))
        self.storage_figures = StorageFigures()
        self.messages_in = 0
        self.bytes_in = 0
        self.chunk_published = self.batch_published = False
        """Whether chunks were published since the topic was opened; and batches of several messages, or one was met."""
        self.last_published_ms = 0
        """When entries were stored last, 0 for not known; before one is stored, by what the last entry says."""

    async def prepare(self) -> None:
        """Recover what publishing needs to know, before the topic serves clients."""
        self.managed_ledger.on_policies(self._take_policies)
        self._take_policies(self.managed_ledger.policies)
        self.managed_ledger.on_found = self.subscriptions.run
        await self._set_deduplication()
        if fields := fields_of(self.settings.entry_metadata):
            self.entry_metadata = await TopicEntryMetadata.open(self.managed_ledger, fields, self._set_property)

    # -- policies

    async def _set_deduplication(self) -> None:
        """Begin to deduplicate, or end it, as the settings say now."""
        async with self._deduplication_lock:
            unknown = not self.managed_ledger.policies_known and DEDUPLICATION in self.managed_ledger.cursors
            if not self.settings.deduplication and not unknown:  # else as it was before
                self.deduplication = None
                if DEDUPLICATION in self.managed_ledger.cursors:
                    await self.managed_ledger.delete_cursor(DEDUPLICATION)
            elif self.deduplication is None:
                self.deduplication = await TopicDeduplication.open(
                    self.managed_ledger, self.settings, lambda: self.producers.names
                )
            else:
                self.deduplication.settings = self.settings

    def configure(self, settings: BrokerSettings) -> None:
        """Take over changed settings of the broker, where no policy comes before them."""
        self._broker_settings = settings
        self._take_policies(self.managed_ledger.policies)

    def _take_policies(self, policies: TopicPolicies) -> None:
        """Follow changed policies of the topic or its namespace."""
        if self.ended:
            return
        before, self.settings = self.settings, plan_settings(self.name, self._broker_settings, policies.service)
        self._encrypted = plan_encrypted(self.name, self.settings)
        self.producers.configure(self.settings, encrypted=self._encrypted)
        self._largest_bytes = plan_largest_bytes(self.name, policies.service, self.managed_ledger.config)
        rates = plan_rates(self._broker_settings, policies.service)
        self.publish_limits.configure(rates.publish)
        if rates != self.rates:
            self.rates, self.limits = rates, self._broker_limits.of_topic(rates)
            for subscription in self.subscriptions:
                subscription.limit()
        ends = self.deduplication is not None and not self.settings.deduplication  # it went on while this was unknown
        if self.settings != before or ends:
            log.info("topic_settings_changed", topic=self.name)
            for subscription in self.subscriptions:
                subscription.configure()
            self._background.spawn(self._follow_deduplication(), "deduplication", endless=True)

    async def _follow_deduplication(self) -> None:
        while not self.ended:
            try:
                await self._set_deduplication()
            except MledgerError as error:
                log.warning("deduplication_not_changed", topic=self.name, error=error)
                await asyncio.sleep(POLICIES_RETRY_S)
            else:
                return

    @property
    def has_messages(self) -> bool:
        """Whether messages are stored that tell what schema it has, or that it has none."""
        return bool(self.managed_ledger.total_size)

    def sample(self) -> None:
        """Bring the rates of its storage up to date."""
        reader = self.managed_ledger.reader
        self.storage_figures.sample(reader.entries_read, reader.entries_missed)

    # -- producers

    def check_serves(self) -> None:
        """Raise BrokerRefusal if the topic is closed here: the client looks it up again."""
        if self.ended or self.managed_ledger.state in (TopicState.FENCED, TopicState.CLOSED):
            raise BrokerRefusal(pb.ServiceNotReady, f"{self.name} is closed here: look it up again")

    def check_subscribe_rate(self, subscriber: Subscriber) -> None:
        """Count a subscribe. BrokerRefusal if the consumer subscribes too often."""
        self._subscribe_limiter.take(subscriber, self.rates.subscribe, wall_clock_ms())

    async def prepare_subscription(self, name: str) -> None:
        """Create the subscription if there is none, to read all from the earliest message on.

        Raises:
            BrokerRefusal: clients may not create subscriptions, or there are too many.
            MledgerError: its cursor cannot be opened.
        """
        self.check_serves()
        if name in self.managed_ledger.cursors:
            return
        if not self.settings.auto_subscription_creation:
            why = f"{self.name} has no subscription {name}, and allowAutoSubscriptionCreation is false"
            raise BrokerRefusal(pb.NotAllowedError, why)
        await self.subscriptions.open(SubscriptionRequest(name, initial="earliest"))

    async def add_producer(self, producer: Producer, on_wait: Callable[[], None]) -> None:
        """Admit a producer; `on_wait` as in `TopicProducers.admit`.

        Raises:
            BrokerRefusal: it is not admitted.
        """
        await self.producers.free_name(producer)
        self.check_serves()
        await self._settle_sequence_ids(producer)
        self.check_serves()
        if self.managed_ledger.terminated is not None:
            raise refusal_of(topic_terminated(str(self.name)))
        self._check_quota()
        if self._encrypted:
            check_encrypted(self.name, producer)
        await self.producers.admit(producer, on_wait)
        await self._settle_sequence_ids(producer)  # it may have got the topic from another one of its name just now
        self.producers.check_open(producer)

    async def _settle_sequence_ids(self, producer: Producer) -> None:
        """Find out a producer's last sequence id: not before all is stored, or has failed, that its name has sent."""
        if (deduplication := self.deduplication) is not None:
            await self.producers.settled(producer.name)
            await deduplication.settle()
            producer.last_sequence_id = deduplication.ids.last(producer.name)

    def _check_quota(self) -> None:
        if self.held_by is not None:
            hold = self.held_by is QuotaPolicy.PRODUCER_REQUEST_HOLD
            code = pb.ProducerBlockedQuotaExceededError if hold else pb.ProducerBlockedQuotaExceededException
            raise BrokerRefusal(code, f"the backlog of {self.name} exceeds its quota ({self.held_by.value})")

    def hold_producers(self, policy: QuotaPolicy | None) -> None:
        """Close the producers and admit none while the backlog exceeds a quota; None: admit them again."""
        if policy is not None and self.held_by is None:
            log.warning("producers_held", topic=self.name, policy=policy.value)
            self.held_by = policy
            self.producers.disconnect()
        self.held_by = policy

    def remove_producer(self, producer: Producer) -> None:
        """A producer is closed."""
        self.producers.remove(producer)

    async def _set_epoch(self, epoch: int) -> None:
        await self._set_property(EPOCH_PROPERTY, str(epoch))

    async def _set_property(self, key: str, value: str) -> None:
        await self.change_properties({key: value})

    async def change_properties(self, wanted: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """Set and remove properties of the topic, durably."""
        async with self._properties_lock:  # each writes all properties
            kept = {key: value for key, value in self.managed_ledger.properties.items() if key not in removed}
            await self.managed_ledger.set_properties({**kept, **wanted})

    # -- publishing

    def publish(self, producer: Producer, run: SendRun, size: int) -> None:
        """Append a producer's entries of `size` bytes; receipts follow in one write once all are stored."""
        producer.pending += 1
        if producer.closed:
            self._settled(producer, run, size)
            return
        run, size = self._without_refused(producer, run, size)
        sent_before = -1
        if self.deduplication is not None and run:
            sent_before = self.deduplication.ids.last_sent(producer.name)
            run, size = self._without_duplicates(self.deduplication, producer, run, size)
        if not run:
            self._settled(producer, run, size)
            return
        began_s, entries = perf_counter(), cast("Sequence[bytes]", run.entries)
        if self.entry_metadata is not None:
            entries = self.entry_metadata.prefixed(run, wall_clock_ms())
        try:
            stored = self.managed_ledger.append(entries)
        except EntryTooLarge as error:
            self._too_large(producer, run, sent_before, error)
            return
        except MledgerError as error:
            if self.entry_metadata is not None:
                self.entry_metadata.refused(run)
            self._failed(producer, run, size, error)
            return
        if self.publish_limits.limiters:
            self.publish_limits.take(sum(run.messages), size)
        stored.add_done_callback(partial(self._stored, producer, run, size, began_s))

    def _without_refused(self, producer: Producer, run: SendRun, size: int) -> tuple[SendRun, int]:
        """The sends that the topic takes, and their size; the others are refused."""
        if run.unusual:
            run, size = without_transactions(producer, run, size)
        if self._encrypted:
            run, size = without_plain(producer, run, size)
        if 0 < self._largest_bytes < size:
            run, size = without_larger(producer, run, size, self._largest_bytes)
        if self.settings.longest_delay_ms > 0 and self.settings.delayed_delivery:
            run, size = without_later(producer, run, size, self.settings.longest_delay_ms)
        return run, size

    def _stored(
        self, producer: Producer, run: SendRun, size: int, began_s: float, stored: "asyncio.Future[Appended]"
    ) -> None:
        error = asyncio.CancelledError() if stored.cancelled() else stored.exception()
        if error is not None:
            self._failed(producer, run, size, error)
            return
        if self.deduplication is not None:
            last = stored.result()[-1]
            self.deduplication.stored(producer.name, run, Position(last.ledger_id, last.last_entry))
        self.storage_figures.stored(run.entries, size, perf_counter() - began_s)
        messages = sum(run.messages)
        producer.published(run, messages, size)
        self.chunk_published |= producer.chunks_in > 0
        self.batch_published |= messages > len(run)
        self.last_published_ms = wall_clock_ms()
        self.messages_in += messages
        self.bytes_in += size
        if not producer.closed:
            producer.connection.answer_sends(producer, run, stored.result())
        self._settled(producer, run, size)
        if self.on_stored is not None:
            self.on_stored()
        self.subscriptions.run()

    def publish_own(self, entry: bytes) -> "asyncio.Future[Appended]":
        """Append a message of the broker itself; the future gives its position once it is stored.

        Raises:
            BrokerRefusal: the topic is closed here.
            MledgerError: it takes no message.
        """
        self.check_serves()
        run = SendRun(-1)
        run.entries, run.messages = [entry], [1]
        entries: Sequence[bytes] = run.entries
        if self.entry_metadata is not None:
            entries = self.entry_metadata.prefixed(run, wall_clock_ms())
        try:
            stored = self.managed_ledger.append(entries)
        except MledgerError:
            if self.entry_metadata is not None:
                self.entry_metadata.refused(run)
            raise
        stored.add_done_callback(self._stored_own)
        return stored

    def _stored_own(self, stored: "asyncio.Future[Appended]") -> None:
        if stored.cancelled() or stored.exception() is not None:
            return
        self.last_published_ms = wall_clock_ms()
        if self.on_stored is not None:
            self.on_stored()
        self.subscriptions.run()

    def _too_large(self, producer: Producer, run: SendRun, sent_before: int, error: EntryTooLarge) -> None:
        """Refuse the sends of a run that are too large, and append the others; none of them was sent to the ledger."""
        if self.deduplication is not None:
            self.deduplication.ids.take_back(producer.name, sent_before)
        if self.entry_metadata is not None:
            self.entry_metadata.refused(run)
        if len(run) == 1:
            producer.connection.refuse_send(producer, max(run.sequence_ids[0], run.highest_ids[0]), refusal_of(error))
            producer.connection.published(1, len(run.entries[0]))
        else:
            for index, entry in enumerate(run.entries):
                self.publish(producer, run.only([index]), len(entry))
        producer.drained()

    def _failed(self, producer: Producer, run: SendRun, size: int, error: BaseException) -> None:
        """Close the producers of sends that were not stored.

        Their clients look the topic up again and send again, in order, or hear that it is terminated.
        """
        if self.deduplication is not None:
            self.deduplication.failed(producer.name)
        if isinstance(error, TopicTerminated):
            self.producers.disconnect()  # they are told when they come again: not every client takes it from a send
        elif self.deduplication is not None or not producer.closed:  # nobody goes on while what is stored is in doubt
            log.warning("publish_failed", topic=self.name, producer=producer.name, error=error)
            self.producers.disconnect()
        self._settled(producer, run, size)
        if self.managed_ledger.state in (TopicState.FENCED, TopicState.CLOSED):
            self.end()

    def _settled(self, producer: Producer, run: SendRun, size: int) -> None:
        producer.connection.published(len(run), size)
        producer.drained()

    def _without_duplicates(
        self, deduplication: TopicDeduplication, producer: Producer, run: SendRun, size: int
    ) -> tuple[SendRun, int]:
        """The sends that are new, and their size; the others are answered."""
        judged = deduplication.judge(producer.name, run)
        if all(each is Duplicate.NO for each in judged):
            return run, size
        for index, each in enumerate(judged):
            sequence_id = run.sequence_ids[index]
            if each is Duplicate.STORED:
                producer.connection.answer_duplicate(producer, sequence_id, run.highest_ids[index])
            elif each is Duplicate.PENDING:
                why = f"message {sequence_id} of {producer.name} was sent before and is not stored yet: send it again"
                producer.connection.refuse_send(producer, sequence_id, BrokerRefusal(pb.UnknownError, why))
        return kept(producer, run, size, [index for index, each in enumerate(judged) if each is Duplicate.NO])

    async def last_message(self, *, compacted: bool = False) -> tuple[Position, int]:
        """The position of the last message, and its index if it is in a batch, else -1; of the topic `compacted`, too.

        Raises:
            MledgerError: it cannot be read.
        """
        view = await self.compacted.latest() if compacted else None
        return await find_last_message(self.managed_ledger, view)

    # -- ending

    def end(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Serve nobody any more: clients are told, and look the topic up again, or go to the broker at `moved_to`."""
        if self.ended:
            return
        self.ended = True
        self.producers.disconnect(moved_to)
        self.subscriptions.stop(moved_to)
        self.compaction.stop()
        self._on_end(self)


def _epoch_of(text: str) -> int:
    try:
        epoch = int(text)
    except ValueError:
        return NO_EPOCH
    return epoch if epoch >> 63 == 0 else NO_EPOCH  # no client can be told one of more bits
