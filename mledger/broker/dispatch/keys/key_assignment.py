"""Which consumer of a Key_Shared subscription a key's hash belongs to, as Pulsar 4 assigns them (D2)."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from mledger.broker.dispatch.consumer import ConsumerNotAssignable, DispatchConsumer
from mledger.broker.dispatch.keys.key_hash import KeyRange, key_hash
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.facts import KEY_HASHES


class KeyAssignment(ABC):
    """Hashes divided among consumers."""

    @abstractmethod
    def add(self, consumer: DispatchConsumer) -> None:
        """A consumer takes its part. Raises ConsumerNotAssignable, before any change, if there is none for it."""

    @abstractmethod
    def remove(self, consumer: DispatchConsumer) -> None:
        """A consumer leaves its part to others, or to nobody."""

    @abstractmethod
    def owner(self, hashed: int) -> DispatchConsumer | None:
        """Whose a hash is; None if it is nobody's."""

    @abstractmethod
    def ranges(self) -> list[tuple[KeyRange, DispatchConsumer]]:
        """All ranges with their consumers, in order; neighbours of one consumer are joined."""


class _RingOfEnds(KeyAssignment):
    """Hashes up to each end, from the one before on, belong to that end's consumer.

    The ends are put in order when somebody asks: many consumers that join at once, as after a restart, cost one sort.
    """

    def __init__(self) -> None:
        self._points: dict[int, DispatchConsumer] = {}
        self._ends: list[int] = []
        self._owners: list[DispatchConsumer] = []
        self._in_order = True

    def _order(self) -> None:
        if not self._in_order:
            self._ends = sorted(self._points)
            self._owners = [self._points[end] for end in self._ends]
            self._in_order = True

    def owner(self, hashed: int) -> DispatchConsumer | None:
        """Whose a hash is; None without consumers."""
        self._order()
        if not self._ends:
            return None
        at = bisect_left(self._ends, hashed)
        return self._owners[at if at < len(self._owners) else 0]

    def ranges(self) -> list[tuple[KeyRange, DispatchConsumer]]:
        """All ranges with their consumers."""
        self._order()
        found: list[tuple[KeyRange, DispatchConsumer]] = []
        ends = [*zip(self._ends, self._owners, strict=True)]
        if ends and ends[-1][0] < KEY_HASHES - 1:
            ends.append((KEY_HASHES - 1, self._owners[0]))
        start = 0
        for end, owner in ends:
            last = min(end, KEY_HASHES - 1)
            if found and found[-1][1] is owner:
                found[-1] = (KeyRange(found[-1][0].start, last), owner)
            else:
                found.append((KeyRange(start, last), owner))
            start = end + 1
        return found


class ConsistentHashing(_RingOfEnds):
    """Auto-split by points on a ring: a consumer that joins or leaves moves few keys of others.

    The points of a consumer follow from its name; of two with the same name the second has other points. A newcomer
    takes over a point that another one has.
    """

    def __init__(self, points: int = 100) -> None:
        """`subscriptionKeySharedConsistentHashingReplicaPoints` for each consumer."""
        super().__init__()
        self._count = points
        self._indexes: dict[DispatchConsumer, int] = {}

    def add(self, consumer: DispatchConsumer) -> None:
        """Put a consumer's points on the ring."""
        taken = {index for other, index in self._indexes.items() if other.name == consumer.name}
        index = next(i for i in range(len(taken) + 1) if i not in taken)
        self._indexes[consumer] = index
        for end in self._ends_of(consumer, index):
            self._points[end] = consumer
        self._in_order = False

    def remove(self, consumer: DispatchConsumer) -> None:
        """Take a consumer's points off the ring."""
        index = self._indexes.pop(consumer, None)
        if index is None:
            return
        for end in self._ends_of(consumer, index):
            if self._points.get(end) is consumer:
                del self._points[end]
        self._in_order = False

    def _ends_of(self, consumer: DispatchConsumer, index: int) -> Iterator[int]:
        """The points of the consumer that is the `index`th of its name."""
        return (key_hash(f"{consumer.name}\0{index}\0{number}".encode()) for number in range(self._count))


class RangeSplit(_RingOfEnds):
    """Auto-split by halves: a newcomer takes the lower half of the first of the largest ranges."""

    def add(self, consumer: DispatchConsumer) -> None:
        """Split the largest range."""
        self._order()
        if not self._points:
            self._points[KEY_HASHES] = consumer
        else:
            starts = [0, *self._ends[:-1]]
            size, end = max(((end - start, -end) for start, end in zip(starts, self._ends, strict=True)))
            if size <= 1:
                raise ConsumerNotAssignable(
                    f"all {KEY_HASHES} key hashes are assigned: {len(self._points)} consumers are too many"
                )
            self._points[-end - (size >> 1)] = consumer
        self._in_order = False

    def remove(self, consumer: DispatchConsumer) -> None:
        """The next range takes a consumer's over; for the last one, the range before."""
        end = next((end for end, owner in self._points.items() if owner is consumer), None)
        if end is None:
            return
        del self._points[end]
        if end == KEY_HASHES and self._points:
            self._points[KEY_HASHES] = self._points.pop(max(self._points))
        self._in_order = False


class StickyRanges(KeyAssignment):
    """Each consumer says which ranges it takes; a hash in none of them waits."""

    def __init__(self) -> None:
        self._ranges: list[tuple[KeyRange, DispatchConsumer]] = []
        self._ends: list[int] = []

    def add(self, consumer: DispatchConsumer) -> None:
        """Give a consumer the ranges that it asks for."""
        if not consumer.key_ranges:
            raise ConsumerNotAssignable(f"consumer {consumer.name!r} gives no key ranges: a sticky one needs them")
        for new in consumer.key_ranges:
            if not 0 <= new.start <= new.end < KEY_HASHES:
                raise ConsumerNotAssignable(
                    f"key range {new.start} to {new.end} of consumer {consumer.name!r} is not one: "
                    f"give a start and an end from 0 to {KEY_HASHES - 1}"
                )
        asked = [*self._ranges, *((each, consumer) for each in consumer.key_ranges)]
        asked.sort(key=lambda each: each[0])
        for before, behind in pairwise(asked):  # those that overlap any are among them: a client may name very many
            if behind[0].start <= before[0].end:
                (new, _), (old, owner) = (behind, before) if behind[1] is consumer else (before, behind)
                raise ConsumerNotAssignable(
                    f"key range {new.start} to {new.end} of consumer {consumer.name!r} overlaps "
                    f"{old.start} to {old.end} of consumer {owner.name!r}: choose another"
                )
        self._set(asked)

    def remove(self, consumer: DispatchConsumer) -> None:
        """Nobody has a consumer's ranges any more."""
        self._set([each for each in self._ranges if each[1] is not consumer])

    def _set(self, ranges: list[tuple[KeyRange, DispatchConsumer]]) -> None:
        """Have these ranges, in order."""
        self._ranges = ranges
        self._ends = [each.end for each, _ in self._ranges]

    def owner(self, hashed: int) -> DispatchConsumer | None:
        """Whose a hash is; None if no range has it."""
        at = bisect_left(self._ends, hashed)
        if at == len(self._ends):
            return None
        found, owner = self._ranges[at]
        return owner if found.start <= hashed else None

    def ranges(self) -> list[tuple[KeyRange, DispatchConsumer]]:
        """All ranges with their consumers, as asked for."""
        return list(self._ranges)


def make_assignment(settings: DispatchSettings, *, sticky: bool) -> KeyAssignment:
    """The assignment of a subscription; `sticky`: its consumers give their ranges."""
    if sticky:
        return StickyRanges()
    if settings.consistent_hashing:
        return ConsistentHashing(settings.consistent_hashing_points)
    return RangeSplit()
