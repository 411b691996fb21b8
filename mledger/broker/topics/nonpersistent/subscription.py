"""A subscription of a non-persistent topic: its consumers, and the dispatcher that divides messages among them (D12).

It has no cursor: what clients ask of one is answered and changes nothing, as in Pulsar.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from mledger.broker.dispatch.drop_rate import DropRate
from mledger.broker.dispatch.nonpersistent import (
    NonPersistentDispatcher,
    NonPersistentExclusive,
    NonPersistentKeyShared,
    NonPersistentShared,
)
from mledger.broker.facts import FactsRun
from mledger.broker.protocol.message_frames import NO_EPOCH
from mledger.broker.protocol.requests import AckRun, CumulativeAck
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.topics.subscriptions.ack_answers import refuse_closed
from mledger.broker.topics.subscriptions.admission import check_consumer, check_only_consumer
from mledger.broker.topics.subscriptions.consumer import Consumer, ConsumerRequest, OutgoingEntries
from mledger.broker.topics.subscriptions.dispatchers import dispatch_mode, dispatch_settings
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic

SubType = pb.CommandSubscribe
NOT_STORED = Position(0, 0)
"""The id that every message of a non-persistent topic has, as in Pulsar."""


class NonPersistentSubscription:
    """One subscription. `durable` ones stay without consumers, as long as the topic is open."""

    def __init__(self, topic: "NonPersistentTopic", name: str, *, durable: bool) -> None:
        self.topic = topic
        self.name = name
        self.durable = durable
        self.consumers: list[Consumer] = []
        self.lock = asyncio.Lock()
        self.deleted = False
        self.messages_out = 0
        self.bytes_out = 0
        self.last_flow_ms = 0
        self.drops = DropRate()
        self._dispatcher: NonPersistentDispatcher | None = None
        self._mode: tuple[object, ...] = ()

    @property
    def kind(self) -> int | None:
        """The type of its consumers, None if it has none."""
        return self.consumers[0].request.kind if self.consumers else None

    @property
    def active_consumer(self) -> Consumer | None:
        """The one that gets everything, of an exclusive or failover subscription."""
        active = self._dispatcher.active if isinstance(self._dispatcher, NonPersistentExclusive) else None
        return None if active is None else cast("Consumer", active.key)

    @property
    def backlog(self) -> int:
        """Nothing waits to be sent or acknowledged."""
        return 0

    @property
    def mark_delete(self) -> None:
        """Nothing is kept, acknowledged or not."""

    @property
    def delayed(self) -> int:
        """Nothing waits for its time."""
        return 0

    @property
    def needs_keys(self) -> bool:
        """Whether its dispatcher needs the hashes of keys."""
        return isinstance(self._dispatcher, NonPersistentKeyShared)

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
            if self._dispatcher is None:  # one that no consumer ever had is not there
                self.topic.subscriptions.forget(self)
            raise

    def _admit(self, consumer: Consumer) -> None:
        check_consumer(self, consumer)
        if consumer.request.read_compacted:
            raise BrokerRefusal(pb.NotAllowedError, f"{self.topic.name} is not stored, and so never compacted")
        dispatcher, mode = self._dispatcher, dispatch_mode(consumer.request)
        if dispatcher is None or (not self.consumers and self._mode != mode):
            dispatcher = self._new_dispatcher(consumer.request)
        consumer.dispatch.epoch = NO_EPOCH  # nothing is sent again: no message is older than what the client asks for
        dispatcher.add(consumer.dispatch, wall_clock_ms())
        if dispatcher is not self._dispatcher:
            self._dispatcher, self._mode = dispatcher, mode
        self.consumers.append(consumer)

    def begin(self) -> None:
        """Serve a consumer that was added, once its client knows of it."""
        if self._dispatcher is not None:
            for notice in self._dispatcher.notices(wall_clock_ms()):
                told = cast("Consumer", notice.consumer.key)
                told.connection.tell_active(told, notice.is_active)

    def close_consumer(self, consumer: Consumer) -> None:
        """A client closed its consumer, or is gone; a subscription that is not durable goes with its last one."""
        self._remove(consumer)
        if not self.durable and not self.consumers:
            self.topic.subscriptions.forget(self)

    def disconnect(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Close every consumer and tell its client, which subscribes again, at the broker at `moved_to` if given."""
        for consumer in list(self.consumers):
            self._remove(consumer)
            consumer.connection.disconnect_consumer(consumer, moved_to)

    async def delete(self, consumer: Consumer, *, force: bool) -> None:
        """Forget the subscription at the wish of a consumer: its only one, unless `force`.

        Raises:
            BrokerRefusal: it has other consumers.
        """
        check_only_consumer(self, consumer, force=force)
        self.topic.subscriptions.forget(self)
        self._remove(consumer)
        self.disconnect()

    def _remove(self, consumer: Consumer) -> None:
        if consumer.closed:
            return
        consumer.closed = True
        self.consumers.remove(consumer)
        if self._dispatcher is not None:
            self._dispatcher.remove(consumer.dispatch, wall_clock_ms())
            self.begin()

    def _new_dispatcher(self, request: ConsumerRequest) -> NonPersistentDispatcher:
        settings, name = dispatch_settings(self.topic.settings), self.topic.name
        if request.kind == SubType.Shared:
            return NonPersistentShared()
        if request.kind == SubType.Key_Shared:
            return NonPersistentKeyShared(settings, sticky=request.sticky)
        failover = request.kind == SubType.Failover
        return NonPersistentExclusive(settings, failover=failover, topic=str(name), partition=name.partition_number)

    # -- messages

    def send(self, entries: Sequence[bytes], run: FactsRun, now_ms: int) -> None:
        """Send published entries to whom they go; `run` has their facts."""
        if self._dispatcher is None:
            return
        handout = self._dispatcher.give(run)
        if handout.dropped:
            self.drops.add(handout.dropped, now_ms)
        for each in handout.deliveries:
            consumer, own = cast("Consumer", each.consumer.key), [entries[index] for index in each.indexes]
            ids = [NOT_STORED.entry_id] * len(own)
            outgoing = OutgoingEntries(NOT_STORED.ledger_id, ids, own, None, {})
            if not consumer.send(outgoing, each.messages, run.chunks_at(each.indexes), now_ms):
                self.drops.add(each.messages, now_ms)

    def run(self) -> None:
        """A connection takes more again."""
        if self._dispatcher is not None:
            self._dispatcher.written()

    def flow(self, consumer: Consumer, permits: int) -> None:
        """A consumer takes so many messages more."""
        if self._dispatcher is not None and not consumer.closed:
            consumer.asked(wall_clock_ms())
            self._dispatcher.flow(consumer.dispatch, permits)

    # -- what needs messages that are kept

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None, epoch: int) -> None:
        """Nothing can be sent again."""

    def acknowledge(self, consumer: Consumer, run: AckRun) -> None:
        """Answer; there is nothing to acknowledge."""
        self._answer(consumer, run.request_ids, len(run.positions))

    def acknowledge_cumulative(self, consumer: Consumer, ack: CumulativeAck) -> None:
        """Answer; there is nothing to acknowledge."""
        self._answer(consumer, ack.request_ids, 1)

    def _answer(self, consumer: Consumer, request_ids: Sequence[int], acked: int) -> None:
        if consumer.closed:
            refuse_closed(consumer.connection, consumer.id, request_ids)
            return
        consumer.last_acked_ms = wall_clock_ms()
        consumer.messages_acked += acked
        for request_id in request_ids:
            consumer.connection.answer_ack(consumer.id, request_id)

    async def seek(self, to: Position, ack_set: Sequence[int] = ()) -> None:
        """There is nowhere to go: consumers stay, and get what is published next."""

    async def seek_to_time(self, time_ms: int) -> None:
        """As `seek`."""
