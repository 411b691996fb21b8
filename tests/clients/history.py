"""What a client did and saw, in the order in which it reported it. No I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Place = tuple[int, int, int, int]
"""Ledger, entry, partition, index in the batch (-1 if the message is not in a batch)."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that a producer was given, and where the broker said it is; None without an answer.

    `order` is where the event of its sending is among all events.
    """

    number: int
    producer: int
    key: str
    delay_ms: int
    at: float
    place: Place | None = None
    order: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message as a consumer received it; `order` is its place among all events."""

    order: int
    at: float
    consumer: int
    phase: str
    number: int
    producer: int
    key: str
    place: Place
    redelivery: int
    intact: bool


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """An acknowledgement of one message, or of all of its partition up to it: `answered`, or only issued."""

    order: int
    at: float
    consumer: int
    number: int
    place: Place
    cumulative: bool
    answered: bool
    phase: str = "first"


@dataclass(frozen=True, slots=True)
class Activity:
    """A consumer was told whether it is the active one of a partition."""

    order: int
    consumer: int
    partition: int
    active: bool


@dataclass(slots=True)
class ClientHistory:
    """One run.

    Attributes:
        disturbed: when each disturbance that clients notice began and was over, in seconds as the events have them.
    """

    sent: dict[int, SentMessage] = field(default_factory=dict)
    received: list[Receipt] = field(default_factory=list)
    acknowledged: list[Acknowledgement] = field(default_factory=list)
    requested: list[tuple[int, str, int, Place | None]] = field(default_factory=list)  # order, event, consumer, place
    activities: list[Activity] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    sought: dict[str, Any] | None = None
    disturbed: list[tuple[float, float]] = field(default_factory=list)
    produced: bool = False
    ended: bool = False
    phase: str = "first"
    _events: int = 0

    def record(self, event: Mapping[str, Any]) -> None:
        """Add one line of a driver."""
        self._events += 1
        order, at = self._events, event["at"]
        match event["event"]:
            case "send":
                sent = SentMessage(event["number"], event["producer"], event["key"], event["delay_ms"], at, order=order)
                self.sent[sent.number] = sent
            case "sent":
                before = self.sent[event["number"]]
                self.sent[before.number] = replace(before, place=_place_sent(before.number, event["id"]))
            case "received":
                told = ("consumer", "phase", "number", "producer", "key")
                place = place_of(event["id"])
                values = {name: event[name] for name in told}
                self.received.append(
                    Receipt(order, at, place=place, redelivery=event["redelivery"], intact=event["intact"], **values)
                )
            case "ack" | "acked":
                answered = event["event"] == "acked"
                values = {name: event[name] for name in ("consumer", "number", "cumulative")}
                self.acknowledged.append(
                    Acknowledgement(
                        order, at, place=place_of(event["id"]), answered=answered, phase=self.phase, **values
                    )
                )
            case _:
                self._record_rest(event, order)

    def _record_rest(self, event: Mapping[str, Any], order: int) -> None:
        match event["event"]:
            case "negative" | "redeliver" | "closed":
                place = place_of(event["id"]) if "id" in event else None
                self.requested.append((order, event["event"], event["consumer"], place))
            case "active":
                self.activities.append(Activity(order, event["consumer"], event["partition"], event["active"]))
            case "subscribed":
                self.phase = event["phase"]
            case "seek":
                self.phase = "sought"
                self.sought = {**event, "order": order}
            case "produced":
                self.produced = True
            case "send_failed" | "failed":
                self.failures.append(event["error"])
            case "ended":
                self.ended = True

    @property
    def answered(self) -> dict[int, SentMessage]:
        """The messages whose producer was told that they are stored, without the last ones of the partitions."""
        return {number: sent for number, sent in self.sent.items() if sent.place is not None and number >= 0}


def _place_sent(number: int, fields: Iterable[int]) -> Place:
    """Where a message is; the last message of a partition is sent to that alone, which the client calls the first."""
    ledger, entry, partition, index = fields
    return ledger, entry, partition if number >= 0 else -1 - number, index


def place_of(fields: Iterable[int]) -> Place:
    """A place as the drivers write it."""
    ledger, entry, partition, index = fields
    return ledger, entry, partition, index


def history_of(events: Iterable[Mapping[str, Any]], disturbed: Iterable[tuple[float, float]] = ()) -> ClientHistory:
    """The history that these events make."""
    history = ClientHistory(disturbed=list(disturbed))
    for event in events:
        history.record(event)
    return history


@dataclass(frozen=True, slots=True)
class Changeover:
    """One consumer was the active one of a partition after a seek, and another became it by the event `order`.

    A seek closes the consumers of a failover subscription, which come back in any order. Who is there before the one
    that stays active may be served until that comes, and what it has not acknowledged then comes again, to the other.
    """

    order: int
    partition: int
    before: int
    after: int

    def explains(self, receipts: Sequence[Receipt]) -> bool:
        """Whether a message may have been received so: once by each of the two, by the new one after the change."""
        if sorted(each.consumer for each in receipts) != sorted((self.before, self.after)):
            return False
        new = next(each for each in receipts if each.consumer == self.after)
        return new.place[2] == self.partition and new.order > self.order

    def crossed(self, receipt: Receipt, made: Acknowledgement) -> bool:
        """Whether a message was sent to one of the two before its acknowledgement by the other, or may have been.

        The old consumer was sent it before the change. Its acknowledgement may follow what the new one is sent.
        """
        if receipt.place[2] != self.partition:
            return False
        if (receipt.consumer, made.consumer) == (self.before, self.after):
            return True
        return (receipt.consumer, made.consumer) == (self.after, self.before) and made.order > self.order


def changeovers(history: ClientHistory) -> list[Changeover]:
    """Those after the seek of which both consumers were told."""
    if history.sought is None:
        return []
    since: int = history.sought["order"]
    told = [each for each in history.activities if each.order > since]
    return [
        Changeover(new.order, new.partition, old.consumer, new.consumer)
        for old in told
        if not old.active and _was_active(history, old, since)
        for new in told
        if new.active and new.partition == old.partition and new.consumer != old.consumer
    ]


def _was_active(history: ClientHistory, ended: Activity, since: int) -> bool:
    """Whether a consumer was told so, or received something, before it was told that it is not, or no longer.

    Clients miss what comes with the answer to their subscribing.
    """
    told = (each for each in history.activities if each.active and each.partition == ended.partition)
    received = (each for each in history.received if each.place[2] == ended.partition)
    orders = [each.order for each in (*told, *received) if each.consumer == ended.consumer]
    return any(since < order < ended.order for order in orders)
