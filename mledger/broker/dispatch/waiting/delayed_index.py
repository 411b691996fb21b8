"""Entries that are due later, by time; an index that survives a restart (D3, D8).

The index keeps times in ticks: a bitmap of entries for each. What it learnt since the last segment can be sealed
into a `DelayedSegment`, which never changes. After a restart, all segments whose last position is not yet
acknowledged restore the index: entries in them that are not acknowledged are waited for, or due at once if their
time has passed; other entries up to the last `read_to` that are not acknowledged were delivered before the restart
and are replayed; reading goes on behind it. So only what came after the last segment is read again.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyroaring import BitMap

from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.metastore.records.position import Position


class DelayedEntries(NamedTuple):
    """Entries of one ledger that are due in one tick; `entries` is a serialized roaring bitmap."""

    due_ms: int
    ledger_id: int
    entries: bytes


class DelayedSegment(NamedTuple):
    """What a part of the backlog says about delays: of all entries up to `read_to` that no segment before has.

    It is needed until everything up to `read_to` is acknowledged.
    """

    read_to: Position
    delayed: Sequence[DelayedEntries]


class RestoredDelays(NamedTuple):
    """What a dispatcher begins with after a restart: entries to replay now, and where reading goes on behind."""

    replay: PositionSet
    read_to: Position | None


class DelayedIndex:
    """Delayed entries of a subscription. Times are milliseconds since 1970."""

    def __init__(self, tick_ms: int = 1_000, strict: bool = False, fixed_delay_lookahead: int = 50_000) -> None:
        """`delayedDeliveryTickTimeMillis`, `isDelayedDeliveryDeliverAtTimeStrict`, and how many entries may wait.

        Entries come up to a tick late if `strict`, else up to a tick early. While each is due after those before it,
        as with one delay for all, the next ones are due later still: with `fixed_delay_lookahead` of them waiting,
        reading pauses (`delayedDeliveryFixedDelayDetectionLookahead`; 0 never pauses).
        """
        self._tick_ms = max(1, tick_ms)
        self._strict = strict
        self._lookahead = fixed_delay_lookahead
        self._waiting: dict[int, PositionSet] = {}
        self._times: list[int] = []  # a heap of the keys of _waiting
        self._count = 0
        self._highest_ms = 0
        self._fixed_delay = True
        self._unsealed: dict[int, PositionSet] = {}
        self._unsealed_count = 0
        self._read_to: Position | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def unsealed(self) -> int:
        """How many delayed entries are in no segment yet."""
        return self._unsealed_count

    def add(self, ledger_id: int, entry_id: int, deliver_at_ms: int, now_ms: int) -> bool:
        """Keep an entry until it is due; returns whether it is kept: one that is due already is not."""
        due_ms = self._due_ms(deliver_at_ms)
        if deliver_at_ms < self._highest_ms - self._tick_ms:
            self._fixed_delay = False
        self._highest_ms = max(self._highest_ms, deliver_at_ms)
        if due_ms <= now_ms:
            return False
        self._at(due_ms).add_run(ledger_id, entry_id, entry_id + 1)
        self._unsealed.setdefault(due_ms, PositionSet()).add_run(ledger_id, entry_id, entry_id + 1)
        self._count += 1
        self._unsealed_count += 1
        return True

    def _due_ms(self, deliver_at_ms: int) -> int:
        early = deliver_at_ms // self._tick_ms * self._tick_ms
        return early + self._tick_ms if self._strict and early < deliver_at_ms else early

    def _at(self, due_ms: int) -> PositionSet:
        positions = self._waiting.get(due_ms)
        if positions is None:
            positions = self._waiting[due_ms] = PositionSet()
            heapq.heappush(self._times, due_ms)
        return positions

    def next_due_ms(self) -> int | None:
        """When the next entries are due; None if none waits."""
        return self._times[0] if self._times else None

    def due(self, now_ms: int) -> PositionSet:
        """Take out what is due."""
        found = PositionSet()
        while self._times and self._times[0] <= now_ms:
            positions = self._waiting.pop(heapq.heappop(self._times))
            self._count -= len(positions)
            found.update(positions)
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
        for positions in self._unsealed.values():
            self._unsealed_count -= len(positions.take_to(position))

    def clear(self) -> None:
        """Forget everything: the cursor moved, and stored segments no longer hold."""
        self._waiting.clear()
        self._unsealed.clear()
        self._times.clear()
        self._count = self._unsealed_count = self._highest_ms = 0
        self._fixed_delay = True
        self._read_to = None

    # -- restarts

    def have_read(self, position: Position) -> None:
        """Normal reads have brought everything up to `position`."""
        self._read_to = position

    def seal(self) -> DelayedSegment | None:
        """What came since the last segment, as one to store; None if no delayed entry came."""
        if not self._unsealed_count or self._read_to is None:
            return None
        delayed = [
            DelayedEntries(due_ms, ledger_id, bits.serialize())
            for due_ms, positions in sorted(self._unsealed.items())
            for ledger_id, bits in positions.ledgers()
        ]
        self._unsealed.clear()
        self._unsealed_count = 0
        return DelayedSegment(self._read_to, tuple(delayed))

    def restore(self, segments: Iterable[DelayedSegment], unacknowledged: PositionSet) -> RestoredDelays:
        """Take over the segments that are still needed, oldest first.

        `unacknowledged`: all entries that the cursor has not acknowledged, at least up to the last `read_to`.
        """
        self.clear()
        indexed = PositionSet()
        for segment in segments:
            self._read_to = segment.read_to
            for delayed in segment.delayed:
                self._restore(delayed, unacknowledged, indexed)
        replay = PositionSet()
        if self._read_to is not None:
            for ledger_id, bits in unacknowledged.ledgers():
                replay.add(ledger_id, bits - (indexed.bits(ledger_id) or BitMap()))
            replay = replay.take_to(self._read_to)
        return RestoredDelays(replay, self._read_to)

    def _restore(self, delayed: DelayedEntries, unacknowledged: PositionSet, indexed: PositionSet) -> None:
        """Wait for a segment's entries of one tick that are not acknowledged."""
        left = BitMap.deserialize(delayed.entries) & (unacknowledged.bits(delayed.ledger_id) or BitMap())
        left -= indexed.bits(delayed.ledger_id) or BitMap()
        if left:
            self._at(delayed.due_ms).add(delayed.ledger_id, left)
            indexed.add(delayed.ledger_id, left)
            self._count += len(left)
