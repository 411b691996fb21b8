"""`…/subscription/SUBSCRIPTION`: created, deleted, and moved; of a partitioned topic on each partition."""

import asyncio
from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from mledger.broker.admin_rest.body_checks import MAX_LONG, boolean, number_of, texts
from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error, plan_request_for
from mledger.broker.admin_rest.refusals import bad_request, conflict, not_allowed, not_found, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, Action, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.message_position import MessagePlace, plan_ack_set, plan_place
from mledger.broker.admin_rest.topics.ownership import ONE, TopicOwnership, no_topic, topic_path
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.subscriptions.admission import REPLICATORS, check_properties
from mledger.broker.topics.subscriptions.backlog_scan import ScanLimits, ScannedBacklog, scan_backlog
from mledger.broker.topics.subscriptions.replicated_mark import is_marked, mark_replicated, plan_marked
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.cursors.acks.exact_positions import exact_position
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.cursors.positions import EARLIEST, LATEST, plan_reset
from mledger.cursors.recovery import Start
from mledger.errors import TopicNotFound
from mledger.ledgers.ledger_list import LedgerList
from mledger.messages.pulsar_message import decode_entry
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.topics.backlog_quota import KEPT

_SUBSCRIPTION = f"{ONE}/subscription/{{subscription}}"
SCANS_AT_ONCE = 4
LONGEST_SCAN_S = 50.0
"""Of a backlog: the request is answered in time, and says that there is more."""


def plan_scan_limits(settings: BrokerSettings) -> ScanLimits:
    """How far a backlog is read for one request."""
    seconds = min(settings.backlog_scan_s, LONGEST_SCAN_S)
    return ScanLimits(
        settings.backlog_scan_entries, round(seconds * 1000), settings.read_batch_size, settings.read_bytes
    )


def scan_answer(found: ScannedBacklog) -> dict[str, Any]:
    """A scan as Pulsar shows it. Without entry filters, which this broker has not, every entry is accepted."""
    ends = {"firstMessageId": found.first, "lastMessageId": found.last}
    return {
        "entries": found.entries,
        "messages": found.messages,
        "markerMessages": found.markers,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": found.entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": found.messages,
        "filterRescheduledMessages": 0,
        "aborted": found.aborted,
    } | {name: f"{at.ledger_id}:{at.entry_id}" for name, at in ends.items() if at is not None}


class SubscriptionResource:
    """Answers for the subscriptions of stored topics."""

    def __init__(self, broker: ServedBroker, ownership: TopicOwnership, fan_out: FanOut) -> None:
        self._broker, self._ownership, self._fan_out = broker, ownership, fan_out
        self._scans = asyncio.Semaphore(SCANS_AT_ONCE)

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        one, consume = _SUBSCRIPTION, Access.CONSUME
        return [
            AdminRoute("PUT", one, consume, self._everywhere(self.create, (HTTPStatus.CONFLICT,))),
            AdminRoute("DELETE", one, consume, self._everywhere(self.delete, (HTTPStatus.NOT_FOUND,))),
            AdminRoute("POST", f"{one}/skip/{{count}}", consume, self.skip),
            AdminRoute("POST", f"{one}/skip_all", consume, self._everywhere(self.skip_all)),
            AdminRoute("POST", f"{one}/resetcursor/{{time}}", consume, self._everywhere(self.reset_to_time)),
            AdminRoute("POST", f"{one}/resetcursor", consume, self.reset),
            AdminRoute("POST", f"{one}/expireMessages/{{seconds}}", consume, self._everywhere(self.expire)),
            AdminRoute("POST", f"{one}/expireMessages", consume, self.expire_through),
            AdminRoute(
                "POST",
                f"{ONE}/all_subscription/expireMessages/{{seconds}}",
                consume,
                self._everywhere(self.expire_all),
            ),
            AdminRoute("POST", f"{one}/analyzeBacklog", consume, self.analyze),
            AdminRoute("GET", f"{one}/replicatedSubscriptionStatus", consume, self.replicated),
            AdminRoute("POST", f"{one}/replicatedSubscriptionStatus", consume, self._everywhere(self.mark_replicated)),
            AdminRoute("GET", f"{one}/properties", consume, self.properties),
            AdminRoute("PUT", f"{one}/properties", consume, self._everywhere(self.set_properties)),
        ]

    def _everywhere(self, action: Action, accepted: Sequence[HTTPStatus] = ()) -> Action:
        """`action`, or for a partitioned topic the same request to each partition."""

        async def act(call: AdminCall) -> AdminAnswer:
            topic = call.topic
            partitions = await self._ownership.partitions(topic)
            if not partitions:
                return await action(call)
            answers = await self._fan_out.ask_partitions(call, topic, partitions)
            wrong = plan_first_error(answers, accepted)
            return NO_CONTENT if wrong is None else wrong

        return act

    async def create(self, call: AdminCall) -> AdminAnswer:
        """Create a subscription at the end of the topic, or where the body says; `replicated` marks it as that."""
        body = call.request.json()
        place = MessagePlace(LATEST) if body is None else plan_place(body)
        topic, name = await self._create_topic(call), call.values["subscription"]
        storage = topic.managed_ledger
        await storage.initialized()
        if name == DEDUPLICATION:
            raise precondition(f"{name} is the name of a cursor that Pulsar keeps for itself")
        if name.startswith(REPLICATORS):
            raise precondition(f"names that begin with {REPLICATORS} are those of replicators' cursors")
        position, ack_set = await _within_batch(topic, place)  # before there is a subscription: it may be refused
        if name in storage.cursors or topic.subscriptions.get(name) is not None:
            raise conflict("Subscription already exists for topic")
        check_properties(topic.name, place.properties)
        with topic.subscriptions.creation(name):
            await storage.open_cursor(
                name,
                initial=_start(storage.ledgers_to_start_in, position),
                cursor_properties=dict(place.properties) or None,
                position_properties=plan_marked({}, marked=call.request.flag("replicated")),
            )
        if ack_set:
            await self._seek_new(call, position, ack_set)
        return NO_CONTENT

    async def _seek_new(self, call: AdminCall, position: Position, ack_set: tuple[int, ...]) -> None:
        """Move a subscription that was just created into a batch; it is deleted again if that fails."""
        subscription = await self._ownership.subscription(call)
        try:
            await subscription.seek(position, ack_set)
        except MledgerError:
            await subscription.drop()
            raise

    async def delete(self, call: AdminCall) -> AdminAnswer:
        """Delete a subscription; with consumers only with `force`."""
        subscription = await self._ownership.subscription(call)
        if subscription.consumers and not call.request.flag("force"):
            raise precondition("Subscription has active connected consumers")
        await subscription.drop()
        return NO_CONTENT

    async def skip(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge the next messages."""
        count = number_of(call.values["count"], "the number of messages", low=0)
        if await self._ownership.partitions(call.topic):
            raise not_allowed("Skip messages on a partitioned topic is not allowed")
        subscription = await self._passable(call)
        await _passing(subscription, subscription.cursor.skip(count))
        return NO_CONTENT

    async def skip_all(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge everything."""
        subscription = await self._passable(call)
        await _passing(subscription, subscription.cursor.clear_backlog())
        return NO_CONTENT

    async def reset_to_time(self, call: AdminCall) -> AdminAnswer:
        """Continue at the first message published at a time or later, ms since 1970."""
        time_ms = number_of(call.values["time"], "the time", low=0, most=MAX_LONG)
        await (await self._ownership.subscription(call)).seek_to_time(time_ms)
        return NO_CONTENT

    async def reset(self, call: AdminCall) -> AdminAnswer:
        """Continue at a message."""
        place = plan_place(call.request.json())
        if await self._ownership.partitions(call.topic):
            raise not_allowed("Reset-cursor at position is not allowed for partitioned-topic")
        subscription = await self._ownership.subscription(call)
        await subscription.seek(*await _within_batch(subscription.topic, place))
        return NO_CONTENT

    async def expire(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge what is older than so many seconds."""
        before_ms, subscription = _before_ms(call), await self._passable(call)
        if not subscription.cursor.backlog:
            raise conflict(f"{subscription.name} of {call.topic} has no backlog: no message of it can expire")
        await _expire(subscription, before_ms)
        return NO_CONTENT

    async def expire_all(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge what is older than so many seconds, on every subscription; each as asked for by itself.

        So each is authorized: a subscription can be for some roles only.
        """
        _before_ms(call)
        topic, seconds = await self._ownership.open(call), call.values["seconds"]
        await topic.managed_ledger.initialized()
        paths = [
            topic_path(call.topic, f"subscription/{quote(name, safe='')}/expireMessages/{seconds}")
            for name in sorted(set(topic.managed_ledger.cursors) - KEPT)
        ]
        answers = await self._fan_out.ask_all([plan_request_for(call.request, "POST", path) for path in paths])
        wrong = plan_first_error([*answers, NO_CONTENT], accepted=(HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND))
        return NO_CONTENT if wrong is None else wrong

    async def expire_through(self, call: AdminCall) -> AdminAnswer:
        """Acknowledge everything up to a message."""
        place = plan_place(call.request.json())
        if await self._ownership.partitions(call.topic):
            raise not_allowed("Expire message at position is not supported for partitioned-topic")
        subscription = await self._passable(call)
        await _passing(subscription, subscription.advance.expire_through(subscription.cursor, place.position))
        return NO_CONTENT

    async def analyze(self, call: AdminCall) -> AdminAnswer:
        """What the backlog has, from a message on or from its beginning, as far as the limits allow."""
        body = call.request.json()
        start = None if body is None else plan_place(body).position
        if await self._ownership.partitions(call.topic):
            raise not_allowed(
                "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition"
            )
        subscription = await self._ownership.subscription(call)
        async with self._scans:
            topic, limits = subscription.topic, plan_scan_limits(subscription.topic.settings)
            return json_answer(
                scan_answer(await scan_backlog(topic.managed_ledger, subscription.cursor.acks, start, limits))
            )

    async def replicated(self, call: AdminCall) -> AdminAnswer:
        """Whether a subscription is marked as replicated, by topic; of a partitioned topic on each partition."""
        topic = call.topic
        if partitions := await self._ownership.partitions(topic):
            answers = await self._fan_out.ask_partitions(call, topic, partitions)
            wrong = plan_first_error(answers)
            return wrong or json_answer({name: marked for each in answers for name, marked in each.json().items()})
        cursor = (await self._ownership.subscription(call)).cursor
        return json_answer({str(topic): is_marked(cursor.properties)})

    async def mark_replicated(self, call: AdminCall) -> AdminAnswer:
        """Mark a subscription as replicated, or no longer: for brokers that replicate, this one does not."""
        marked = boolean("whether the subscription is replicated")(call.request.json(required=True))
        await mark_replicated((await self._ownership.subscription(call)).cursor, marked=marked)
        return NO_CONTENT

    async def properties(self, call: AdminCall) -> AdminAnswer:
        """The properties of a subscription; of a partitioned topic those of its first partition."""
        topic = call.topic
        if partitions := await self._ownership.partitions(topic):
            return (await self._fan_out.ask_partitions(call, topic, min(partitions, 1)))[0]
        return json_answer((await self._ownership.subscription(call)).cursor.cursor_properties)

    async def set_properties(self, call: AdminCall) -> AdminAnswer:
        """Replace the properties of a subscription, but for those of the brokers."""
        wanted = texts(call.request.json(), "the properties")
        check_properties(call.topic, wanted)
        cursor = (await self._ownership.subscription(call)).cursor
        await cursor.set_cursor_properties(wanted)
        return NO_CONTENT

    async def _passable(self, call: AdminCall) -> BrokerSubscription:
        """The subscription, of which a request may acknowledge what it has not: not compaction's (C7)."""
        if call.values["subscription"] == COMPACTION:
            raise precondition(
                f"{COMPACTION} says how far the topic is compacted, and only compaction moves it on: compact the topic"
            )
        return await self._ownership.subscription(call)

    async def _create_topic(self, call: AdminCall) -> BrokerTopic:
        """The topic, which a subscription creates where clients may."""
        topic = call.topic
        await self._ownership.check(call, topic)
        try:
            found = await self._broker.topics.topic(topic, create=True)
        except TopicNotFound:
            raise no_topic(topic) from None
        if not isinstance(found, BrokerTopic):
            raise not_found(f"nothing of {topic} is stored")
        return found


def _start(ledgers: LedgerList, position: Position) -> Start:
    """Where a cursor is created whose first entry is at `position`: no move later, which could fail, and leave it."""
    if position in (EARLIEST, LATEST):
        return "earliest" if position == EARLIEST else "latest"
    return plan_reset(ledgers, exact_position(position)).mark_delete


async def _within_batch(topic: BrokerTopic, place: MessagePlace) -> tuple[Position, tuple[int, ...]]:
    """The entry at which to continue, and what is left of its batch if a part of that is acknowledged. AdminRefusal."""
    position, first = place.position, max(0, place.batch_index)
    if place.excluded and place.batch_index < 0 and position not in (EARLIEST, LATEST):
        position, first = Position(position.ledger_id, position.entry_id + 1), 0
    elif place.excluded:
        first += 1
    ack_set: tuple[int, ...] = ()
    if first and topic.managed_ledger.ledger_list.exists(position):
        entry = await topic.managed_ledger.read_entry(position)
        messages = decode_entry(entry.payload, str(position)).message_count
        ack_set = plan_ack_set(first, messages)
        if first >= messages:
            position = Position(position.ledger_id, position.entry_id + 1)
    return position, ack_set


def _before_ms(call: AdminCall) -> int | None:
    """Before when messages expire; None for a time to live of 0, of which Pulsar lets nothing expire."""
    seconds = number_of(call.values["seconds"], "the seconds", low=0)
    if seconds > wall_clock_ms() // 1000:
        raise bad_request("the seconds reach back before 1970")
    return wall_clock_ms() - seconds * 1000 if seconds else None


async def _expire(subscription: BrokerSubscription, before_ms: int | None) -> None:
    if before_ms is not None:
        await _passing(subscription, subscription.advance.expire_before(subscription.cursor, before_ms))


async def _passing(subscription: BrokerSubscription, passing: Awaitable[object]) -> None:
    """Move the cursor on: consumers hold no longer what it passed, even if that cannot be written yet."""
    try:
        await passing
    finally:
        subscription.passed()
