"""Reads entries of a topic by position, over its ledgers (C11)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.plans.read_limits import is_enough
from mledger.bookie.errors import BookieError, BookieUnavailable, NoSuchEntry
from mledger.config import ManagedLedgerConfig
from mledger.ledgers.entries.entry import Entry, PayloadRun, entries_of
from mledger.ledgers.entries.entry_cache import TopicCache, fitting
from mledger.ledgers.entries.open_ledger import OpenLedger
from mledger.ledgers.entries.pending_reads import EntryRange, PendingReads
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.network.time_limit import TimeLimit

MAX_READERS = 128


class EntryReader:
    """Reads from the ledgers of one topic, from `cache` first; keeps the handles of the ledgers read last.

    `ledgers` gives the topic's current list.
    """

    def __init__(
        self,
        factory: LedgerFactory,
        current: Callable[[], OpenLedger | None],
        ledgers: Callable[[], LedgerList],
        config: ManagedLedgerConfig,
        cache: TopicCache | None = None,
    ) -> None:
        self.cache = cache
        self.entries_read = self.entries_missed = 0
        """Entries that were read so far, and how many of them from bookies."""
        self._ledgers = ledgers
        self._pending = PendingReads()
        self._factory = factory
        self._current = current
        self.configure(config)
        self._readers: OrderedDict[int, asyncio.Task[LedgerReader]] = OrderedDict()

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Replace the settings."""
        self._timeout = config.read_entry_timeout_s or None

    async def read(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> list[Entry]:
        """Entries `first` to `last` of one ledger, as `read_runs`."""
        return entries_of(await self.read_runs(ledger_id, first, last, max_bytes))

    def cached(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> list[PayloadRun]:
        """Those of the entries `first` to `last` that the cache holds without a gap from `first` on."""
        if self.cache is None or not (found := self.cache.read(ledger_id, first, last, max_bytes)):
            return []
        count = sum(len(run.payloads) for run in found)
        self._factory.counters.cache_hits += count
        self.entries_read += count
        return found

    async def read_runs(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> list[PayloadRun]:
        """Entries from `first` on up to `last` of one ledger, at least one; the rest by another call.

        Fewer if `max_bytes` are reached, or if the cache has or another read brings only some of them.
        What another reads already is not read again (D6). Raises NoSuchLedger (the ledger is listed but
        does not exist), retriable BookieErrors, and BookieUnavailable after
        managedLedgerReadEntryTimeoutSeconds.
        """
        while True:
            if found := self.cached(ledger_id, first, last, max_bytes):
                return found
            cached_from = None if self.cache is None else self.cache.next_first(ledger_id, first)
            plan = self._pending.plan(ledger_id, EntryRange(first, last), cached_from)
            if plan.awaited is None:
                return [PayloadRun(ledger_id, first, await self._read_shared(ledger_id, first, plan.last, max_bytes))]
            came = await self._pending.awaited(ledger_id, plan.awaited).from_entry(first)
            if came := came[: last - first + 1]:
                if max_bytes is not None:
                    came = came[: max(1, fitting(came, max_bytes))]
                self.entries_read += len(came)
                if self.cache is not None:
                    self._factory.counters.cache_hits += len(came)
                return [PayloadRun(ledger_id, first, came)]

    async def _read_shared(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> Sequence[bytes]:
        """The payloads of entries `first` to `last`, from bookies, for all that want them."""
        with self._pending.begin(ledger_id, EntryRange(first, last)) as read:
            read.payloads = payloads = await self._read(ledger_id, first, last, max_bytes)
            if self.cache is not None:
                self._factory.counters.cache_misses += len(payloads)
                self.cache.keep(self._ledgers(), ledger_id, first, payloads)
        return payloads

    async def _read(self, ledger_id: int, first: int, last: int, max_bytes: int | None) -> list[bytes]:
        """The payloads of entries `first` to `last`, from bookies."""
        try:
            async with TimeLimit(self._timeout):
                reader = await self._reader(ledger_id)
                payloads = await reader.read(first, last, max_bytes)
        except TimeoutError:
            self._factory.counters.reads_failed += 1
            raise BookieUnavailable(
                f"no answer to a read of {ledger_id}:{first} in {self._timeout} s "
                "(managedLedgerReadEntryTimeoutSeconds); check that its bookies are up"
            ) from None
        except BookieError:
            self._factory.counters.reads_failed += 1
            raise
        counters = self._factory.counters
        counters.reads += 1
        counters.entries_read += len(payloads)
        self.entries_read += len(payloads)
        self.entries_missed += len(payloads)
        return payloads

    async def read_on(
        self,
        ledgers: Callable[[], LedgerList],
        first: Position,
        max_entries: int,
        max_bytes: int | None,
        last: Position | None,
    ) -> list[Entry]:
        """Entries from `first` on, across ledgers, as `ManagedLedger.read`; `ledgers` gives the current list."""
        entries: list[Entry] = []
        size = 0
        end = ledgers().last_confirmed if last is None else min(last, ledgers().last_confirmed)
        position = max(first, Position(first.ledger_id, 0))
        while len(entries) < max_entries and position <= end:
            if max_bytes is not None and is_enough(len(entries), size, max_bytes):
                break
            count = ledgers().entries(position.ledger_id)
            if position.entry_id >= count:
                following = ledgers().next_id(position.ledger_id)
                if following is None:
                    break
                position = Position(following, 0)
                continue
            upto = min(count - 1, position.entry_id + max_entries - len(entries) - 1)
            if position.ledger_id == end.ledger_id:
                upto = min(upto, end.entry_id)
            left = None if max_bytes is None else max_bytes - size
            got = await self.read(position.ledger_id, position.entry_id, upto, left)
            entries += got
            size += sum(len(entry.payload) for entry in got)
            position = Position(position.ledger_id, got[-1].position.entry_id + 1)
        return entries

    async def read_afresh(self, ledger_id: int, entry: int) -> bytes:
        """The payload of one entry, read with the ledger's latest metadata: if it is not found, it is lost.

        Here NoSuchLedger and NoSuchEntry are proof of loss. Elsewhere they are not: a cached handle
        may predate the ledger's replication to other bookies, and a metadata server may lag. Raises
        retriable errors as `read` does.
        """
        await self._factory.sync()
        self.forget(ledger_id)
        try:
            return (await self._read(ledger_id, entry, entry, None))[0]
        except NoSuchEntry as error:
            reader = await self._reader(ledger_id)
            if entry > reader.last_entry and reader.metadata.state is not LedgerState.CLOSED:
                raise BookieUnavailable(f"{error}; the ledger is not closed and may have more entries") from error
            raise

    async def _reader(self, ledger_id: int) -> LedgerReader:
        current = self._current()
        if current is not None and current.ledger_id == ledger_id:
            return current.writer.reader()
        opening = self._readers.get(ledger_id)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._factory.open_to_read(ledger_id))
            opening.add_done_callback(partial(self._opened, ledger_id))
            self._readers[ledger_id] = opening
            while len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)
        else:
            self._readers.move_to_end(ledger_id)
        reader = await asyncio.shield(opening)
        if reader.metadata.state is not LedgerState.CLOSED:  # its end will change
            self._readers.pop(ledger_id, None)
        return reader

    def _opened(self, ledger_id: int, opening: "asyncio.Task[LedgerReader]") -> None:
        """Drop a failed handle, so that the next read opens the ledger again."""
        failed = opening.cancelled() or opening.exception() is not None
        if failed and self._readers.get(ledger_id) is opening:
            del self._readers[ledger_id]

    def forget(self, ledger_id: int) -> None:
        """Drop the handle of a deleted ledger."""
        self._readers.pop(ledger_id, None)
