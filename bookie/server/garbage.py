"""Ledgers whose metadata was deleted are deleted here too, and their space comes back.

- Local ids are listed before the metadata is: a ledger made meanwhile is in no danger.
- Each id that the listing does not have is looked up again, alone, before anything of it is deleted.
- A listing that fails or ends early deletes nothing; nor does a cluster with another instance id.
- A journal file of which little is needed any more has that little written anew; one of which nothing is needed is
  used again, or removed.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bookie.server.bookie import Bookie
from bookie.server.index import Index, Row
from bookie.server.journal import file_numbers, file_path, read_records
from bookie.server.replay import ledger_spans
from metastore.layout import instance_id
from metastore.ledgers import LedgerStoreReader
from metastore.paths import LEDGERS, ledger_path
from metastore.store import MetadataReader

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Files of which less than `share` is still needed are emptied, each `every_s` seconds; 0: each time.

    With `settled` only those of which nothing was deleted since the last time: of others more may soon go by itself.
    """

    share: float = 0.5
    every_s: float = 0.0
    settled: bool = False


EVERY_TIME = (Compaction(), Compaction(0.85, settled=True))
_MOST_FILES = 8  # emptied before those that became free are given back
_MOVE_BYTES = 1 << 20


def plan_candidates(local: Sequence[int], listed: Collection[int]) -> list[int]:
    """The local ledgers that a complete listing of the metadata does not have, to be looked up one by one."""
    return [ledger for ledger in local if ledger not in listed]


def plan_due(compactions: Sequence[Compaction], done_at: Sequence[float], now: float) -> list[Compaction]:
    """Which compactions are due. `done_at` is when each was done last, on the clock of `now`, in seconds."""
    return [kind for kind, at in zip(compactions, done_at, strict=True) if now - at >= kind.every_s]


def plan_emptying(
    sizes: Mapping[int, int],
    live: Mapping[int, int],
    current: int,
    due: Sequence[Compaction],
    settled: Collection[int] = (),
) -> list[int]:
    """Which journal files to empty: of those written before `current`, the ones least needed, a few at a time.

    Args:
        sizes: bytes of each file, by number.
        live: bytes of each that the index names.
        current: the file that is written now.
        due: which files count as little needed.
        settled: files of which nothing was deleted since the last time.
    """
    shares = {True: max((kind.share for kind in due), default=0.0)}
    shares[False] = max((kind.share for kind in due if not kind.settled), default=0.0)
    before = [file for file in sizes if file < current and live.get(file, 0) > 0]
    sparse = [file for file in before if live[file] < sizes[file] * shares[file in settled]]
    return sorted(sparse, key=lambda file: live[file])[:_MOST_FILES]


def plan_freeing(files: Sequence[int], live: Mapping[int, int], current: int) -> list[int]:
    """Which journal files are needed no more."""
    return [file for file in files if file < current and live.get(file, 0) <= 0]


class GarbageCollector:
    """Compares what a bookie holds with the metadata store, now and then."""

    def __init__(
        self, bookie: Bookie, instance: str, root: str = LEDGERS, compactions: Sequence[Compaction] = EVERY_TIME
    ) -> None:
        """`instance` is the instance id of the cluster that the bookie's ledgers belong to."""
        self._bookie, self._instance, self._root = bookie, instance, root
        self._compactions = compactions
        self._done_at = [asyncio.get_running_loop().time()] * len(compactions)
        self._kept: set[int] = set()
        self._live_before: dict[int, int] = {}
        self._counts = bookie.counters.garbage

    async def collect(self, reader: MetadataReader) -> list[int]:
        """Delete what the metadata store no longer has; the ids. Its errors come out, and then nothing was deleted."""
        local = await asyncio.get_running_loop().run_in_executor(None, self._bookie.index.ledger_ids)
        self._counts.ledgers = len(local)
        if not local:
            return []
        found = await instance_id(reader, self._root)
        if found != self._instance:
            log.error("event=garbage_refused cluster=%s bookie_belongs_to=%s", found, self._instance)
            return []
        candidates = plan_candidates(local, await _listed(LedgerStoreReader(reader, self._root).list()))
        missing = [ledger for ledger in candidates if await reader.exists(ledger_path(ledger, self._root)) is None]
        deleted = []
        for ledger in missing:
            if self._bookie.turns.delete(ledger):
                log.info("event=ledger_deleted ledger=%d", ledger)
                deleted.append(ledger)
                self._counts.ledgers_deleted += 1
            await asyncio.sleep(0)
        self._counts.ledgers -= len(deleted)
        return deleted

    async def reclaim(self) -> int:
        """Give space back; how many journal files are needed no more."""
        index, now = self._bookie.index, asyncio.get_running_loop().time()
        due = plan_due(self._compactions, self._done_at, now)
        settled = {file for file, live in index.live.items() if self._live_before.get(file) == live}
        freed, tried = await self._free(), set(self._kept)
        while files := plan_emptying(self._sizes(tried), index.live, self._bookie.turns.file, due, settled):
            for number in files:
                await self._empty(number)
            tried.update(files)
            freed += await self._free()
        self._live_before = dict(index.live)
        for kind, each in enumerate(self._compactions):
            if each in due:
                self._done_at[kind] = now
        return freed

    def _sizes(self, without: Collection[int] = ()) -> dict[int, int]:
        """Bytes of each journal file but those."""
        path = self._bookie.journal_path
        return {each: os.stat(file_path(path, each)).st_size for each in file_numbers(path) if each not in without}

    async def _free(self) -> int:
        """Give back the files that are needed no more; how many."""
        bookie, loop, sizes = self._bookie, asyncio.get_running_loop(), self._sizes()
        candidates = plan_freeing(list(sizes), bookie.index.live, bookie.turns.file)
        free = [number for number in candidates if not await self._rows(number)]
        if free:
            await loop.run_in_executor(None, bookie.index.flush)
            bookie.turns.recycle(free)
            size = sum(sizes[number] for number in free)
            self._counts.bytes_reclaimed += size
            log.info("event=space_reclaimed files=%d bytes=%d", len(free), size)
            await loop.run_in_executor(None, bookie.index.compact)
        return len(free)

    async def _empty(self, number: int) -> None:
        """Write anew what is needed of a file."""
        bookie = self._bookie
        rows, moved = await self._rows(number), 0
        for group in _groups(rows):
            current = [(repeated, row) for repeated, row in group if bookie.turns.current(row, repeated=repeated)]
            if current:
                await bookie.turns.move([(repeated, row, bookie.files.frames(row)) for repeated, row in current])
                moved += len(current)
        self._counts.files_emptied += 1
        log.info("event=journal_file_emptied file=%d runs=%d of=%d", number, moved, len(rows))
        if not rows:
            left = bookie.index.live[number]
            log.error("event=journal_file_damaged file=%d bytes=%d: kept, its records cannot be found", number, left)
            self._kept.add(number)

    async def _rows(self, number: int) -> list[tuple[bool, Row]]:
        """What the index names in a file, as far as the file's records can be found."""
        bookie, loop = self._bookie, asyncio.get_running_loop()
        return await loop.run_in_executor(None, find_rows, bookie.index, bookie.journal_path, number, bookie.salt)


def find_rows(index: Index, directory: str, number: int, salt: bytes) -> list[tuple[bool, Row]]:
    """The rows of the index that name journal file `number`, and whether each is a repeated add."""
    spans: dict[int, tuple[int, int]] = {}
    for record in read_records(directory, number, salt):
        for ledger, first, last in ledger_spans(record):
            lowest, highest = spans.get(ledger, (first, last))
            spans[ledger] = (min(lowest, first), max(highest, last))
    return [
        (repeated, row)
        for ledger, (first, last) in spans.items()
        for repeated, rows in ((False, index.runs(ledger, first)), (True, index.repeats(ledger, first)))
        for row in _until(rows, last)
        if row.file == number
    ]


def _until(rows: Iterator[Row], last: int) -> Iterator[Row]:
    for row in rows:
        if row.first > last:
            return
        yield row


def _groups(rows: Sequence[tuple[bool, Row]]) -> Iterator[list[tuple[bool, Row]]]:
    """Cut rows into groups of about _MOVE_BYTES."""
    group: list[tuple[bool, Row]] = []
    size = 0
    for repeated, row in rows:
        group.append((repeated, row))
        size += row.length
        if size >= _MOVE_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


async def _listed(pages: AsyncIterator[list[int]]) -> set[int]:
    listed: set[int] = set()
    async for page in pages:
        listed.update(page)
    return listed
