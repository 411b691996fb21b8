"""The cache of entries that cursors read next (D6): one for all topics of a cluster, bounded by bytes.

- Appends fill it with runs: a ledger, a first entry, and the payloads as they were appended. It keeps
  nothing per entry, and readers share the payloads.
- Only topics with active cursors are cached. A run leaves once every active cursor has read past it,
  at the latest after the eviction time; above the size the oldest runs of all topics leave.
- A run that was read from bookies is kept while another active cursor stands at most `NEAR` entries behind
  it, if there is room. It makes room for what is appended, and may stay some times longer.
- A run may hold entries that are not acknowledged yet. Readers ask only for entries of the topic's
  list, which ends at the last acknowledged one.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Protocol

from mledger.config import EntryCacheConfig
from mledger.ledgers.entries.cached_runs import AgedRuns, CachedRun, TopicRuns
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import NO_ENTRY, Position

NEAR = 100_000
"""Entries; a cursor that is farther behind than this comes too late for what is read now."""
READ_AGES = 6
"""What was read from bookies stays so many times the eviction time: Pulsar extends that five times, too."""
SHORT = 16  # entries; shorter runs that follow each other are read as one
LEAST_TIMER_S = 0.05


class ActiveReader(Protocol):
    """A reader with consumers."""

    @property
    def position(self) -> Position:
        """Where its next read begins."""


def plan_needed_from(ledgers: LedgerList, first: Position) -> Position:
    """Where a cursor must stand at least to come soon to what is read from `first` on: `NEAR` entries before it."""
    index = ledgers.count_through(Position(first.ledger_id, first.entry_id - 1)) - NEAR
    return ledgers.entry_at(index) if index > 0 else Position(NO_ENTRY, NO_ENTRY)


def is_shared(run: CachedRun, positions: Iterable[Position]) -> bool:
    """Whether more than the one cursor that read a run needs it, of those that stand at `positions`."""
    needing = (position for position in positions if run.is_needed_at(position))
    return len(list(islice(needing, 2))) == 2


class EntryCache:
    """The cached runs of all topics by age, and how many bytes they take."""

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
        self._appended = AgedRuns()
        self._read = AgedRuns()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def topic(self) -> "TopicCache":
        """The cache of one more topic."""
        return TopicCache(self)

    def has_room(self, run: CachedRun) -> bool:
        """Whether a run fits without evicting another."""
        return self.size + run.cost <= self.config.size

    def now(self) -> float:
        """The loop's clock."""
        return self._loop.time()

    def added(self, run: CachedRun) -> None:
        """Count a new run, and evict the oldest ones if they are too many."""
        (self._read if run.read else self._appended).append(run)
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
        (self._read if run.read else self._appended).count_out()

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _evict_to(self, size: int) -> None:
        for runs in (self._read, self._appended):
            while self.size > size and (oldest := runs.oldest) is not None:
                oldest.topic.drop(oldest)

    def _expire(self) -> None:
        """Evict what has passed the eviction time."""
        self._timer = None
        now, max_age_s = self._loop.time(), self.config.max_age_ms / 1000
        waits_s = []
        for runs, age_s in ((self._appended, max_age_s), (self._read, READ_AGES * max_age_s)):
            while (oldest := runs.oldest) is not None and oldest.at <= now - age_s:
                oldest.topic.drop(oldest)
            if oldest is not None:
                waits_s.append(oldest.at + age_s - now)
        if waits_s:
            self._timer = self._loop.call_later(max(LEAST_TIMER_S, min(waits_s)), self._expire)


class TopicCache:
    """The cached runs of one topic, by position: those that were appended, and those that were read."""

    def __init__(self, cache: EntryCache) -> None:
        self._cache = cache
        self._readers: OrderedDict[ActiveReader, None] = OrderedDict()
        """One that needs the first run stands first, as far as is known: while it does, nobody else need be asked."""
        self._near: OrderedDict[ActiveReader, None] = OrderedDict()
        """The same readers, in the same way, for the first run that was read."""
        self._appended = TopicRuns()
        self._read = TopicRuns()

    # -- filling

    def add(self, ledger_id: int, first: int, payloads: Sequence[bytes], size: int, at: float) -> None:
        """Add the entries from `first` on of a ledger, `size` payload bytes, unless no cursor is active."""
        if not self._readers:
            return
        run = CachedRun(self, ledger_id, first, tuple(payloads), size, at)
        if self._appended.append(run):
            self._cache.added(run)

    def keep(self, ledgers: LedgerList, ledger_id: int, first: int, payloads: Sequence[bytes]) -> None:
        """Add entries that an active cursor has read from bookies, if another comes to them soon, and if they fit."""
        if len(self._readers) < 2 or not self._cache.config.keeps_reads:
            return
        needed_from = plan_needed_from(ledgers, Position(ledger_id, first))
        size, now = sum(map(len, payloads)), self._cache.now()
        run = CachedRun(self, ledger_id, first, tuple(payloads), size, now, needed_from, read=True)
        positions = (reader.position for reader in self._near)
        if self._cache.has_room(run) and is_shared(run, positions) and self._read.insert(run):
            self._cache.added(run)

    # -- active readers

    def follow(self, reader: ActiveReader) -> None:
        """Keep new entries until `reader` has read past them."""
        self._readers[reader] = self._near[reader] = None

    def unfollow(self, reader: ActiveReader) -> None:
        """Keep no entries for `reader` any more."""
        if reader in self._readers:
            del self._readers[reader], self._near[reader]
            self.evict_read()

    def evict_read(self) -> None:
        """Evict the runs that every active reader has read past."""
        if (run := self._read.first) is not None:
            self._evict(self._read, run, self._near)
        if (run := self._appended.first) is not None:
            self._evict(self._appended, run, self._readers)

    def _evict(self, runs: TopicRuns, first: CachedRun | None, readers: "OrderedDict[ActiveReader, None]") -> None:
        while first is not None and not _is_needed(first, readers):
            self.drop(first)
            first = runs.first

    def drop(self, run: CachedRun) -> None:
        """Evict a run."""
        (self._read if run.read else self._appended).remove(run)
        self._cache.removed(run)

    def clear(self) -> None:
        """Evict everything and follow nobody: the topic is closed."""
        self._readers.clear()
        self._near.clear()
        self.evict_read()

    # -- reading

    def next_first(self, ledger_id: int, after: int) -> int | None:
        """The next cached entry of a ledger after one that is not cached; None if there is none."""
        nexts = (runs.next_first(ledger_id, after) for runs in (self._appended, self._read))
        return min((each for each in nexts if each is not None), default=None)

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

    def _following(self, ledger_id: int, first: int) -> Iterator[CachedRun]:
        """The run that has an entry, and those that follow it without a gap."""
        passed = True
        while passed:
            passed = False
            for runs in (self._appended, self._read):
                for run in runs.following(ledger_id, first):
                    yield run
                    first, passed = run.last + 1, True

    def _parts(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> Iterator[tuple[bytes, ...]]:
        """The wanted payloads of one run after the other."""
        began = first
        for run in self._following(ledger_id, first):
            payloads, size = run.payloads, run.size
            if first > run.first or last < run.last:
                payloads = payloads[first - run.first : last - run.first + 1]
                size = -1
            if max_bytes is not None:
                size = sum(map(len, payloads)) if size < 0 else size
                if size > max_bytes:
                    payloads = payloads[: max(fitting(payloads, max_bytes), 1 if first == began else 0)]
                    last = first + len(payloads) - 1
                max_bytes -= size
            if payloads:
                yield payloads
            first += len(payloads)
            if first > last:
                return


def _is_needed(run: CachedRun, readers: "OrderedDict[ActiveReader, None]") -> bool:
    """Whether one of the active readers needs a run; those that do not go behind the others."""
    for _ in range(len(readers)):
        reader = next(iter(readers))
        if run.is_needed_at(reader.position):
            return True
        readers.move_to_end(reader)
    return False


def fitting(payloads: Sequence[bytes], max_bytes: int) -> int:
    """How many of the first payloads take at most `max_bytes` together."""
    return bisect_right(list(accumulate(map(len, payloads))), max_bytes)
