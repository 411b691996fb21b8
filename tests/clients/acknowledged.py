"""Which messages a broker has to take as acknowledged, and since when. No I/O.

With batch indexes, or without a batch, that is each message by itself. Else a client tells the broker of a batch only
when all messages of one delivery of it are acknowledged, or when a later entry is, cumulatively.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.clients.history import Acknowledgement, ClientHistory, Place, Receipt

Entry = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Completed:
    """A message's acknowledgement: the event that completed it, and when the first of its entry was received."""

    last: Acknowledgement
    began: Receipt


def entry_of(place: Place) -> Entry:
    """The entry in which a message is."""
    return place[0], place[1]


def members_of(history: ClientHistory) -> dict[Entry, list[Place]]:
    """The messages of each entry that a client was told of, in order."""
    found: dict[Entry, set[Place]] = defaultdict(set)
    for place in (*(each.place for each in history.received), *(each.place for each in history.sent.values())):
        if place is not None:
            found[entry_of(place)].add(place)
    return {entry: sorted(places) for entry, places in found.items()}


def completed(
    history: ClientHistory, since: int, until: float, *, by_index: bool, answered: bool
) -> dict[Place, Completed]:
    """What became acknowledged by events between `since` and `until`: by answers, or by calls alone."""
    members = members_of(history)
    receipts: dict[Entry, list[Receipt]] = defaultdict(list)
    for receipt in history.received:
        if since < receipt.order < until:
            receipts[entry_of(receipt.place)].append(receipt)
    made = _Made([each for each in history.acknowledged if since < each.order < until and each.answered >= answered])
    found: dict[Place, Completed] = {}
    for entry, of_entry in receipts.items():
        for last, places in _of_entry(members[entry], of_entry, made, by_index=by_index):
            for place in places:
                before = found.get(place)
                if before is None or last.order < before.last.order:
                    found[place] = Completed(last, of_entry[0])
    return found


class _Made:
    """Acknowledgements: of single messages by place, and cumulative ones by partition, in order."""

    def __init__(self, made: Sequence[Acknowledgement]) -> None:
        self.single: dict[Place, list[Acknowledgement]] = defaultdict(list)
        self._highest: dict[int, list[Place]] = defaultdict(list)
        self._raised_by: dict[int, list[Acknowledgement]] = defaultdict(list)
        for each in made:
            if not each.cumulative:
                self.single[each.place].append(each)
                continue
            highest = self._highest[each.place[2]]
            if not highest or each.place > highest[-1]:
                highest.append(each.place)
                self._raised_by[each.place[2]].append(each)

    def up_to(self, place: Place) -> Acknowledgement | None:
        """The first cumulative acknowledgement of this place or a later one of its partition."""
        at = bisect_left(self._highest[place[2]], place)
        return self._raised_by[place[2]][at] if at < len(self._raised_by[place[2]]) else None


def _of_entry(
    members: Sequence[Place], receipts: Sequence[Receipt], made: _Made, *, by_index: bool
) -> Iterator[tuple[Acknowledgement, Sequence[Place]]]:
    """The acknowledgements that complete messages of one entry, each with the messages."""
    last = made.up_to(members[-1])
    if last is not None:
        yield last, members
    if by_index or len(members) == 1:
        for place in members:
            part = made.up_to(place)
            if part is not None:
                yield part, [place]
            if made.single.get(place):
                yield made.single[place][0], [place]
        return
    for delivery in deliveries(receipts):
        if {each.place for each in delivery} == set(members):
            acks = [_first_after(each, made.single.get(each.place, ())) for each in delivery]
            if all(acks):
                yield max((each for each in acks if each), key=lambda each: each.order), members


def deliveries(receipts: Sequence[Receipt]) -> Iterator[list[Receipt]]:
    """The receipts of an entry, divided where a consumer begins it again."""
    begun: dict[int, list[Receipt]] = {}
    for receipt in receipts:
        under_way = begun.get(receipt.consumer)
        if under_way is not None and under_way[-1].place < receipt.place:
            under_way.append(receipt)
            continue
        if under_way is not None:
            yield under_way
        begun[receipt.consumer] = [receipt]
    yield from begun.values()


def _first_after(receipt: Receipt, made: Sequence[Acknowledgement]) -> Acknowledgement | None:
    return next((each for each in made if each.order > receipt.order and each.consumer == receipt.consumer), None)


def generations(history: ClientHistory) -> list[tuple[int, float]]:
    """The spans of events between which no seek sets acknowledgements aside."""
    if history.sought is None:
        return [(0, math.inf)]
    order: int = history.sought["order"]
    return [(0, order), (order, math.inf)]
