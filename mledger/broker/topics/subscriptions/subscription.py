"""A subscription of a topic: its cursor, its consumers, and the dispatcher that divides entries among them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from mledger.broker.dispatch.dispatcher import Dispatcher
from mledger.broker.dispatch.exclusive import ExclusiveDispatcher
from mledger.broker.dispatch.tracked_dispatcher import TrackedDispatcher
from mledger.broker.protocol.requests import AckRun, CumulativeAck, PartialAck
from mledger.broker.refusals import refusal_of
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.topics.compaction.compacted_reads import CompactedReads, ViewStart
from mledger.broker.topics.delayed.bucket_store import BucketStore
from mledger.broker.topics.delayed.delayed_buckets import DelayedBuckets
from mledger.broker.topics.delayed.restart import restore_delays
from mledger.broker.topics.subscriptions.ack_answers import AckAnswers, refuse_acks, refuse_closed
from mledger.broker.topics.subscriptions.ack_warnings import AckWarnings
from mledger.broker.topics.subscriptions.admission import check_consumer, check_only_consumer
from mledger.broker.topics.subscriptions.consumer import Consumer, ConsumerRequest
from mledger.broker.topics.subscriptions.dispatchers import (
    dispatch_mode,
    dispatch_settings,
    facts_reader,
    make_dispatcher,
)
from mledger.broker.topics.subscriptions.driver import DispatchDriver
from mledger.broker.topics.subscriptions.read_ahead import ReadAhead
from mledger.broker.topics.subscriptions.replicated_mark import mark_of
from mledger.cursors.acks.entry_bits import count_words, trim_words
from mledger.cursors.cursor import Cursor
from mledger.cursors.entry_time import publish_time
from mledger.errors import InvalidPosition
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import BatchDeletion
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.broker_topic import BrokerTopic

log = get_logger(__name__)

SubType = pb.CommandSubscribe
INDIVIDUAL_ONLY = (SubType.Shared, SubType.Key_Shared)


class BrokerSubscription:
    """One subscription; while it has consumers, a driver serves them."""

    def __init__(self, topic: "BrokerTopic", cursor: Cursor) -> None:
        self.topic = topic
        self.buckets = BucketStore(cursor, str(topic.name))
        self.name = cursor.name
        self.cursor = cursor
        self.durable = cursor.durable
        self.consumers: list[Consumer] = []
        self.lock = asyncio.Lock()
        """Held while consumers are added, the cursor is moved, or the subscription is deleted."""
        self.deleted = self._end_told = False
        self._driver: DispatchDriver | None = None
        self._mode: tuple[object, ...] = ()
        self._returning: list[str] = []  # names of consumers that were closed for a seek
        self.messages_out = self.bytes_out = self.last_flow_ms = 0
        self.advance = topic.cursor_advances.of(cursor)
        self.view_start = ViewStart(cursor, topic.managed_ledger)
        self._answers = AckAnswers(cursor)
        self._warnings = AckWarnings(topic.name, cursor.name)

    @property
    def moving(self) -> bool:
        """Whether its consumers were closed only until its cursor is elsewhere."""
        return self.lock.locked()

    @property
    def kind(self) -> int | None:
        """The type of its consumers, None if it has none."""
        return self.consumers[0].request.kind if self.consumers else None

    @property
    def active_consumer(self) -> Consumer | None:
        """The one that gets everything, of an exclusive or failover subscription."""
        dispatcher = None if self._driver is None else self._driver.dispatcher
        active = dispatcher.active if isinstance(dispatcher, ExclusiveDispatcher) else None
        return None if active is None else cast("Consumer", active.key)

    @property
    def backlog(self) -> int:
        """How many entries are not acknowledged."""
        return self.cursor.backlog

    @property
    def mark_delete(self) -> Position:
        """Up to where everything is acknowledged."""
        return self.cursor.mark_delete

    @property
    def delayed(self) -> int:
        """How many messages wait for their time, while it has or had consumers that may share it."""
        index = None if self.tracked is None else self.tracked.delayed
        return 0 if index is None else len(index)

    @property
    def tracked(self) -> TrackedDispatcher | None:
        """What shares its entries among consumers; None if it does not, or has had no consumers."""
        dispatcher = None if self._driver is None else self._driver.dispatcher
        return dispatcher if isinstance(dispatcher, TrackedDispatcher) else None

    @property
    def read_position(self) -> Position:
        """Where the next read of new entries begins."""
        return self.cursor.read_position if self._driver is None else self._driver.read_position

    # -- consumers

    def add(self, consumer: Consumer) -> None:
        """Admit a consumer.

        Raises:
            BrokerRefusal: it has another type than the others, there are too many, or the topic is closed here.
            DispatchError: the dispatcher does not take it.
        """
        try:
            self._admit(consumer)
        except MledgerError:
            self.topic.subscriptions.expect_consumers(self)
            raise

    def _admit(self, consumer: Consumer) -> None:
        request = consumer.request
        check_consumer(self, consumer)
        driver = self._driver
        if driver is None or (not self.consumers and self._mode != dispatch_mode(request)):
            driver = self._new_driver(consumer)
        driver.dispatcher.add(consumer.dispatch, driver.now_ms())
        if driver is not self._driver:
            self._drop_driver()
            self._driver, self._mode = driver, dispatch_mode(request)
        self.consumers.append(consumer)
        self.cursor.set_active(True)

    def begin(self) -> None:
        """Serve a consumer that was added, once its client knows of it."""
        if self._driver is not None:
            self._driver.tell_active()
            self._end_told = False
            self.run()

    def remove(self, consumer: Consumer) -> None:
        """Forget a consumer; what it holds unacknowledged goes to the others."""
        if not consumer.closed:
            self._take_out(consumer)
            self.begin()

    def _take_out(self, consumer: Consumer) -> None:
        consumer.closed = True
        self.consumers.remove(consumer)
        if self._driver is not None:
            self._driver.dispatcher.remove(consumer.dispatch, self._driver.now_ms())
        if not self.consumers:
            self.cursor.set_active(False)

    def close_consumer(self, consumer: Consumer) -> None:
        """A client closed its consumer, or is gone; a subscription that is not durable goes with its last one."""
        self.remove(consumer)
        self.topic.subscriptions.left(self)

    def disconnect(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Close every consumer and tell its client, which subscribes again, at the broker at `moved_to` if given.

        What they hold goes to nobody: none of them is served any more while others are closed.
        """
        for consumer in list(self.consumers):
            if not consumer.closed:  # closing another's connection may have closed it
                self._take_out(consumer)
            consumer.connection.disconnect_consumer(consumer, moved_to)

    def _drop_driver(self) -> None:
        """Forget what was read and who holds what: the next driver reads from the first entry not acknowledged."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.stop()
            for consumer in list(driver.dispatcher.consumers):  # the broker counts what they hold
                driver.dispatcher.remove(consumer, driver.now_ms())

    async def _end_driver(self) -> None:
        """Drop the driver, and wait until it stores nothing any more."""
        delays = None if self._driver is None else self._driver.delays
        self._drop_driver()
        if delays is not None:
            await delays.settled()

    def _new_driver(self, consumer: Consumer) -> DispatchDriver:
        topic = self.topic
        returning, self._returning = self._returning, []
        dispatcher: Dispatcher = make_dispatcher(
            topic, self.name, consumer.request, durable=self.durable, returning=returning
        )
        index = dispatcher.delayed if isinstance(dispatcher, TrackedDispatcher) else None
        stored = self.durable and dispatcher.settings.holds_delayed  # if that changes later, the index is in memory
        driver = DispatchDriver(
            topic.managed_ledger,
            self.cursor,
            dispatcher,
            self._reads(consumer.request),
            facts_reader(consumer.request),
            self._pass_unwanted,
            DelayedBuckets(self.buckets, index) if stored and index is not None else None,
        )
        if isinstance(dispatcher, TrackedDispatcher) and driver.delays is not None:
            ledgers = topic.managed_ledger.ledger_list
            restore_delays(dispatcher, self.cursor, ledgers, self.buckets.buckets, driver.now_ms())
        return driver

    def limit(self) -> None:
        """Keep to the rates of the topic as they are now (D5)."""
        if self._driver is not None:
            self._driver.dispatcher.set_limiters(self.topic.limits.of_subscription(self.name))
            self.run()

    def configure(self) -> None:
        """Keep to the topic's limits of unacknowledged messages, and its delays, as they are now (D1, D3)."""
        if self._driver is not None:
            self._driver.dispatcher.configure(dispatch_settings(self.topic.settings, durable=self.durable))
            self.run()

    def _reads(self, request: ConsumerRequest) -> ReadAhead:
        """What reads for consumers that subscribe so: from the topic, or from what compaction kept of it."""
        memory = self.topic.limits.read_ahead
        if not request.read_compacted:
            return ReadAhead(self.cursor, memory)
        start = partial(self.view_start.plan, from_earliest=request.from_earliest)
        return CompactedReads(self.cursor, self.topic.compacted, start, memory)

    def _pass_unwanted(self, positions: list[Position]) -> None:
        """Acknowledge what no consumer receives."""
        before = self.cursor.mark_delete
        self.cursor.acknowledge(positions)
        self.advance.passed(self.cursor, before)

    # -- dispatch

    def run(self) -> None:
        """Send what may be sent now: entries were published, or a consumer can take more."""
        if self._driver is not None:
            self._driver.run()
            if self.topic.managed_ledger.terminated is not None:
                self._tell_end()

    def _tell_end(self) -> None:
        """Tell the consumers of a terminated topic, once, that everything is acknowledged."""
        if self._end_told or not self.consumers or self.cursor.backlog:
            return
        self._end_told = True
        for consumer in self.consumers:
            consumer.connection.end_of_topic(consumer)

    def flow(self, consumer: Consumer, permits: int) -> None:
        """A consumer takes so many messages more (D1)."""
        if self._driver is not None and not consumer.closed:
            consumer.asked(wall_clock_ms())
            self._driver.dispatcher.flow(consumer.dispatch, permits)
            self._driver.run()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None, epoch: int) -> None:
        """A consumer wants these entries again, or all that it holds (D3)."""
        if self._driver is not None and not consumer.closed:
            held = consumer.dispatch.unacked
            self._driver.dispatcher.redeliver(consumer.dispatch, positions, epoch)
            consumer.messages_redelivered += held - consumer.dispatch.unacked
            self._driver.run()

    # -- acknowledgements

    def acknowledge(self, consumer: Consumer, run: AckRun) -> None:
        """Acknowledge entries and parts of batches; what a client waits for is answered once it is durable."""
        driver = self._driver
        if consumer.closed or driver is None:
            refuse_closed(consumer.connection, consumer.id, run.request_ids)
            return
        before, consumer.last_acked_ms = self.cursor.mark_delete, wall_clock_ms()
        tracked = driver.dispatcher if isinstance(driver.dispatcher, TrackedDispatcher) else None
        held = 0 if tracked is None else tracked.unacked
        try:
            if run.positions:
                positions = self._acknowledge(run.positions)
                driver.dispatcher.acknowledged(consumer.dispatch, positions)
            for position, ack_set in self._existing(run.partial):
                self._acknowledge_part(driver, consumer, position, ack_set)
        except MledgerError as error:
            self._refuse_acks(consumer, run.request_ids, error)
            return
        finally:
            consumer.messages_acked += len(run.positions) if tracked is None else held - tracked.unacked
            self._passed(before)
        if run.request_ids:
            self._answers.add(consumer, run.request_ids)
        self.run()

    def _acknowledge(self, positions: list[Position]) -> list[Position]:
        """Acknowledge whole entries; returns those that exist."""
        try:
            self.cursor.acknowledge(positions)
        except InvalidPosition:
            last = self._warn_past_end()
            positions = [position for position in positions if position <= last]
            self.cursor.acknowledge(positions)
        return positions

    def _existing(self, partial: Sequence[PartialAck]) -> Sequence[PartialAck]:
        """Those that are not past the end; of the others, which a client can send by the hundred thousand, one line."""
        last = self.topic.managed_ledger.last_confirmed
        found = [each for each in partial if each.position <= last]
        if len(found) < len(partial):
            self._warn_past_end()
        return found

    def _warn_past_end(self) -> Position:
        last = self.topic.managed_ledger.last_confirmed
        self._warnings.warn("acknowledged_past_end", last=last)
        return last

    def _acknowledge_part(
        self, driver: DispatchDriver, consumer: Consumer, position: Position, ack_set: Sequence[int]
    ) -> None:
        """Acknowledge the indexes of a batch that `ack_set` lacks (D11)."""
        held = consumer.dispatch.pending.messages(position)
        self.cursor.acknowledge_batch(position, ack_set)
        if self.cursor.is_deleted(position):
            driver.dispatcher.acknowledged(consumer.dispatch, [position])
            return
        words = self.cursor.batch_deleted(position)
        left = held if words is None else count_words(words)
        if left < held:
            driver.dispatcher.acknowledged_part(consumer.dispatch, position, held - left)

    def acknowledge_cumulative(self, consumer: Consumer, ack: CumulativeAck) -> None:
        """Acknowledge everything up to a position; types that share entries ignore it, as in Pulsar."""
        driver = self._driver
        if consumer.closed or driver is None:
            refuse_closed(consumer.connection, consumer.id, ack.request_ids)
            return
        consumer.last_acked_ms = wall_clock_ms()
        consumer.messages_acked += 1  # as in Pulsar, however many they are
        if consumer.request.kind in INDIVIDUAL_ONLY:
            self._warnings.warn("cumulative_ack_ignored")
        elif not self._acknowledge_to(driver, consumer, ack):
            return
        if ack.request_ids:
            self._answers.add(consumer, ack.request_ids)

    def _acknowledge_to(self, driver: DispatchDriver, consumer: Consumer, ack: CumulativeAck) -> bool:
        """Whether the cursor did not refuse; one that is there already, or past the end, changes nothing."""
        before = self.cursor.mark_delete
        try:
            properties = mark_of(self.cursor.properties) | dict(ack.properties)
            self.cursor.acknowledge_cumulative(ack.position, properties, ack_set=ack.ack_set)
            driver.dispatcher.acknowledged_to(self.cursor.mark_delete)
        except InvalidPosition as error:
            log.debug("cumulative_ack_ignored", topic=self.topic.name, subscription=self.name, error=error)
        except MledgerError as error:
            self._refuse_acks(consumer, ack.request_ids, error)
            return False
        self._passed(before)
        self.run()
        return True

    def _passed(self, before: Position) -> None:
        """A client has acknowledged something; the mark-delete position was `before`."""
        self.advance.passed(self.cursor, before)
        self.view_start.acknowledged(before)

    def _refuse_acks(self, consumer: Consumer, request_ids: Iterable[int], error: MledgerError) -> None:
        """Answer acknowledgements that the cursor did not take, as that of an owner fenced meanwhile does not."""
        self._warnings.warn("acknowledgement_refused", error=error)
        refuse_acks(consumer.connection, consumer.id, request_ids, refusal_of(error))

    def passed(self) -> None:
        """The cursor was moved on, as by expiry: consumers hold no longer what it passed."""
        if self._driver is not None:
            self._driver.dispatcher.acknowledged_to(self.cursor.mark_delete)
            self.run()

    # -- moving, deleting

    async def seek(self, to: Position, ack_set: Sequence[int] = ()) -> None:
        """Continue at `to`, of its batch with what `ack_set` has left; consumers subscribe again (C7)."""
        batch = BatchDeletion(to, tuple(ack_set)) if trim_words(ack_set) else None
        await self._move(lambda: self.cursor.reset(to, batch=batch), to)

    async def seek_to_time(self, time_ms: int) -> None:
        """Continue at the first message published at or after that time, ms since 1970 (C7)."""
        await self._move(lambda: self.cursor.reset_to_time(time_ms, publish_time))

    async def _move(self, move: Callable[[], Awaitable[object]], to: Position | None = None) -> None:
        try:
            async with self.lock:
                waited_for = [] if self._driver is None else self._driver.dispatcher.returning
                self._returning += [*waited_for, *(consumer.name for consumer in self.consumers)]
                self.disconnect()
                await self._end_driver()
                await move()
                self.view_start.ask(to)
                await self.buckets.clear()
        finally:
            self.topic.subscriptions.expect_consumers(self)
        log.info("subscription_moved", topic=self.topic.name, subscription=self.name, to=self.cursor.read_position)

    async def delete(self, consumer: Consumer, *, force: bool) -> None:
        """Delete the subscription at the wish of a consumer: its only one, unless `force`.

        Raises:
            BrokerRefusal: it has other consumers.
        """
        async with self.lock:
            check_only_consumer(self, consumer, force=force)
            for other in list(self.consumers):
                if other is not consumer:
                    self.remove(other)
                    other.connection.disconnect_consumer(other)
            await self._end_driver()  # from here on the cursor takes no acknowledgements, and is not read
            try:
                await self.topic.subscriptions.delete(self)
            except BaseException:  # the cursor may be stopped: the next consumer opens it again
                self.disconnect()
                raise
            finally:
                self.deleted = True
            self.remove(consumer)

    async def drop(self) -> None:
        """Delete the subscription, and close its consumers."""
        async with self.lock:
            self.disconnect()
            await self._end_driver()
            try:
                await self.topic.subscriptions.delete(self)
            finally:
                self.deleted = True

    def stop(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Serve nobody any more; the cursor stays. `moved_to` as in `disconnect`."""
        self.disconnect(moved_to)
        if self._driver is not None and self._driver.delays is not None:
            self._driver.delays.cancel()
        self._drop_driver()
        self._answers.stop()
