"""Deletes ledgers whose metadata was deleted, and reclaims their space.

- Q9 A ledger is deleted when a metadata store that was synced after the local ids were listed has lacked it for a grace
  period. Local ids are listed first, so a ledger created meanwhile is safe.
- Each id that a listing lacks is looked up alone, shortly before its ledger is deleted, and nothing may have been added
  to the ledger since: one may be created anew, or its metadata be restored, while others are deleted.
- A listing that fails or ends early deletes nothing; nor does a cluster with another instance id.
- A journal file with little live data is emptied where that saves room: the live data, with the records around small
  entries, is written again. A file without live data is reused or removed.
- A file that cannot be read is kept and reported; the collection continues with the others. If only the system lacks
  files or threads, the next one tries again.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from mledger.bookie.errors import CorruptJournal, DiskFull
from mledger.bookie.server.process.bookie import ServingBookie
from mledger.bookie.server.process.excess_ledgers import OverreplicatedLedgers
from mledger.bookie.server.process.limbo_ledgers import LimboLedgers
from mledger.bookie.server.storage.directories.disk import LARGEST_WHOLE_COMPACTION
from mledger.bookie.server.storage.directories.open_files import is_passing
from mledger.bookie.server.storage.journal import file_numbers, file_path
from mledger.bookie.server.storage.ledgers import Measured, Needs
from mledger.bookie.server.storage.reads import read_frames
from mledger.bookie.server.storage.records.file_contents import FileContents, read_contents
from mledger.bookie.server.storage.rows.index import Row
from mledger.metastore.cluster.layout import check_layout, instance_id
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import MetadataError
from mledger.metastore.records.paths import LEDGERS, ledger_path
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader, MetadataStore

log = get_logger(__name__)


class Compaction(Struct, frozen=True):
    """Every `every_s` seconds (0: at each collection), files with a live share below `share` are emptied.

    With `settled`, only files of which nothing was deleted since the last time: others may soon be freed without it.
    """

    share: float = 0.5
    every_s: float = 0.0
    settled: bool = False


EVERY_TIME = (Compaction(), Compaction(0.85, settled=True))

GRACE_S = 60.0
"""How long a ledger's metadata must be absent before the ledger is deleted, in seconds: longer than ZooKeeper's
servers may follow a leader that has lost its role."""

_PAGE = 10_000
"""Local ledgers compared with the metadata at once."""
_LOOKED_UP = 100
"""Ledgers looked up at once before they are deleted: deletions may take long, and a ledger come back meanwhile."""
_LOOK_UP_S = 3.0
"""How long a look-up counts, less than a session lives without its process: while that is frozen, a restore may end."""
_MOST_ABSENT = 100_000
"""The most ledgers without metadata that are remembered; others follow when these are deleted."""
_MOST_HIDDEN = 10_000
"""Deleted ledgers whose rows are left to RocksDB's own compactions."""
_MOST_UNFLUSHED = 1_000
"""Deletions after which the index is flushed: until then each one makes the next read go over all of them."""
_MOST_FILES = 8  # emptied before freed files are given back
_MOVE_BYTES = 1 << 20
_MOVE_ROWS = 256  # each is looked up on the loop


def plan_absent(
    absent: Sequence[int], since: Mapping[int, float], now: float, grace_s: float
) -> tuple[dict[int, float], list[int]]:
    """Since when each of `absent` is absent, and which have been for `grace_s` seconds and are to be looked up."""
    found = {ledger: since.get(ledger, now) for ledger in absent}
    return found, [ledger for ledger, at in found.items() if now - at >= grace_s]


def plan_due(compactions: Sequence[Compaction], done_at: Sequence[float], now: float) -> list[Compaction]:
    """The compactions that are due. `done_at`: when each was done last, on the clock of `now`, in seconds."""
    return [kind for kind, at in zip(compactions, done_at, strict=True) if now - at >= kind.every_s]


def plan_emptying(
    sizes: Mapping[int, int],
    live: Mapping[int, int],
    current: int,
    due: Sequence[Compaction],
    settled: Collection[int] = (),
    kept: Mapping[int, int] | None = None,
) -> list[int]:
    """The journal files to empty: a few of those before `current`, the ones with the least live data.

    Args:
        sizes: bytes of each file, by number.
        live: live bytes of each, which the index names.
        current: the file being written.
        due: the compactions that are due.
        settled: files of which nothing was deleted since the last time.
        kept: bytes of a file that are not live, and that emptying it would not save; 0 if the file was not examined.
    """
    kept = kept or {}
    shares = {True: max((kind.share for kind in due), default=0.0)}
    shares[False] = max((kind.share for kind in due if not kind.settled), default=0.0)
    before = [file for file in sizes if file < current and live.get(file, 0) > 0]
    sparse = [file for file in before if live[file] + kept.get(file, 0) < sizes[file] * shares[file in settled]]
    return sorted(sparse, key=lambda file: live[file])[:_MOST_FILES]


def plan_freeing(files: Sequence[int], live: Mapping[int, int], current: int) -> list[int]:
    """The journal files without live data."""
    return [file for file in files if file < current and live.get(file, 0) <= 0]


def plan_index_compaction(hidden_ledgers: int, hidden_bytes: int, live: Mapping[int, int]) -> bool:
    """Whether to write the whole index again without the rows of deleted ledgers.

    It is done when these named half as much as all others do, `live` bytes of each file: otherwise a bookie with a
    large index would do little else. And when there are many such ledgers: reads must step over each.
    """
    return hidden_ledgers >= _MOST_HIDDEN or 2 * hidden_bytes >= sum(live.values())


class GarbageCollector:
    """Compares a bookie's ledgers with the metadata store at intervals."""

    def __init__(
        self,
        bookie: ServingBookie,
        instance: str,
        root: str = LEDGERS,
        compactions: Sequence[Compaction] = EVERY_TIME,
        grace_s: float = GRACE_S,
        bookie_id: str = "",
        overreplicated_every_s: float = 0.0,
    ) -> None:
        """`instance` is the instance id of the cluster that the bookie's ledgers belong to.

        Every `overreplicated_every_s` seconds it looks for ledgers whose ensembles `bookie_id` has left; 0: never.
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
        self._limbo = LimboLedgers(bookie, root)
        self.overreplicated = OverreplicatedLedgers(
            self, bookie_id, root, self._counts, grace_s, overreplicated_every_s
        )

    async def run(self, store: MetadataStore) -> None:
        """Collect and reclaim. Errors are logged and counted: the bookie keeps running."""
        began, failures = self._loop.time(), self._counts.failures
        steps: Sequence[Callable[[], Awaitable[object]]] = (
            partial(self.collect, store),
            partial(self.collect_overreplicated, store),
            partial(self.end_limbo, store),
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
        """Delete ledgers that the metadata store has lacked for the grace period; return the ids. Raises its errors."""
        held, deleted, absent_since = 0, [], dict[int, float]()
        async for local in self.pages():
            if not held and not await self._is_ours(reader):
                return []
            held += len(local)
            await reader.sync()
            absent = await LedgerStoreReader(reader, self._root).absent(local)
            found, due = plan_absent(absent, self._absent_since, self._loop.time(), self._grace_s)
            for start in range(0, len(due), _LOOKED_UP):
                for ledger in await self._delete_gone(reader, due[start : start + _LOOKED_UP]):
                    deleted.append(ledger)
                    del found[ledger]
            if len(absent_since) < _MOST_ABSENT:
                absent_since |= found
        self._absent_since = absent_since
        self._counts.ledgers = held - len(deleted)
        self._counts.ledgers_deleted += len(deleted)
        return deleted

    async def collect_overreplicated(self, store: MetadataStore) -> list[int]:
        """Delete closed ledgers whose ensembles the bookie has left; return the ids. Raises its errors."""
        if not self.overreplicated.due or not await self._is_ours(store):
            return []
        return await self.overreplicated.collect(store)

    async def end_limbo(self, store: MetadataReader) -> list[int]:
        """End the limbo of ledgers that have been closed; return the ids. Raises its errors."""
        if not self._limbo.left or not await self._is_ours(store):
            return []
        return await self._limbo.collect(store)

    async def _delete_gone(self, reader: MetadataReader, ledgers: Sequence[int]) -> list[int]:
        """Delete those of `ledgers` that are gone, unless something was added since they were measured; their ids."""
        known, deleted = dict[int, Measured](), []
        for ledger in ledgers:
            try:
                if (measured := await self._measure(ledger)) is not None:
                    known[ledger] = measured
            except Exception as error:  # RocksDB's have no class of their own
                self._note_not_deleted(ledger, error)
        looked_at = time.monotonic()
        for ledger in await self._gone(reader, list(known)):
            if time.monotonic() - looked_at > _LOOK_UP_S:
                break
            if await self.try_to_delete(ledger, known=known[ledger]):
                log.info("ledger_deleted", ledger=ledger)
                deleted.append(ledger)
        return deleted

    async def _measure(self, ledger: int) -> Measured | None:
        """A ledger's state and needs; None while its rows are not all there yet to be counted."""
        state = self._bookie.turns.ledgers.get(ledger)
        seen = state, state.commit
        return (seen, await self.needed(ledger)) if state.durable else None

    async def delete(self, ledger: int, expected: Needs | None = None, known: Measured | None = None) -> bool:
        """Delete an unneeded ledger; False if adds to it are in progress, or came since `expected` or `known`.

        `expected`: of one that others have; it is remembered.
        """
        measured = known or await self._measure(ledger)
        if measured is None or (expected is not None and measured[1] != expected):
            return False
        return self._bookie.turns.delete(ledger, *measured, left=expected is not None)

    async def try_to_delete(self, ledger: int, expected: Needs | None = None, known: Measured | None = None) -> bool:
        """Delete a ledger as `delete`; where the index is damaged it stays, and others are deleted all the same.

        OSError when the index, which is flushed after many deletions, cannot be.
        """
        try:
            deleted = await self.delete(ledger, expected, known)
        except Exception as error:  # RocksDB's have no class of their own
            self._note_not_deleted(ledger, error)
            return False
        index = self._bookie.index
        if index.unflushed_deletions >= _MOST_UNFLUSHED:
            await self._loop.run_in_executor(self._bookie.threads, index.flush)
        return deleted

    def _note_not_deleted(self, ledger: int, error: Exception) -> None:
        self._counts.failures += 1
        log.error("ledger_not_deleted", ledger=ledger, error=error, hint="the index is damaged")

    async def needed(self, ledger: int) -> dict[int, int]:
        """Bytes that a ledger's rows name in each journal file."""
        return await self._loop.run_in_executor(self._bookie.threads, self._bookie.index.needed_bytes, ledger)

    async def pages(self) -> AsyncIterator[list[int]]:
        """Yield the local ledgers in ascending order, in pages."""
        first = 0
        while page := await self._loop.run_in_executor(
            self._bookie.threads, self._bookie.index.ledger_ids, first, _PAGE
        ):
            yield page
            first = page[-1] + 1

    async def _is_ours(self, reader: MetadataReader) -> bool:
        """Whether this metadata store has the metadata of the bookie's ledgers."""
        found = await instance_id(reader, self._root)
        if found != self._instance:
            log.error("garbage_refused", cluster=found, bookie_belongs_to=self._instance)
            return False
        await check_layout(reader, self._root)
        return True

    async def _gone(self, reader: MetadataReader, ledgers: Sequence[int]) -> list[int]:
        """Those of `ledgers` that the metadata store, synced now, does not have (Q9).

        The cluster is looked at again: a restore of ledgers begins with the removal of its instance id.
        """
        if not ledgers:
            return []
        await reader.sync()
        if not await self._is_ours(reader):
            return []
        nodes = await reader.get_many([ledger_path(ledger, self._root) for ledger in ledgers])
        return [ledger for ledger, node in zip(ledgers, nodes, strict=True) if node is None]

    async def reclaim(self) -> int:
        """Reclaim space; return the number of journal files that are no longer needed."""
        index, now = self._bookie.index, self._loop.time()
        due = plan_due(self._compactions, self._done_at, now)
        settled = {file for file, live in index.live.items() if self._live_before.get(file) == live}
        freed, tried = await self._free(), set[int]()

        def plan(sizes: Mapping[int, int]) -> list[int]:
            return plan_emptying(sizes, index.live, self._bookie.turns.file, due, settled, self._kept)

        while files := plan(sizes := await self._sizes(tried)):
            for number in files:
                contents = await self._look(number, sizes[number])
                if contents is not None and plan({number: sizes[number]}):
                    await self._empty(number, contents.rows)
            tried.update(files)
            freed += await self._free()
        await self._join_index()
        self._kept = {file: kept for file, kept in self._kept.items() if file in index.live}
        self._live_before = dict(index.live)
        for kind, each in enumerate(self._compactions):
            if each in due:
                self._done_at[kind] = now
        return freed

    async def _sizes(self, without: Collection[int] = ()) -> dict[int, int]:
        """Bytes of each journal file, except `without`, damaged files, and files already given back."""
        bookie, found = self._bookie, dict[int, int]()
        looked = await self._loop.run_in_executor(bookie.threads, look_at_files, bookie.journal_path)
        for number, size in looked.items():
            if number in without or number in self._damaged or number in bookie.turns.given_back:
                continue
            if isinstance(size, OSError):
                self._mark(number, size)
            else:
                found[number] = size
        return found

    async def _free(self) -> int:
        """Give back the files without live data; return their number."""
        bookie, sizes = self._bookie, await self._sizes()
        candidates = plan_freeing(list(sizes), bookie.index.live, bookie.turns.file)
        free = [number for number in candidates if (found := await self._contents(number)) and not found.rows]
        if free:
            await self._loop.run_in_executor(bookie.threads, bookie.index.flush)
            bookie.turns.recycle(free)
            size = sum(sizes[number] for number in free)
            self._counts.bytes_reclaimed += size
            log.info("space_reclaimed", files=len(free), bytes=size)
            index = bookie.index
            wanted = plan_index_compaction(index.hidden_ledgers, index.hidden_bytes, index.live)
            if wanted and bookie.may_compact(LARGEST_WHOLE_COMPACTION):
                index.hidden_ledgers = index.hidden_bytes = 0
                await self._loop.run_in_executor(bookie.threads, index.compact)
        return len(free)

    async def _join_index(self) -> None:
        """Join the index's many small files, where there is room for that."""
        bookie = self._bookie
        scattered = bookie.index.scattered()
        if scattered and bookie.may_compact(LARGEST_WHOLE_COMPACTION):
            await self._loop.run_in_executor(bookie.threads, bookie.index.join_files, scattered)

    async def _look(self, number: int, size: int) -> FileContents | None:
        """Read which rows of a file of `size` bytes are live, and note what emptying the file would save."""
        contents = await self._contents(number)
        if contents is not None and contents.rows:
            self._kept[number] = contents.kept(size)
        return contents

    async def _empty(self, number: int, rows: Sequence[tuple[bool, Row]]) -> None:
        """Write the live rows of a file again. It is damaged if it is needed after that: the rest cannot be found."""
        try:
            moved = [await self._move(number, group) for group in _groups(rows)]
        except DiskFull as error:  # retried later: deletions may make room first
            log.warning("journal_file_not_emptied", file=number, error=error)
            return
        except Exception as error:  # the file's, or the index's: RocksDB's have no class of their own
            self._mark(number, error)
            return
        self._counts.files_emptied += 1
        log.info("journal_file_emptied", file=number, runs=sum(moved), of=len(rows))
        if sum(moved) == len(rows) and self._bookie.index.live.get(number, 0) > 0:
            self._mark(number, CorruptJournal("not all of its records can be found"))

    async def _move(self, number: int, rows: Sequence[tuple[bool, Row]]) -> int:
        """Write those runs of a file again that are still live once they have been read; return their number."""
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
        """The rows of a file, as far as its records can be found; None when it cannot be read, or its rows cannot."""
        bookie = self._bookie
        try:
            return await self._loop.run_in_executor(
                bookie.threads, read_contents, bookie.index, bookie.journal_path, number, bookie.salt
            )
        except Exception as error:
            self._mark(number, error)
            return None

    def _mark(self, number: int, error: Exception) -> None:
        """Leave a damaged file alone until the next start, and log it once; for now if the system lacks something."""
        if is_passing(error):
            self._counts.failures += 1
            log.warning("journal_file_not_read", file=number, error=error, hint="it is tried again")
            return
        self._damaged.add(number)
        self._counts.damaged_files = len(self._damaged)
        live = self._bookie.index.live.get(number, 0)
        log.error("journal_file_damaged", file=number, needed_bytes=live, error=error, hint="the file is kept")


def look_at_files(directory: str) -> dict[int, int | OSError]:
    """The bytes of each journal file, or why they are not known. OSError when the directory cannot be listed."""
    found = dict[int, int | OSError]()
    for number in file_numbers(directory):
        try:
            found[number] = os.stat(file_path(directory, number)).st_size
        except FileNotFoundError:  # the journal's thread took it after it was listed
            continue
        except OSError as error:
            found[number] = error
    return found


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
