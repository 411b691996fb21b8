"""Entries that are due later, by time; an index that survives a restart (D3, D8).

The index keeps times in ticks: a bitmap of entries for each. What it learnt since the last bucket can be sealed into
one (`delayed_bucket`), which never changes and may be stored; most of that then leaves memory. After a restart, the
buckets restore the index: entries in them that are not acknowledged are waited for; other entries up to the end of the
last bucket that are not acknowledged were delivered before the restart, or were not delayed, and are replayed; reading
goes on behind it. So only what came after the last bucket is read again.
"""

import heapq
from array import array
from collections.abc import Generator, Iterable, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from operator import itemgetter

from pyroaring import BitMap

from mledger.broker.dispatch.waiting.delayed_bucket import (
    BucketLimits,
    DelayedEntry,
    StoredBucket,
    StoredDelays,
    left_of,
)
from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.metastore.records.position import Position

PIECE = 2_000
"""Entries that a plan looks at without a break: some 5 ms."""


_TICK_BYTES, _ENTRY_BYTES = 512, 2
"""What a time with its entries takes in memory, and what each entry of a bitmap does; about, as measured."""


class DelayedIndex:
    """Delayed entries of a subscription. Times are milliseconds since 1970."""

    def __init__(
        self,
        tick_ms: int = 1_000,
        strict: bool = False,
        fixed_delay_lookahead: int = 50_000,
        limits: BucketLimits | None = None,
    ) -> None:
        """`delayedDeliveryTickTimeMillis`, `isDelayedDeliveryDeliverAtTimeStrict`, and how many entries may wait.

        Entries come up to a tick late if `strict`, else up to a tick early. While each is due after those before it,
        as with one delay for all, the next ones are due later still: with `fixed_delay_lookahead` of them waiting,
        reading pauses (`delayedDeliveryFixedDelayDetectionLookahead`; 0 never pauses). With `limits` buckets are
        sealed, and reading never pauses.
        """
        self._tick_ms = max(1, tick_ms)
        self._strict = strict
        self._lookahead = fixed_delay_lookahead if limits is None else 0
        self.limits = limits
        self.stored = StoredDelays(self.due_ms)
        self._waiting: dict[int, PositionSet] = {}
        self._times: list[int] = []  # a heap of the keys of _waiting
        self._count = 0
        self._highest_ms = 0
        self._fixed_delay = True
        self._unsealed = array("q")  # time, ledger and entry of each
        self._sealing: list[DelayedEntry] = []
        self._sealed_to = -1  # the last ledger of a bucket, sealed or being sealed
        self._read_to: Position | None = None
        self._looked_to = -1  # the ledger that was read when a seal was planned last
        self._cleared = 0  # how often everything was forgotten
        self.storage_busy = False
        """Whether buckets are being stored or loaded: until that ends, nothing else of them is waited for."""

    def __len__(self) -> int:
        return self._count + len(self.stored)

    @property
    def size(self) -> int:
        """How many bytes it takes in memory, estimated."""
        known = _TICK_BYTES * len(self._times) + _ENTRY_BYTES * len(self)
        return known + self._unsealed.itemsize * len(self._unsealed)

    @property
    def unsealed(self) -> int:
        """How many delayed entries are in no bucket yet."""
        return len(self._unsealed) // 3

    def add(self, ledger_id: int, entry_id: int, deliver_at_ms: int, now_ms: int) -> bool:
        """Keep an entry until it is due; returns whether it is kept: one that is due already is not."""
        due_ms = self.due_ms(deliver_at_ms)
        if deliver_at_ms < self._highest_ms - self._tick_ms:
            self._fixed_delay = False
        self._highest_ms = max(self._highest_ms, deliver_at_ms)
        if due_ms <= now_ms:
            return False
        if (ledger_id, entry_id) in self.stored or not self._wait(due_ms, ledger_id, entry_id):
            return True
        if self.limits is not None and ledger_id > self._sealed_to:
            self._unsealed.extend((deliver_at_ms, ledger_id, entry_id))
        return True

    def set_tick(self, tick_ms: int) -> None:
        """Have another tick from now on; entries that wait already are due when they were."""
        self._tick_ms = max(1, tick_ms)

    def due_ms(self, deliver_at_ms: int) -> int:
        """When an entry for that time is due: at a tick."""
        early = deliver_at_ms // self._tick_ms * self._tick_ms
        return early + self._tick_ms if self._strict and early < deliver_at_ms else early

    def _wait(self, due_ms: int, ledger_id: int, entry_id: int) -> bool:
        """Wait for an entry; False if it is waited for already."""
        positions = self._waiting.get(due_ms)
        if positions is None:
            positions = self._waiting[due_ms] = PositionSet()
            heapq.heappush(self._times, due_ms)
        elif (ledger_id, entry_id) in positions:
            return False
        positions.add_run(ledger_id, entry_id, entry_id + 1)
        self._count += 1
        return True

    def next_due_ms(self) -> int | None:
        """When the next entries are due, or are to be loaded; None if none waits."""
        load_ms = None if self.storage_busy else self.stored.next_load_ms()
        if load_ms is None or (self._times and self._times[0] <= load_ms):
            return self._times[0] if self._times else None
        return load_ms

    def due(self, now_ms: int) -> PositionSet:
        """Take out what is due."""
        found = PositionSet()
        while self._times and self._times[0] <= now_ms:
            positions = self._waiting.pop(heapq.heappop(self._times))
            self._count -= len(positions)
            found.update(positions)
        found.update(self.stored.take_due(now_ms))
        if not self._count:
            self._highest_ms, self._fixed_delay = 0, True
        return found

    def saw_undelayed(self) -> None:
        """An entry without delay came: not all have the same."""
        self._fixed_delay = not self._count

    def pauses_reads(self, now_ms: int) -> bool:
        """Whether reading on brings only entries that are due later than all that wait."""
        if not 0 < self._lookahead <= self._count or not self._fixed_delay:
            return False
        return self._times[0] > now_ms

    def acknowledged_to(self, position: Position) -> None:
        """Every entry up to `position` is acknowledged: none of them is waited for."""
        for due_ms in list(self._waiting):
            positions = self._waiting[due_ms]
            self._count -= len(positions.take_to(position))
            if not positions:
                del self._waiting[due_ms]
        self._times = sorted(self._waiting)
        self.stored.acknowledged_to(position)

    def clear(self) -> None:
        """Forget everything: the cursor moved, and stored buckets no longer hold."""
        self._waiting.clear()
        self._times.clear()
        self.stored.clear()
        del self._unsealed[:]
        self._sealing = []
        self._sealed_to = self._looked_to = -1
        self._count = self._highest_ms = 0
        self._fixed_delay = True
        self._read_to = None
        self._cleared += 1

    # -- buckets

    def have_read(self, position: Position) -> None:
        """Normal reads have brought everything up to `position`."""
        self._read_to = position

    @property
    def seal_due(self) -> bool:
        """Whether a bucket may have to be sealed now: `plan_seal` finds out."""
        limits, read_to = self.limits, self._read_to
        if limits is None or self._sealing or self.unsealed < max(1, limits.min_indexes):
            return False
        return read_to is not None and read_to.ledger_id > self._looked_to

    def plan_seal(self) -> Generator[None, None, list[DelayedEntry]]:
        """The entries of the next bucket, in the order of their times; none if no bucket is to be sealed yet.

        There may be very many: the generator stops after each piece of the work, and returns them at
        the end. One plan is made at a time. `sealed` or `seal_failed` is to follow if there are entries.
        """
        limits, read_to = self.limits, self._read_to
        if not self.seal_due or limits is None or read_to is None:
            return []
        self._looked_to = read_to.ledger_id
        values, self._unsealed = self._unsealed, array("q")
        # What comes meanwhile from these ledgers is in no bucket: after a restart it is replayed.
        sealed_to, self._sealed_to = self._sealed_to, max(self._sealed_to, read_to.ledger_id - 1)
        cleared, whole, highest = self._cleared, list[list[DelayedEntry]](), -1
        for start in range(0, len(values), 3 * PIECE):
            piece = values[start : start + 3 * PIECE]
            entries = map(DelayedEntry, piece[::3], piece[1::3], piece[2::3])
            waiting = [each for each in entries if self._waits(each)]  # many may be due already
            whole.append(sorted(each for each in waiting if each.ledger_id < read_to.ledger_id))
            highest = max(highest, *(each.ledger_id for each in whole[-1]), -1)
            self._put_back(each for each in waiting if each.ledger_id >= read_to.ledger_id)
            yield
            if cleared != self._cleared:
                return []
        if sum(map(len, whole)) < max(1, limits.min_indexes):
            self._sealed_to = sealed_to
            self._put_back(chain(*whole))
            return []
        found: list[DelayedEntry] = []
        ordered = merge(*whole)
        while piece_of := list(islice(ordered, PIECE)):
            found += piece_of
            yield
            if cleared != self._cleared:
                return []
        self._sealing, self._sealed_to = found, max(sealed_to, highest)
        return found

    def _put_back(self, entries: Iterable[DelayedEntry]) -> None:
        for each in entries:
            self._unsealed.extend(each)

    def _waits(self, entry: DelayedEntry) -> bool:
        positions = self._waiting.get(self.due_ms(entry.deliver_at_ms))
        return positions is not None and (entry.ledger_id, entry.entry_id) in positions

    def sealed(self, bucket: StoredBucket, segments: Sequence[Sequence[DelayedEntry]]) -> None:
        """The bucket that was planned is stored: of its segments only the first stays in memory."""
        self._sealing = []
        self.stored.add(bucket, [PositionSet(), *(self._give_up(segment) for segment in segments[1:])])
        self._times = sorted(self._waiting)

    def _give_up(self, segment: Sequence[DelayedEntry]) -> PositionSet:
        """Wait no longer for these entries, in the order of their times; returns those that were waited for."""
        given = PositionSet()
        for due_ms, entries in groupby(segment, lambda each: self.due_ms(each.deliver_at_ms)):
            positions = self._waiting.get(due_ms)
            if positions is None:
                continue
            for ledger_id, same in groupby(sorted(each[1:] for each in entries), itemgetter(0)):
                given.add(ledger_id, positions.take(ledger_id, BitMap([entry for _, entry in same])))
            if not positions:
                del self._waiting[due_ms]
        self._count -= len(given)
        return given

    def seal_failed(self) -> None:
        """The bucket that was planned is not stored: its entries stay in memory, and may be sealed again."""
        entries, self._sealing = self._sealing, []
        self._sealed_to, self._looked_to = self.stored.end, -1
        self._put_back(entries)

    def load(self, bucket: StoredBucket, segment: int, entries: Iterable[DelayedEntry]) -> None:
        """Wait for the entries of a segment that was loaded."""
        for each in self.stored.loaded(bucket, segment, entries):
            self._wait(self.due_ms(each.deliver_at_ms), each.ledger_id, each.entry_id)

    def drop(self, buckets: Iterable[StoredBucket]) -> None:
        """Forget buckets. What only they knew is due at once: whoever reads it sees when it is due."""
        self.expose(self.stored.drop(buckets))

    def expose(self, positions: PositionSet) -> None:
        """Take these entries, of which no time is known, for due."""
        for position in positions:
            self._wait(0, *position)

    def restore(self, buckets: Iterable[StoredBucket], unacknowledged: PositionSet, now_ms: int) -> PositionSet:
        """Take over stored buckets; returns the entries to replay now.

        `unacknowledged`: all entries that the cursor has not acknowledged, up to the end of the last bucket.
        """
        self.clear()
        indexed = PositionSet()
        for bucket in buckets:
            due = [self.due_ms(segment.last_ms) <= now_ms for segment in bucket.segments]
            left = [
                PositionSet() if is_due else left_of(segment, unacknowledged, indexed)
                for segment, is_due in zip(bucket.segments, due, strict=True)
            ]
            self.stored.add(bucket, left)
        self._sealed_to = self.stored.end
        replay = PositionSet()
        for ledger_id, bits in unacknowledged.ledgers():
            replay.add(ledger_id, bits - (indexed.bits(ledger_id) or BitMap()))
        return replay
