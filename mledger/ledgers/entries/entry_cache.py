"""The cache of the entries written last (D6): one for all topics of a cluster, bounded by bytes.

- Appends fill it with runs: a ledger, a first entry, and the payloads as they were appended. It keeps
  nothing per entry, and readers share the payloads.
- Only topics with active cursors are cached. A run leaves once every active cursor has read past it,
  at the latest after the eviction time; above the size the oldest runs of all topics leave.
- A miss reads from bookies and does not fill it.
- A run may hold entries that are not acknowledged yet. Readers ask only for entries of the topic's
  list, which ends at the last acknowledged one.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from mledger.config import EntryCacheConfig
from mledger.ledgers.entries.entry import PayloadRun
from mledger.metastore.records.position import Position

ENTRY_OVERHEAD = 64  # bytes that an entry takes beside its payload
COMPACT_FROM = 1024
SHORT = 16  # entries; shorter runs that follow each other are read as one
LEAST_TIMER_S = 0.05


class ActiveReader(Protocol):
    """A reader that follows the end of a topic."""

    @property
    def position(self) -> Position:
        """Where its next read begins."""


class CachedRun:
    """Payloads of consecutive entries, appended at `at` on the loop's clock; none once it is evicted."""

    __slots__ = ("at", "cost", "first", "last", "ledger_id", "payloads", "size", "topic")

    def __init__(
        self, topic: "TopicCache", ledger_id: int, first: int, payloads: tuple[bytes, ...], size: int, at: float
    ) -> None:
        self.topic = topic
        self.ledger_id = ledger_id
        self.first = first
        self.last = first + len(payloads) - 1
        self.payloads = payloads
        self.size = size
        self.cost = size + ENTRY_OVERHEAD * len(payloads)
        self.at = at


class EntryCache:
    """The cached runs of all topics in the order of their appends, and how many bytes they take."""

    def __init__(self, config: EntryCacheConfig) -> None:
        self.config = config
        self.size = 0
        """Bytes held: payloads, and some for each entry."""
        self.entries = 0
        """Entries held."""
        self.inserted_entries = 0
        """Entries ever added."""
        self.evicted_entries = 0
        """Entries ever removed."""
        self.evictions = 0
        """How often the cache was full and had to evict."""
        self._runs: deque[CachedRun] = deque()
        self._emptied = 0  # runs that have left, but still stand between others
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def topic(self) -> "TopicCache":
        """The cache of one more topic."""
        return TopicCache(self)

    def added(self, run: CachedRun) -> None:
        """Count a new run, and evict the oldest ones if they are too many."""
        self._runs.append(run)
        self.size += run.cost
        self.entries += len(run.payloads)
        self.inserted_entries += len(run.payloads)
        if self.size > self.config.size:
            self.evictions += 1
            self._evict_to(int(self.config.size * self.config.eviction_watermark))
        if self._timer is None:
            self._timer = self._loop.call_later(self.config.max_age_ms / 1000, self._expire)

    def removed(self, run: CachedRun) -> None:
        """Count a run that its topic has dropped."""
        self.size -= run.cost
        self.entries -= len(run.payloads)
        self.evicted_entries += len(run.payloads)
        run.payloads = ()
        self._emptied += 1
        while self._runs and not self._runs[0].payloads:
            self._runs.popleft()
            self._emptied -= 1
        if self._emptied >= COMPACT_FROM and 2 * self._emptied > len(self._runs):
            self._runs = deque(each for each in self._runs if each.payloads)
            self._emptied = 0

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _evict_to(self, size: int) -> None:
        while self._runs and self.size > size:
            self._runs[0].topic.drop_first()

    def _expire(self) -> None:
        """Evict what has passed the eviction time."""
        self._timer = None
        max_age_s = self.config.max_age_ms / 1000
        now = self._loop.time()
        while self._runs and self._runs[0].at <= now - max_age_s:
            self._runs[0].topic.drop_first()
        if self._runs:
            wait_s = max(LEAST_TIMER_S, self._runs[0].at + max_age_s - now)
            self._timer = self._loop.call_later(wait_s, self._expire)


class TopicCache:
    """The cached runs of one topic, in order."""

    def __init__(self, cache: EntryCache) -> None:
        self._cache = cache
        self._readers: OrderedDict[ActiveReader, None] = OrderedDict()
        """One that needs the first run stands first, as far as is known: while it does, nobody else need be asked."""
        self._keys: list[tuple[int, int]] = []
        self._runs: list[CachedRun] = []
        self._head = 0  # runs before this index have left

    # -- filling

    def add(self, ledger_id: int, first: int, payloads: Sequence[bytes], size: int, at: float) -> None:
        """Add the entries from `first` on of a ledger, `size` payload bytes, unless no cursor is active."""
        if not self._readers or (self._keys and self._keys[-1] >= (ledger_id, first)):
            return
        run = CachedRun(self, ledger_id, first, tuple(payloads), size, at)
        self._keys.append((ledger_id, first))
        self._runs.append(run)
        self._cache.added(run)

    # -- active readers

    def follow(self, reader: ActiveReader) -> None:
        """Keep new entries until `reader` has read past them."""
        self._readers[reader] = None

    def unfollow(self, reader: ActiveReader) -> None:
        """Keep no entries for `reader` any more."""
        if reader in self._readers:
            del self._readers[reader]
            self.evict_read()

    def evict_read(self) -> None:
        """Evict the runs that every active reader has read past."""
        if self._head == len(self._runs) or self._is_needed(self._runs[self._head]):
            return
        slowest = min((reader.position for reader in self._readers), default=None)
        while self._head < len(self._runs):
            run = self._runs[self._head]
            if slowest is not None and (run.ledger_id, run.last) >= slowest:
                return
            self.drop_first()

    def _is_needed(self, run: CachedRun) -> bool:
        """Whether an active reader has not read past a run; those that have go behind the others."""
        readers, last = self._readers, (run.ledger_id, run.last)
        for _ in range(len(readers)):
            reader = next(iter(readers))
            if last >= reader.position:
                return True
            readers.move_to_end(reader)
        return False

    def drop_first(self) -> None:
        """Evict the oldest run."""
        run = self._runs[self._head]
        self._head += 1
        if self._head == len(self._runs) or (self._head >= COMPACT_FROM and 2 * self._head > len(self._runs)):
            del self._keys[: self._head], self._runs[: self._head]
            self._head = 0
        self._cache.removed(run)

    def clear(self) -> None:
        """Evict everything and follow nobody: the topic is closed."""
        self._readers.clear()
        self.evict_read()

    # -- reading

    def read(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> list[PayloadRun]:
        """The cached entries from `first` on, up to `last` or the first one that is not cached, as runs.

        Short runs are joined, since a reader's work is by the run.
        They end before the entry that would pass `max_bytes`, but have one entry at least.
        """
        found: list[PayloadRun] = []
        joined: list[bytes] | None = None  # the payloads of the last run found, if that joins short ones
        for payloads in self._parts(ledger_id, first, last, max_bytes):
            if len(payloads) >= SHORT:
                found.append(PayloadRun(ledger_id, first, payloads))
                joined = None
            elif joined is not None:
                joined += payloads
            else:
                joined = list(payloads)
                found.append(PayloadRun(ledger_id, first, joined))
            first += len(payloads)
        return found

    def _parts(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> Iterator[tuple[bytes, ...]]:
        """The wanted payloads of one run after the other."""
        at, began = bisect_right(self._keys, (ledger_id, first), self._head) - 1, first
        while self._head <= at < len(self._runs):
            run = self._runs[at]
            if run.ledger_id != ledger_id or not run.first <= first <= run.last:
                return
            payloads, size = run.payloads, run.size
            if first > run.first or last < run.last:
                payloads = payloads[first - run.first : last - run.first + 1]
                size = -1
            if max_bytes is not None:
                size = sum(map(len, payloads)) if size < 0 else size
                if size > max_bytes:
                    payloads = payloads[: max(_fitting(payloads, max_bytes), 1 if first == began else 0)]
                    last = first + len(payloads) - 1
                max_bytes -= size
            if payloads:
                yield payloads
            first += len(payloads)
            if first > last:
                return
            at += 1


def _fitting(payloads: Sequence[bytes], max_bytes: int) -> int:
    """How many of the first payloads take at most `max_bytes` together."""
    return bisect_right(list(accumulate(map(len, payloads))), max_bytes)
