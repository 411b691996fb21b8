"""Ledgers whose metadata was deleted are deleted here too, and their space comes back.

- Q9 A ledger goes when the metadata store, brought up to date after the question was put, has not had it for a grace
  period. Local ids are listed first: a ledger made meanwhile is in no danger.
- Each id that a listing does not have is looked up again, alone, before anything of it is deleted.
- A listing that fails or ends early deletes nothing; nor does a cluster with another instance id.
- A journal file of which little is needed any more has that little written anew, where that saves room: what stands
  around small entries is written again with them. One of which nothing is needed is used again, or removed.
- A file that cannot be read is kept, and reported; the others go on.
"""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mledger.bookie import wire
from mledger.bookie.errors import CorruptJournal, DiskFull
from mledger.bookie.server.process.bookie import Bookie
from mledger.bookie.server.process.excess_ledgers import OverreplicatedLedgers
from mledger.bookie.server.storage.file_contents import FileContents, read_contents
from mledger.bookie.server.storage.index import Row
from mledger.bookie.server.storage.journal import file_numbers, file_path
from mledger.bookie.server.storage.reads import read_frames
from mledger.metastore.cluster.layout import check_layout, instance_id
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import MetadataError
from mledger.metastore.records.paths import LEDGERS, ledger_path
from mledger.metastore.runtime.logs import get_logger
from mledger.metastore.store import MetadataReader, MetadataStore

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Files of which less than `share` is still needed are emptied, each `every_s` seconds; 0: each time.

    With `settled` only those of which nothing was deleted since the last time: of others more may soon go by itself.
    """

    share: float = 0.5
    every_s: float = 0.0
    settled: bool = False


EVERY_TIME = (Compaction(), Compaction(0.85, settled=True))

GRACE_S = 60.0
"""For so long a ledger's metadata has to be absent before the ledger goes: longer than ZooKeeper's servers may believe
in a leader that is none any more."""

_PAGE = 10_000
"""Local ledgers compared with the metadata at once."""
_MOST_ABSENT = 100_000
"""Ledgers without metadata that are remembered; others have their turn when these are gone."""
_MOST_FILES = 8  # emptied before those that became free are given back
_MOVE_BYTES = 1 << 20
_MOVE_ROWS = 256  # each is looked up on the loop
_UNREADABLE = (OSError, CorruptJournal, wire.MalformedFrame, struct.error, ValueError)
"""What reading a file raises that is damaged, or lies on a bad disk."""


def plan_absent(
    absent: Sequence[int], since: Mapping[int, float], now: float, grace_s: float
) -> tuple[dict[int, float], list[int]]:
    """Since when each of `absent` is so, and which have been for `grace_s` seconds: those are to be looked up."""
    found = {ledger: since.get(ledger, now) for ledger in absent}
    return found, [ledger for ledger, at in found.items() if now - at >= grace_s]


def plan_due(compactions: Sequence[Compaction], done_at: Sequence[float], now: float) -> list[Compaction]:
    """Which compactions are due. `done_at` is when each was done last, on the clock of `now`, in seconds."""
    return [kind for kind, at in zip(compactions, done_at, strict=True) if now - at >= kind.every_s]


def plan_emptying(
    sizes: Mapping[int, int],
    live: Mapping[int, int],
    current: int,
    due: Sequence[Compaction],
    settled: Collection[int] = (),
    kept: Mapping[int, int] | None = None,
) -> list[int]:
    """Which journal files to empty: of those written before `current`, the ones least needed, a few at a time.

    Args:
        sizes: bytes of each file, by number.
        live: bytes of each that the index names.
        current: the file that is written now.
        due: which files count as little needed.
        settled: files of which nothing was deleted since the last time.
        kept: bytes of a file that are not live, and that emptying it would not save; 0 where it was not looked at.
    """
    kept = kept or {}
    shares = {True: max((kind.share for kind in due), default=0.0)}
    shares[False] = max((kind.share for kind in due if not kind.settled), default=0.0)
    before = [file for file in sizes if file < current and live.get(file, 0) > 0]
    sparse = [file for file in before if live[file] + kept.get(file, 0) < sizes[file] * shares[file in settled]]
    return sorted(sparse, key=lambda file: live[file])[:_MOST_FILES]


def plan_freeing(files: Sequence[int], live: Mapping[int, int], current: int) -> list[int]:
    """Which journal files are needed no more."""
    return [file for file in files if file < current and live.get(file, 0) <= 0]


class GarbageCollector:
    """Compares what a bookie holds with the metadata store, now and then."""

    def __init__(
        self,
        bookie: Bookie,
        instance: str,
        root: str = LEDGERS,
        compactions: Sequence[Compaction] = EVERY_TIME,
        grace_s: float = GRACE_S,
        bookie_id: str = "",
        overreplicated_every_s: float = 0.0,
    ) -> None:
        """`instance` is the instance id of the cluster that the bookie's ledgers belong to.

        Each `overreplicated_every_s` seconds those are looked for whose ensembles `bookie_id` has left; 0: never.
        """
        self._bookie, self._instance, self._root = bookie, instance, root
        self._compactions, self._grace_s = compactions, grace_s
        self._loop = asyncio.get_running_loop()
        self._done_at = [self._loop.time()] * len(compactions)
        self._absent_since: dict[int, float] = {}
        self._damaged: set[int] = set()
        self._live_before: dict[int, int] = {}
        self._kept: dict[int, int] = {}  # as for plan_emptying
        self._counts = bookie.counters.garbage
        self.overreplicated = OverreplicatedLedgers(
            self, bookie_id, root, self._counts, grace_s, overreplicated_every_s
        )

    async def run(self, store: MetadataStore) -> None:
        """Collect and reclaim. What goes wrong is logged and counted: a bookie goes on without."""
        began, failures = self._loop.time(), self._counts.failures
        steps: Sequence[Callable[[], Awaitable[object]]] = (
            partial(self.collect, store),
            partial(self.collect_overreplicated, store),
            self.reclaim,
        )
        for step in steps:
            try:
                await step()
            except MetadataError as error:
                self._counts.failures += 1
                log.warning("garbage_collection_failed", error=error)
            except Exception as error:
                self._counts.failures += 1
                log.exception("garbage_collection_failed", error=error)
        if failures == self._counts.failures:
            self._counts.times.observe(self._loop.time() - began)

    async def collect(self, reader: MetadataReader) -> list[int]:
        """Delete what the metadata store has not had for the grace period; the ids. Its errors come out."""
        held, deleted, absent_since = 0, [], dict[int, float]()
        async for local in self.pages():
            if not held and not await self._is_ours(reader):
                return []
            held += len(local)
            await reader.sync()
            absent = await LedgerStoreReader(reader, self._root).absent(local)
            found, due = plan_absent(absent, self._absent_since, self._loop.time(), self._grace_s)
            for ledger in await self._gone(reader, due):
                if await self.delete(ledger):
                    log.info("ledger_deleted", ledger=ledger)
                    deleted.append(ledger)
                    del found[ledger]
            if len(absent_since) < _MOST_ABSENT:
                absent_since |= found
        self._absent_since = absent_since
        self._counts.ledgers = held - len(deleted)
        self._counts.ledgers_deleted += len(deleted)
        return deleted

    async def collect_overreplicated(self, store: MetadataStore) -> list[int]:
        """Delete what is closed and whose ensembles the bookie has left; the ids. Its errors come out."""
        if not self.overreplicated.due or not await self._is_ours(store):
            return []
        return await self.overreplicated.collect(store)

    async def delete(self, ledger: int, expected: Mapping[int, int] | None = None) -> bool:
        """Forget a ledger that nobody needs; False when something is added to it now, or was since `expected`."""
        turns = self._bookie.turns
        seen = turns.ledgers.get(ledger)
        commit = seen.commit
        needed = await self.needed(ledger)
        if expected is not None and needed != expected:
            return False
        return turns.delete(ledger, seen, commit, needed)

    async def needed(self, ledger: int) -> dict[int, int]:
        """Bytes of each journal file that a ledger's rows name."""
        return await self._loop.run_in_executor(self._bookie.threads, self._bookie.index.needed_bytes, ledger)

    async def pages(self) -> AsyncIterator[list[int]]:
        """The ledgers that are here, rising, in pages."""
        first = 0
        while page := await self._loop.run_in_executor(
            self._bookie.threads, self._bookie.index.ledger_ids, first, _PAGE
        ):
            yield page
            first = page[-1] + 1

    async def _is_ours(self, reader: MetadataReader) -> bool:
        """Whether this is the metadata that the bookie's ledgers are in."""
        found = await instance_id(reader, self._root)
        if found != self._instance:
            log.error("garbage_refused", cluster=found, bookie_belongs_to=self._instance)
            return False
        await check_layout(reader, self._root)
        return True

    async def _gone(self, reader: MetadataReader, ledgers: Sequence[int]) -> list[int]:
        """Those that the metadata store does not have: as it is after now (Q9)."""
        if not ledgers:
            return []
        await reader.sync()
        nodes = await reader.get_many([ledger_path(ledger, self._root) for ledger in ledgers])
        return [ledger for ledger, node in zip(ledgers, nodes, strict=True) if node is None]

    async def reclaim(self) -> int:
        """Give space back; how many journal files are needed no more."""
        index, now = self._bookie.index, self._loop.time()
        due = plan_due(self._compactions, self._done_at, now)
        settled = {file for file, live in index.live.items() if self._live_before.get(file) == live}
        freed, tried = await self._free(), set[int]()

        def plan(sizes: Mapping[int, int]) -> list[int]:
            return plan_emptying(sizes, index.live, self._bookie.turns.file, due, settled, self._kept)

        while files := plan(sizes := self._sizes(tried)):
            for number in files:
                contents = await self._look(number, sizes[number])
                if contents is not None and plan({number: sizes[number]}):
                    await self._empty(number, contents.rows)
            tried.update(files)
            freed += await self._free()
        self._kept = {file: kept for file, kept in self._kept.items() if file in index.live}
        self._live_before = dict(index.live)
        for kind, each in enumerate(self._compactions):
            if each in due:
                self._done_at[kind] = now
        return freed

    def _sizes(self, without: Collection[int] = ()) -> dict[int, int]:
        """Bytes of each journal file but those, and but those that are damaged or given back already."""
        path, found = self._bookie.journal_path, dict[int, int]()
        for number in file_numbers(path):
            if number in without or number in self._damaged or number in self._bookie.turns.given_back:
                continue
            try:
                found[number] = os.stat(file_path(path, number)).st_size
            except FileNotFoundError:  # listed before the journal's thread took it
                continue
            except OSError as error:
                self._mark(number, error)
        return found

    async def _free(self) -> int:
        """Give back the files that are needed no more; how many."""
        bookie, sizes = self._bookie, self._sizes()
        candidates = plan_freeing(list(sizes), bookie.index.live, bookie.turns.file)
        free = [number for number in candidates if (found := await self._contents(number)) and not found.rows]
        if free:
            await self._loop.run_in_executor(bookie.threads, bookie.index.flush)
            bookie.turns.recycle(free)
            size = sum(sizes[number] for number in free)
            self._counts.bytes_reclaimed += size
            log.info("space_reclaimed", files=len(free), bytes=size)
            await self._loop.run_in_executor(bookie.threads, bookie.index.compact)
        return len(free)

    async def _look(self, number: int, size: int) -> FileContents | None:
        """What is needed of a file of so many bytes; how much emptying it would save is known from then on."""
        contents = await self._contents(number)
        if contents is not None and contents.rows:
            self._kept[number] = contents.kept(size)
        return contents

    async def _empty(self, number: int, rows: Sequence[tuple[bool, Row]]) -> None:
        """Write anew what is needed of a file."""
        try:
            moved = [await self._move(number, group) for group in _groups(rows)]
        except DiskFull as error:  # it is tried again: what goes by itself makes room
            log.warning("journal_file_not_emptied", file=number, error=error)
            return
        except _UNREADABLE as error:
            self._mark(number, error)
            return
        self._counts.files_emptied += 1
        log.info("journal_file_emptied", file=number, runs=sum(moved), of=len(rows))
        if not rows:
            self._mark(number, CorruptJournal("its records cannot be found"))

    async def _move(self, number: int, rows: Sequence[tuple[bool, Row]]) -> int:
        """Write runs of a file anew, those that are still needed when they have been read; how many."""
        bookie = self._bookie
        path = bookie.journal_path
        frames = await self._loop.run_in_executor(bookie.threads, read_frames, path, number, [row for _, row in rows])
        current = [
            (repeated, row, found)
            for (repeated, row), found in zip(rows, frames, strict=True)
            if bookie.turns.current(row, repeated=repeated)
        ]
        if current:
            await bookie.turns.move(current)
        return len(current)

    async def _contents(self, number: int) -> FileContents | None:
        """What the index names in a file, as far as the file's records can be found; None when it cannot be read."""
        bookie = self._bookie
        try:
            return await self._loop.run_in_executor(
                bookie.threads, read_contents, bookie.index, bookie.journal_path, number, bookie.salt
            )
        except _UNREADABLE as error:
            self._mark(number, error)
            return None

    def _mark(self, number: int, error: Exception) -> None:
        """Leave a damaged file alone until the next start, and say so once."""
        self._damaged.add(number)
        self._counts.damaged_files = len(self._damaged)
        live = self._bookie.index.live.get(number, 0)
        log.error("journal_file_damaged", file=number, needed_bytes=live, error=error, hint="the file is kept")


def _groups(rows: Sequence[tuple[bool, Row]]) -> Iterator[list[tuple[bool, Row]]]:
    """Cut rows into groups of about _MOVE_BYTES, and of no more than _MOVE_ROWS."""
    group: list[tuple[bool, Row]] = []
    size = 0
    for repeated, row in rows:
        group.append((repeated, row))
        size += row.length
        if size >= _MOVE_BYTES or len(group) == _MOVE_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group
