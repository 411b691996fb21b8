"""Cached runs in order: those of one topic by position, those of all topics by age (D6). No I/O."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mledger.metastore.records.position import NO_ENTRY, Position

if TYPE_CHECKING:
    from mledger.ledgers.entries.entry_cache import TopicCache

ENTRY_OVERHEAD = 64  # bytes that an entry takes beside its payload
COMPACT_FROM = 1024
FROM_THE_START = Position(NO_ENTRY, NO_ENTRY)


class CachedRun:
    """Payloads of consecutive entries, cached at `at` on the loop's clock; none once it is evicted.

    Active cursors need it that stand at `needed_from` or above, but not past it. `read`: it comes from bookies.
    """

    __slots__ = ("at", "cost", "first", "last", "ledger_id", "needed_from", "payloads", "read", "size", "topic")

    def __init__(
        self,
        topic: "TopicCache",
        ledger_id: int,
        first: int,
        payloads: tuple[bytes, ...],
        size: int,
        at: float,
        needed_from: Position = FROM_THE_START,
        *,
        read: bool = False,
    ) -> None:
        self.topic = topic
        self.ledger_id = ledger_id
        self.first = first
        self.last = first + len(payloads) - 1
        self.payloads = payloads
        self.size = size
        self.cost = size + ENTRY_OVERHEAD * len(payloads)
        self.at = at
        self.needed_from = needed_from
        self.read = read

    def is_needed_at(self, position: Position) -> bool:
        """Whether an active cursor needs it whose next read begins at `position`."""
        return self.needed_from <= position <= (self.ledger_id, self.last)


class TopicRuns:
    """Runs of one topic by position; no two overlap."""

    __slots__ = ("_head", "_keys", "_runs")

    def __init__(self) -> None:
        self._keys: list[tuple[int, int]] = []
        self._runs: list[CachedRun] = []
        self._head = 0  # runs before this index have left

    @property
    def first(self) -> CachedRun | None:
        """The run of the lowest entries."""
        return self._runs[self._head] if self._head < len(self._runs) else None

    def append(self, run: CachedRun) -> bool:
        """Add a run behind the others; False if it does not lie there."""
        key = (run.ledger_id, run.first)
        if self._keys and self._keys[-1] >= key:
            return False
        self._keys.append(key)
        self._runs.append(run)
        return True

    def insert(self, run: CachedRun) -> bool:
        """Add a run where it belongs; False if it overlaps another."""
        key = (run.ledger_id, run.first)
        at = bisect_left(self._keys, key, self._head)
        if at < len(self._keys) and self._keys[at] <= (run.ledger_id, run.last):
            return False
        if at > self._head and (before := self._runs[at - 1]).ledger_id == run.ledger_id and before.last >= run.first:
            return False
        self._keys.insert(at, key)
        self._runs.insert(at, run)
        return True

    def remove(self, run: CachedRun) -> None:
        """Remove one of the runs."""
        if self._runs[self._head] is not run:
            at = bisect_left(self._keys, (run.ledger_id, run.first), self._head)
            del self._keys[at], self._runs[at]
            return
        self._head += 1
        if self._head == len(self._runs) or (self._head >= COMPACT_FROM and 2 * self._head > len(self._runs)):
            del self._keys[: self._head], self._runs[: self._head]
            self._head = 0

    def following(self, ledger_id: int, first: int) -> Iterator[CachedRun]:
        """The run that has an entry, and those that follow it without a gap."""
        at = bisect_right(self._keys, (ledger_id, first), self._head) - 1
        while self._head <= at < len(self._runs):
            run = self._runs[at]
            if run.ledger_id != ledger_id or not run.first <= first <= run.last:
                return
            yield run
            first = run.last + 1
            at += 1

    def next_first(self, ledger_id: int, after: int) -> int | None:
        """The first entry of the next run of a ledger that begins after an entry; None if there is none."""
        at = bisect_right(self._keys, (ledger_id, after), self._head)
        return self._keys[at][1] if at < len(self._keys) and self._keys[at][0] == ledger_id else None


class AgedRuns:
    """Runs of all topics, the oldest first."""

    __slots__ = ("_emptied", "_runs")

    def __init__(self) -> None:
        self._runs: deque[CachedRun] = deque()
        self._emptied = 0  # runs that have left, but still stand between others

    @property
    def oldest(self) -> CachedRun | None:
        """The oldest run."""
        return self._runs[0] if self._runs else None

    def append(self, run: CachedRun) -> None:
        """Add a run that is younger than the others."""
        self._runs.append(run)

    def count_out(self) -> None:
        """One of the runs has left: it has no payloads any more."""
        self._emptied += 1
        while self._runs and not self._runs[0].payloads:
            self._runs.popleft()
            self._emptied -= 1
        if self._emptied >= COMPACT_FROM and 2 * self._emptied > len(self._runs):
            self._runs = deque(each for each in self._runs if each.payloads)
            self._emptied = 0
