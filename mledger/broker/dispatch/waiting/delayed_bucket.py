"""Buckets: parts of an index of delayed entries as Pulsar stores them, and what is kept in memory of them (D3, D8).

- A bucket has the delayed entries of a range of ledgers, in the order of their times, in segments. Its ranges do not
  overlap those of others: it is sealed once everything of its ledgers was read.
- A segment spans a limited time and has a limited number of entries. Only the next segment of each bucket is in memory,
  from a while before its first entry is due. Of the others there is a bitmap: which entries need not be read.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec import Struct
from pyroaring import BitMap

from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.metastore.records.position import Position

LOAD_AHEAD_MS = 10_000
_MOST_MERGED = 4


class DelayedEntry(NamedTuple):
    """An entry, and when it may be delivered, in ms since 1970."""

    deliver_at_ms: int
    ledger_id: int
    entry_id: int


class BucketLimits(Struct, frozen=True):
    """When a bucket is sealed, how large its segments are, and how many buckets there may be; -1 is no limit.

    `delayedDeliveryMinIndexCountPerBucket`, `delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds`,
    `delayedDeliveryMaxIndexesPerBucketSnapshotSegment`, `delayedDeliveryMaxNumBuckets`.
    """

    min_indexes: int = 50_000
    max_segment_ms: int = 300_000
    max_segment_indexes: int = 5_000
    max_buckets: int = -1


class SegmentSummary(NamedTuple):
    """What a bucket says of a segment: its times, and a serialized roaring bitmap of its entries for each ledger."""

    first_ms: int
    last_ms: int
    entries: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, segment: Sequence[DelayedEntry]) -> "SegmentSummary":
        """The summary of entries in the order of their times."""
        bits = PositionSet((each.ledger_id, each.entry_id) for each in segment)
        entries = tuple((ledger_id, each.serialize()) for ledger_id, each in bits.ledgers())
        return cls(segment[0].deliver_at_ms, segment[-1].deliver_at_ms, entries)


class StoredBucket(Struct, frozen=True):
    """A bucket of ledgers `start` to `end`, as it is stored; it never changes."""

    start: int
    end: int
    segments: tuple[SegmentSummary, ...]
    name: str = ""
    stored_in: int = -1


def plan_segments(entries: Iterable[DelayedEntry], limits: BucketLimits) -> list[list[DelayedEntry]]:
    """Entries in the order of their times, divided as Pulsar divides them."""
    segments: list[list[DelayedEntry]] = []
    until = 0
    for entry in entries:
        full = segments and 0 < limits.max_segment_indexes <= len(segments[-1])
        if not segments or full or entry.deliver_at_ms > until:
            segments.append([])
            until = entry.deliver_at_ms + limits.max_segment_ms - 1
        segments[-1].append(entry)
    return segments


def plan_kept(buckets: Iterable[StoredBucket]) -> tuple[list[StoredBucket], list[StoredBucket]]:
    """Which buckets count, by their ranges, and which do not: those in the range of another, which has merged them."""
    kept: list[StoredBucket] = []
    merged: list[StoredBucket] = []
    for bucket in sorted(buckets, key=lambda each: each.start - each.end):  # the widest first
        inside = any(each.start <= bucket.start and bucket.end <= each.end for each in kept)
        (merged if inside else kept).append(bucket)
    return sorted(kept, key=lambda each: each.start), merged


class _Bucket(Struct):
    """What is not in memory of a bucket: from segment `next` on, the entries that are left of each segment."""

    stored: StoredBucket
    left: list[PositionSet]
    next: int = 0
    not_before_ms: int = 0
    passed: bool = False

    @property
    def all_loaded(self) -> bool:
        return self.next >= len(self.left)

    def skip_empty(self) -> None:
        while not self.all_loaded and not self.left[self.next]:
            self.next += 1

    def __len__(self) -> int:
        return sum(map(len, self.left[self.next :]))


class StoredDelays:
    """The delayed entries that are in buckets and not in memory. `due_ms` says when an entry for a time is due."""

    def __init__(self, due_ms: Callable[[int], int]) -> None:
        self._due_ms = due_ms
        self._buckets: list[_Bucket] = []
        self.end = -1
        """The last ledger of which a bucket has been sealed."""
        self._count = 0
        self._load_at: int | None = None  # of all buckets, kept: it is asked for on the hot path
        self._end_at: int | None = None

    def __len__(self) -> int:
        return self._count

    def __contains__(self, position: tuple[int, int]) -> bool:
        return position[0] <= self.end and any(
            position in left
            for bucket in self._buckets
            if bucket.stored.start <= position[0] <= bucket.stored.end
            for left in bucket.left[bucket.next :]
        )

    @property
    def bucket_count(self) -> int:
        """How many buckets there are."""
        return len(self._buckets)

    def add(self, stored: StoredBucket, left: Sequence[PositionSet]) -> None:
        """Add a bucket of which these entries are waited for, a set for each segment."""
        bucket = _Bucket(stored, list(left))
        bucket.skip_empty()
        self._buckets.append(bucket)
        self._buckets.sort(key=lambda each: each.stored.start)
        self._count += len(bucket)
        self.end = max(self.end, stored.end)
        self._plan()

    def clear(self) -> None:
        """Forget all buckets."""
        self._buckets.clear()
        self._count, self.end = 0, -1
        self._plan()

    def _plan(self) -> None:
        """Find out when the next segment is to be loaded, and when the next bucket may end."""
        loads, ends = [], []
        for each in self._buckets:
            if each.all_loaded:
                ends.append(self._end_ms(each))
            else:
                loads.append(self._load_ms(each))
        self._load_at, self._end_at = min(loads, default=None), min(ends, default=None)

    # -- entries that become due

    def take_due(self, now_ms: int) -> PositionSet:
        """The entries of segments that are due as a whole: they need not be loaded."""
        found = PositionSet()
        if self._load_at is None or self._load_at > now_ms:
            return found
        for bucket in self._buckets:
            while not bucket.all_loaded and self._due_ms(bucket.stored.segments[bucket.next].last_ms) <= now_ms:
                found.update(self._take_next(bucket))
        return found

    def _take_next(self, bucket: _Bucket) -> PositionSet:
        taken = bucket.left[bucket.next]
        bucket.left[bucket.next] = PositionSet()
        bucket.skip_empty()
        self._count -= len(taken)
        self._plan()
        return taken

    def next_load_ms(self) -> int | None:
        """When the next segment is to be loaded; None if none is left."""
        return self._load_at

    def _load_ms(self, bucket: _Bucket) -> int:
        first_ms = self._due_ms(bucket.stored.segments[bucket.next].first_ms)
        return max(first_ms - LOAD_AHEAD_MS, bucket.not_before_ms)

    def plan_load(self, now_ms: int) -> tuple[StoredBucket, int] | None:
        """The segment to load now, by its index; None if none is needed yet."""
        waiting = [each for each in self._buckets if not each.all_loaded and self._load_ms(each) <= now_ms]
        if not waiting:
            return None
        first = min(waiting, key=lambda each: each.stored.segments[each.next].first_ms)
        return first.stored, first.next

    def loaded(self, stored: StoredBucket, index: int, entries: Iterable[DelayedEntry]) -> list[DelayedEntry]:
        """Take the entries of a loaded segment out that are still waited for.

        Entries that the summary has and the segment has not are due at once: whoever reads them sees when they are due.
        """
        bucket = self._find(stored)
        if bucket is None or bucket.next != index:
            return []
        left = self._take_next(bucket)
        found = [each for each in entries if (each.ledger_id, each.entry_id) in left]
        for ledger_id, bits in PositionSet((each.ledger_id, each.entry_id) for each in found).ledgers():
            left.take(ledger_id, bits)
        return [*(DelayedEntry(0, *position) for position in left), *found]

    def load_failed(self, stored: StoredBucket, retry_ms: int) -> None:
        """Load nothing of a bucket before `retry_ms`."""
        bucket = self._find(stored)
        if bucket is not None:
            bucket.not_before_ms = retry_ms
            self._plan()

    # -- the end of buckets

    def acknowledged_to(self, position: Position) -> None:
        """Every entry up to `position` is acknowledged."""
        for bucket in self._buckets:
            if bucket.stored.start > position.ledger_id:
                break
            for left in bucket.left[bucket.next :]:
                self._count -= len(left.take_to(position))
            bucket.skip_empty()
            if bucket.stored.end < position.ledger_id:
                bucket.passed = True
        self._plan()

    def consumed(self, now_ms: int) -> list[StoredBucket]:
        """The buckets that nobody needs: all is due, or acknowledged."""
        if self._end_at is None or self._end_at > now_ms:
            return []
        return [each.stored for each in self._buckets if each.all_loaded and self._end_ms(each) <= now_ms]

    def _end_ms(self, bucket: _Bucket) -> int:
        return 0 if bucket.passed else self._due_ms(bucket.stored.segments[-1].last_ms)

    def drop(self, buckets: Iterable[StoredBucket]) -> PositionSet:
        """Forget buckets; returns the entries of theirs that are not in memory."""
        lost = PositionSet()
        for stored in buckets:
            bucket = self._find(stored)
            if bucket is not None:
                self._buckets.remove(bucket)
                self._count -= len(bucket)
                for left in bucket.left[bucket.next :]:
                    lost.update(left)
        self._plan()
        return lost

    def plan_merge(self, most: int) -> list[tuple[StoredBucket, int]]:
        """Up to four neighbours with the fewest entries, if there are more than `most` buckets, as Pulsar chooses.

        Each with the first of its segments that is not in memory.
        """
        if not 0 < most < len(self._buckets):
            return []
        for count in range(min(_MOST_MERGED, len(self._buckets)), 1, -1):
            groups = [self._buckets[at : at + count] for at in range(len(self._buckets) - count + 1)]
            groups = [group for group in groups if not any(each.all_loaded for each in group)]
            if groups:
                group = min(groups, key=lambda group: sum(map(len, group)))
                return [(each.stored, each.next) for each in group]
        return []

    def merged(self, old: Iterable[StoredBucket], new: StoredBucket) -> PositionSet:
        """One bucket has taken the place of several; returns entries that it lacks."""
        left = self.drop(old)
        self.add(new, [_take(left, segment) for segment in new.segments])
        return left

    def _find(self, stored: StoredBucket) -> _Bucket | None:
        return next((each for each in self._buckets if each.stored is stored), None)


def left_of(segment: SegmentSummary, unacknowledged: PositionSet, known: PositionSet) -> PositionSet:
    """The entries of a segment that are not acknowledged and not `known`, which they are from now on."""
    left = PositionSet()
    for ledger_id, data in segment.entries:
        bits = BitMap.deserialize(data) & (unacknowledged.bits(ledger_id) or BitMap())
        bits -= known.bits(ledger_id) or BitMap()
        left.add(ledger_id, bits)
        known.add(ledger_id, bits)
    return left


def in_order(entries: Iterable[Iterable[DelayedEntry]]) -> list[DelayedEntry]:
    """Entries of several segments in the order of their times."""
    return sorted(chain.from_iterable(entries))


def _take(positions: PositionSet, segment: SegmentSummary) -> PositionSet:
    taken = PositionSet()
    for ledger_id, data in segment.entries:
        taken.add(ledger_id, positions.take(ledger_id, BitMap.deserialize(data)))
    return taken
