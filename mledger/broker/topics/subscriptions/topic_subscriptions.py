"""The subscriptions of one topic: opened when a consumer first asks for one."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal
from weakref import WeakValueDictionary

from msgspec import Struct, field

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.topics.compaction.compaction_subscription import CompactionSubscription
from mledger.broker.topics.subscriptions.admission import (
    check_properties,
    check_request,
    check_subscription_count,
)
from mledger.broker.topics.subscriptions.replicated_mark import is_marked, plan_marked
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.cursors.positions import LATEST
from mledger.cursors.recovery import Start
from mledger.errors import CursorNotFound
from mledger.ledgers.background import Background
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.backlog_quota import KEPT

if TYPE_CHECKING:
    from mledger.broker.topics.broker_topic import BrokerTopic

log = get_logger(__name__)

RETURN_S = 60.0
"""How long a subscription that is not durable is kept without consumers: they were closed as its cursor moved.

Official clients wait at most so long between attempts to subscribe again.
"""

IN_A_ROW = 500
"""So many subscriptions take what was published before other work of the loop has its turn."""


class SubscriptionRequest(Struct, frozen=True):
    """Which subscription a consumer wants, and where it starts if it is new.

    `start_after` is the position of the last message not wanted, of a subscription that is not
    durable. `rollback_s`: start at what was published so many seconds ago. `replicated`: mark it so.
    """

    name: str
    durable: bool = True
    initial: Literal["earliest", "latest"] = "latest"
    start_after: Position | None = None
    rollback_s: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    replicated: bool = False

    @property
    def start(self) -> Start:
        """Where its cursor begins if it is new."""
        after = self.start_after
        if self.durable or after is None:
            return self.initial
        if after.ledger_id < 0:
            return "earliest"
        return "latest" if after >= LATEST else after


class TopicSubscriptions:
    """Open subscriptions by name."""

    def __init__(self, topic: "BrokerTopic") -> None:
        self._topic = topic
        self._by_name: dict[str, BrokerSubscription] = {}
        self._locks = WeakValueDictionary[str, asyncio.Lock]()  # readers' names never come again
        self._creating: set[str] = set()
        self._closing = Background(str(topic.name))
        self._returning: dict[str, asyncio.TimerHandle] = {}
        self._to_run: list[BrokerSubscription] = []  # the first one last
        self._run_again = False

    def __iter__(self) -> Iterator[BrokerSubscription]:
        return iter(list(self._by_name.values()))

    def get(self, name: str) -> BrokerSubscription | None:
        """The open subscription of that name, or None."""
        return self._by_name.get(name)

    async def open(self, request: SubscriptionRequest) -> BrokerSubscription:
        """The subscription, created if it is new; and marked or moved back in time, if the request says so.

        A new one has its mark with its first record. Another has it at once, and nobody waits until that is durable.

        Raises:
            BrokerRefusal: it may not be created, one of that name is of the other durability, or the
                name is that of deduplication's cursor, whose acknowledgements say what was stored.
            MledgerError: its cursor cannot be opened, or not be moved.
        """
        self._topic.check_serves()
        check_request(self._topic.name, request.name, self, self._topic.settings)
        if request.name == DEDUPLICATION:
            raise BrokerRefusal(
                pb.NotAllowedError,
                f"{request.name} is the name of the cursor with which {self._topic.name} deduplicates: take another",
            )
        lock = self._locks.setdefault(request.name, asyncio.Lock())
        async with lock:
            found = self._by_name.get(request.name)
            if found is None:
                found = await self._open(request)
            elif found.durable != request.durable:
                kind = "durable" if found.durable else "not durable"
                raise BrokerRefusal(
                    pb.NotAllowedError,
                    f"subscription {request.name} of {self._topic.name} is {kind}: take another name",
                )
            if self._marks(request) and not is_marked(found.cursor.properties):
                self._mark(found)
            if request.rollback_s and not found.consumers:  # else one that is refused would move those that are served
                start_ms = wall_clock_ms() - request.rollback_s * 1000
                await found.seek_to_time(max(0, start_ms))
        return found

    async def existing(self, name: str) -> BrokerSubscription:
        """The durable subscription of that name, opened for no consumer, and never created.

        Raises:
            CursorNotFound: there is none.
            MledgerError: its cursor cannot be opened.
        """
        self._topic.check_serves()
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            found = self._by_name.get(name)
            if found is None:
                if not self._topic.managed_ledger.has_cursor(name):
                    raise CursorNotFound(f"{self._topic.name} has no subscription {name}")
                found = await self._open(SubscriptionRequest(name))
        return found

    async def _open(self, request: SubscriptionRequest) -> BrokerSubscription:
        topic, managed_ledger = self._topic, self._topic.managed_ledger
        is_new = request.durable and not managed_ledger.has_cursor(request.name)
        if is_new:
            self._check_creation(request.name)
            check_properties(self._topic.name, request.properties)
        with self.creation(request.name) if is_new else contextlib.nullcontext():
            cursor = await managed_ledger.open_cursor(
                request.name,
                initial=request.start,
                cursor_properties=dict(request.properties) or None,
                position_properties=plan_marked({}, marked=self._marks(request)),
                durable=request.durable,
            )
        topic.check_serves()
        made = CompactionSubscription if request.name == COMPACTION and cursor.durable else BrokerSubscription
        subscription = made(topic, cursor)
        if subscription.durable:
            await subscription.buckets.recover()
            topic.check_serves()
        else:
            after = request.start
            asked = Position(after.ledger_id, after.entry_id + 1) if isinstance(after, Position) else None
            subscription.view_start.ask(asked)
        self._by_name[request.name] = subscription
        log.info("subscription_opened", topic=topic.name, subscription=request.name)
        return subscription

    def _marks(self, request: SubscriptionRequest) -> bool:
        """Whether the subscription is to be marked as replicated."""
        return request.replicated and request.durable and self._topic.settings.replicated_subscriptions

    def _mark(self, subscription: BrokerSubscription) -> None:
        """Mark a subscription that was there as replicated; as in Pulsar its client does not wait for that."""
        cursor = subscription.cursor
        try:
            cursor.set_position_properties(plan_marked(cursor.properties, marked=True))
        except MledgerError as error:
            log.warning("subscription_not_marked", topic=self._topic.name, subscription=subscription.name, error=error)

    def _check_creation(self, name: str) -> None:
        if not self._topic.settings.auto_subscription_creation:
            raise BrokerRefusal(
                pb.SubscriptionNotFound,
                f"{self._topic.name} has no subscription {name}, and allowAutoSubscriptionCreation is false",
            )

    @contextlib.contextmanager
    def creation(self, name: str) -> Iterator[None]:
        """Count a subscription among those of the topic while it is created. BrokerRefusal if that has too many."""
        settings = self._topic.settings
        if settings.max_subscriptions_per_topic > 0:  # of thousands, it takes a while to count them
            others = {*self._topic.managed_ledger.cursors, *self._creating} - KEPT - {name}
            check_subscription_count(self._topic.name, len(others), settings)
        self._creating.add(name)
        try:
            yield
        finally:
            self._creating.discard(name)

    def left(self, subscription: BrokerSubscription) -> None:
        """A consumer left a subscription, or never came; one that is not durable goes with its last one."""
        if subscription.durable or subscription.consumers or subscription.moving:
            return
        if self._by_name.get(subscription.name) is subscription:
            del self._by_name[subscription.name]
            subscription.stop()
            self._closing.spawn(subscription.cursor.close(), f"end of subscription {subscription.name}")

    def expect_consumers(self, subscription: BrokerSubscription) -> None:
        """Let a subscription that is not durable wait a while for consumers: it was moved, or one was refused."""
        if subscription.durable:
            return
        before = self._returning.pop(subscription.name, None)
        if before is not None:  # a whole time from now
            before.cancel()
        self._returning[subscription.name] = asyncio.get_running_loop().call_later(
            RETURN_S, self._waited_for, subscription
        )

    def _waited_for(self, subscription: BrokerSubscription) -> None:
        self._returning.pop(subscription.name, None)
        self.left(subscription)

    def run(self) -> None:
        """Entries were published: send them to whom they go; other work of the loop waits for some of many only."""
        if self._to_run:
            self._run_again = True  # some had their turn before these entries came
        else:
            self._to_run = [*reversed(self._by_name.values())]
            self._run_some()

    def _run_some(self) -> None:
        try:
            for _ in range(min(IN_A_ROW, len(self._to_run))):
                self._to_run.pop().run()
        finally:
            if self._to_run:
                asyncio.get_running_loop().call_soon(self._run_some)
            elif self._run_again:
                self._run_again = False
                asyncio.get_running_loop().call_soon(self.run)

    def passed(self, name: str) -> None:
        """A subscription's cursor was moved on, as by expiry: consumers hold no longer what it passed."""
        subscription = self._by_name.get(name)
        if subscription is not None:
            subscription.passed()

    async def delete(self, subscription: BrokerSubscription) -> None:
        """Delete a subscription, its cursor and the ledgers that this names.

        If that fails, the next consumer opens the subscription anew.
        """
        try:
            if subscription.durable:
                if subscription.name == COMPACTION:
                    attached = await self._topic.attached.of_cursor(subscription.cursor.path)
                else:
                    attached = await self._topic.attached.buckets(subscription.buckets.ledgers)
                await self._topic.managed_ledger.delete_cursor(subscription.name, attached=attached)
            else:
                await subscription.cursor.close()
        finally:
            if self._by_name.get(subscription.name) is subscription:
                del self._by_name[subscription.name]
        log.info("subscription_deleted", topic=self._topic.name, subscription=subscription.name)

    def stop(self, moved_to: ServiceUrls = NOWHERE) -> None:
        """Serve nobody any more; clients are told, and subscribe again, at the broker at `moved_to` if one is named."""
        for subscription in self:
            subscription.stop(moved_to)
        self._by_name.clear()
        for waiting in self._returning.values():
            waiting.cancel()
        self._returning.clear()
