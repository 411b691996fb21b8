"""Compares what a client was told with what it received afterwards. No I/O.

- A message whose send was answered is received, unaltered, and at the place that the producer was told.
- Without a disturbance it is stored once, and comes again only where somebody asked for that, or where the active
  consumer of a failover subscription changes after a seek.
- A subscription with one consumer at a time keeps the order of each producer and partition, a key-shared one that of
  each producer and key. Delayed messages are exempt, and are not early.
- Nothing comes again whose acknowledgement was answered. Without batch indexes a batch is acknowledged as a whole.
- What was not acknowledged comes again to the consumer that subscribes anew.
- The redelivery count tells how often an entry was given out before.
- After a seek everything behind the target comes again, and nothing before it.

A message that was received before a client has its connection back may come twice: the old consumer may acknowledge it
when the new one already has the second copy. Such a receipt proves nothing.
"""

import enum
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.clients.acknowledged import Completed, completed, entry_of, generations, members_of
from tests.clients.history import Acknowledgement, ClientHistory, Place, Receipt, changeovers
from tests.clients.scenario import SINGLE, Scenario

EARLY_S = 1.05
"""How much too early a delayed message may come: the tick of the broker's timer, by default a second."""
EPOCHS = ("java",)
"""Clients that know what was on its way when their only consumer asked for everything again; others receive it."""
_SHOWN = 4


class Fault(enum.Enum):
    """What went wrong."""

    FAILED = "the client's run failed"
    UNFINISHED = "the client's run did not come to its end"
    LOST = "a stored message was never received"
    ALTERED = "a message was received with another content"
    MADE_UP = "a message was received that nobody sent"
    ELSEWHERE = "a message is not where its producer was told"
    STORED_TWICE = "a message was stored twice without a disturbance"
    REPEATED = "a message came again although nobody asked for it"
    OUT_OF_ORDER = "messages came in another order than promised"
    EARLY = "a delayed message came too early"
    ACK_LOST = "a message came again whose acknowledgement was answered"
    NOT_REDELIVERED = "a message that was not acknowledged did not come again"
    WRONG_COUNT = "a redelivery count is wrong"
    NOT_SOUGHT = "a message behind the target of a seek did not come again"
    BEFORE_TARGET = "a message before the target of a seek came again"


@dataclass(frozen=True, slots=True)
class FoundFault:
    """One fault in a client's run."""

    fault: Fault
    what: str

    def __str__(self) -> str:
        return f"{self.fault.name}: {self.fault.value}: {self.what}"


def check_run(scenario: Scenario, history: ClientHistory) -> list[FoundFault]:
    """Every fault of a run, of each kind the first few."""
    judge = _Judge(scenario, history)
    found = [finding for rule in judge.rules() for finding in rule]
    shown: list[FoundFault] = []
    for fault in Fault:
        of_kind = [finding for finding in found if finding.fault is fault]
        shown += of_kind[:_SHOWN]
        if len(of_kind) > _SHOWN:
            shown.append(FoundFault(fault, f"and {len(of_kind) - _SHOWN} more"))
    return shown


class _Judge:
    def __init__(self, scenario: Scenario, history: ClientHistory) -> None:
        self.scenario, self.history = scenario, history
        self.quiet = scenario.disturbance == "none"
        self.by_number: dict[int, list[Receipt]] = defaultdict(list)
        self.by_place: dict[Place, list[Receipt]] = defaultdict(list)
        self.members = members_of(history)
        for receipt in history.received:
            self.by_number[receipt.number].append(receipt)
            self.by_place[receipt.place].append(receipt)
        self.seek_order = history.sought["order"] if history.sought else 0
        self.settled = self._settled()
        self.changeovers = changeovers(history) if scenario.type == "failover" else ()

    def rules(self) -> Iterator[Iterator[FoundFault]]:
        yield self._ended()
        yield self._stored()
        yield self._contents()
        yield self._repeats()
        yield self._order()
        yield self._delays()
        yield self._acknowledgements()
        yield self._left()
        yield self._counts()
        yield self._sought()

    def _ended(self) -> Iterator[FoundFault]:
        for failure in self.history.failures:
            yield FoundFault(Fault.FAILED, failure)
        if not self.history.ended:
            missing = sorted(set(self.history.answered) - set(self.by_number))
            yield FoundFault(Fault.UNFINISHED, f"in phase {self.history.phase}; not received: {missing[:20]}")

    def _stored(self) -> Iterator[FoundFault]:
        for number, sent in self.history.answered.items():
            receipts = self.by_number.get(number)
            if not receipts:
                if self.history.ended:
                    yield FoundFault(Fault.LOST, f"{number}, stored at {sent.place}")
                continue
            places = {receipt.place for receipt in receipts}
            if sent.place not in places and self.history.ended:
                yield FoundFault(Fault.ELSEWHERE, f"{number}: told {sent.place}, received at {sorted(places)}")
            if self.quiet and len(places) > 1:
                yield FoundFault(Fault.STORED_TWICE, f"{number} at {sorted(places)}")

    def _contents(self) -> Iterator[FoundFault]:
        for receipt in self.history.received:
            sent = self.history.sent.get(receipt.number)
            if sent is None:
                yield FoundFault(Fault.MADE_UP, f"{receipt.number} at {receipt.place}")
            elif not receipt.intact or (sent.key, sent.producer) != (receipt.key, receipt.producer):
                yield FoundFault(Fault.ALTERED, f"{receipt.number} at {receipt.place}: key {receipt.key}")

    def _asked(self, place: Place, before: int) -> bool:
        """Whether a consumer asked for a message again before this event."""
        for order, event, _, asked in self.history.requested:
            if order < before and (event == "redeliver" or (event == "negative" and self._same(asked, place))):
                return True
        return False

    def _same(self, asked: Place | None, place: Place) -> bool:
        """Where one consumer is served at a time, a negative acknowledgement brings back all that it has."""
        return self.scenario.type in SINGLE or (asked is not None and entry_of(asked) == entry_of(place))

    def _repeats(self) -> Iterator[FoundFault]:
        if self.history.disturbed:
            return
        for place, receipts in self.by_place.items():
            for phase in ("first", "sought", "resumed"):
                of_phase = [receipt for receipt in receipts if receipt.phase == phase]
                changed = phase == "sought" and any(each.explains(of_phase) for each in self.changeovers)
                for receipt in of_phase[1:]:
                    if not changed and not self._asked(place, receipt.order):
                        yield FoundFault(Fault.REPEATED, f"{receipt.number} at {place}, phase {phase}")

    def _order(self) -> Iterator[FoundFault]:
        if not self._promises_order():
            return
        last: dict[tuple[object, ...], int] = {}
        seen: set[tuple[str, int]] = set()
        overtaking = self._overtaking()
        for receipt in self.history.received:
            sent = self.history.sent.get(receipt.number)
            if sent is None or sent.delay_ms or receipt.number < 0 or (receipt.phase, receipt.number) in seen:
                continue
            if receipt.order in overtaking:
                continue
            seen.add((receipt.phase, receipt.number))
            lane = receipt.place[2] if self.scenario.type in SINGLE else receipt.key
            stream = (receipt.phase, receipt.producer, lane)
            if receipt.number < last.get(stream, -1) and self._in_order_promised(receipt):
                yield FoundFault(Fault.OUT_OF_ORDER, f"{receipt.number} after {last[stream]}, {stream}")
            last[stream] = max(last.get(stream, -1), receipt.number)

    def _overtaking(self) -> set[int]:
        """The events of receipts that Java's client lets overtake what a request for everything brings again.

        It compares epochs before it puts a message into its queue: what one thread has just compared when another
        empties the queue is received behind the request, one message at most, and then again in its place.
        """
        found: set[int] = set()
        for order, event, consumer, _ in self.history.requested:
            behind = (each for each in self.history.received if each.consumer == consumer and each.order > order)
            first = next(behind, None) if event == "redeliver" else None
            if first is not None and self.by_place[first.place][-1].order > first.order:
                found.add(first.order)
        return found

    def _promises_order(self) -> bool:
        kind, asked = self.scenario.type, self.scenario.redelivery
        rewound = asked == "all" or (asked == "negative" and kind in SINGLE)
        return kind != "shared" and (not rewound or (kind in SINGLE and self.scenario.client in EPOCHS))

    def _in_order_promised(self, receipt: Receipt) -> bool:
        """Later, what was asked for before may come first, and a message stored twice where it was stored later."""
        if receipt.phase == "first":
            return True
        return self.scenario.redelivery == "none" and len({each.place for each in self.by_number[receipt.number]}) == 1

    def _delays(self) -> Iterator[FoundFault]:
        if self.scenario.type in SINGLE:
            return
        for receipt in self.history.received:
            sent = self.history.sent.get(receipt.number)
            if sent is not None and sent.delay_ms and receipt.at < sent.at + sent.delay_ms / 1000 - EARLY_S:
                yield FoundFault(Fault.EARLY, f"{receipt.number} after {receipt.at - sent.at:.3f} s")

    def _settled(self) -> list[dict[tuple[int, int], float]]:
        """After each disturbance, when a consumer surely had its connection back: it received what was sent later."""
        found: list[dict[tuple[int, int], float]] = [{} for _ in self.history.disturbed]
        over = [ended for _, ended in self.history.disturbed]
        for receipt in self.history.received:
            sent = self.history.sent.get(receipt.number)
            if sent is not None:
                for settled in found[: bisect_left(over, sent.at)]:
                    settled.setdefault((receipt.consumer, receipt.place[2]), receipt.at)
        return found

    def _unsettled(self, began: float, ended: float, consumer: int, place: Place) -> bool:
        """Whether a consumer was, between these times, without a connection that it surely had."""
        return any(
            began < settled.get((consumer, place[2]), math.inf) and ended >= since
            for (since, _), settled in zip(self.history.disturbed, self.settled, strict=True)
        )

    def _acknowledgements(self) -> Iterator[FoundFault]:
        by_index = self.scenario.ack == "batch_index"
        for since, until in generations(self.history):
            for answered in (True, False):
                done = completed(self.history, since, until, by_index=by_index, answered=answered)
                for receipt in self.history.received:
                    made = done.get(receipt.place)
                    if made is not None and since < receipt.order < until and self._excluded(receipt, made):
                        how = "answered" if answered else "made before its consumer closed in order"
                        what = f"{receipt.number} at {receipt.place}, phase {receipt.phase}, count {receipt.redelivery}"
                        yield FoundFault(Fault.ACK_LOST, f"{what}; {how}")

    def _excluded(self, receipt: Receipt, made: Completed) -> bool:
        """Whether an acknowledgement excludes a receipt."""
        last = made.last
        if last.order > receipt.order:
            return False
        if receipt.phase == "resumed" and last.phase != "resumed":
            return last.answered or self._surely_sent(last)
        if receipt.phase == "sought" and any(each.crossed(receipt, last) for each in self.changeovers):
            return False
        # With one consumer at a time, all that it has comes again.
        since = 0 if self.scenario.type in SINGLE else self._asked_since(made.began)
        asked = any(since < order < last.order for order, event, _, _ in self.history.requested if event != "closed")
        return last.answered and not asked and not self._unsettled(made.began.at, last.at, last.consumer, last.place)

    def _asked_since(self, first: Receipt) -> int:
        """The event behind which a request for everything concerns a receipt: its own, or one before such a request.

        What a broker has written before it reads the request comes, too, and again. That is over when the consumer has
        received something that was sent after the request.
        """
        requests = [
            order
            for order, event, consumer, _ in self.history.requested
            if event == "redeliver" and consumer == first.consumer and order < first.order
        ]
        if not requests:
            return first.order
        asked = requests[-1]
        until_then = [
            each for each in self.history.received if each.consumer == first.consumer and each.order <= first.order
        ]
        sent = [self.history.sent[each.number].order for each in until_then if each.number in self.history.sent]
        return first.order if max(sent, default=0) > asked else asked - 1

    def _surely_sent(self, made: Acknowledgement) -> bool:
        """Whether an acknowledgement without an answer was made when the last disturbance was over."""
        where = made.consumer, made.place[2]
        return all(made.at > settled.get(where, math.inf) for settled in self.settled)

    def _left(self) -> Iterator[FoundFault]:
        if not self.history.ended or self.history.failures:
            return
        resumed = {receipt.place for receipt in self.history.received if receipt.phase == "resumed"}
        covered = self._covered()
        for number, sent in self.history.answered.items():
            assert sent.place is not None
            if sent.place not in covered and sent.place not in resumed and not self._before_target(sent.place, sent.at):
                yield FoundFault(Fault.NOT_REDELIVERED, f"{number} at {sent.place}")

    def _covered(self) -> set[Place]:
        """The places that any acknowledgement since the last seek may cover."""
        found: set[Place] = set()
        upper: dict[int, Place] = {}
        for each in self.history.acknowledged:
            if each.phase == "resumed" or each.order < self.seek_order:
                continue
            if each.cumulative:
                upper[each.place[2]] = max(each.place, upper.get(each.place[2], each.place))
            else:
                found.add(each.place)
        every = (place for members in self.members.values() for place in members)
        return found | {place for place in every if place[2] in upper and place <= upper[place[2]]}

    def _counts(self) -> Iterator[FoundFault]:
        """A consumer may see a later delivery before an earlier one that waits in the queue of another."""
        if not self.quiet or self.scenario.type in SINGLE or self.scenario.redelivery == "all":
            return
        for place, receipts in self.by_place.items():
            counts: set[int] = set()
            for receipt in receipts:
                if receipt.phase != "first":
                    continue
                asked = sum(
                    event == "negative" and self._same(where, place) and order < receipt.order
                    for order, event, _, where in self.history.requested
                )
                if receipt.redelivery in counts or receipt.redelivery > asked:
                    what = f"count {receipt.redelivery} after {sorted(counts)}, asked {asked} times"
                    yield FoundFault(Fault.WRONG_COUNT, f"{receipt.number} at {place}: {what}")
                counts.add(receipt.redelivery)

    def _before_target(self, place: Place, sent_at: float) -> bool:
        """Whether a seek left a message behind it, or may have."""
        sought = self.history.sought
        if sought is None or sought["kind"] == "earliest":
            return False
        if sought["kind"] == "id":
            return entry_of(place) <= tuple(sought["position"])
        return sent_at * 1000 < sought["time_ms"]

    def _sought(self) -> Iterator[FoundFault]:
        sought = self.history.sought
        if sought is None or not self.history.ended:
            return
        again = [receipt for receipt in self.history.received if receipt.phase == "sought"]
        numbers = {receipt.number for receipt in again}
        for number, sent in self.history.answered.items():
            assert sent.place is not None
            if number not in numbers and not self._before_target(sent.place, sent.at):
                yield FoundFault(Fault.NOT_SOUGHT, f"{number} at {sent.place}, {sought}")
        if sought["kind"] == "id":
            for receipt in again:
                if entry_of(receipt.place) < tuple(sought["position"]):
                    yield FoundFault(Fault.BEFORE_TARGET, f"{receipt.number} at {receipt.place}, {sought}")
