"""Deletes local copies of closed ledgers whose ensembles no longer have this bookie (over-replicated ledgers).

- Q9 The metadata, read from a synced store, names the bookie in no ensemble, now and a grace period ago. Nothing was
  added in between: replication still in progress writes entries before it changes the metadata.
- The deletion holds the lock of re-replication, as BookKeeper's bookies do: no worker replicates the ledger meanwhile.
- A ledger that is open or in recovery stays: its ensemble may still change.
- A ledger whose record comes from a backup of the metadata stays. The record may name bookies that were replaced after
  the backup, and this be the copy that is left. A change of it tells only of the bookies that it exchanged. Such a
  record was created closed, as no client does, or long after the ledger itself, as far as that says when it was made.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from mledger.bookie.server.serving.counters import GarbageCounters
from mledger.metastore.cluster.underreplication import encode_lock
from mledger.metastore.errors import NodeExists, NodeNotFound, RecordError, StoreUnavailable
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import ledger_path, underreplication_lock_path
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader, MetadataStore, Stat

log = get_logger(__name__)

EVERY_S = 86_400.0
"""Between looks at the metadata of all ledgers."""

_CREATED = 0
"""The version of a record that was not changed since its creation."""
_AT_ONCE_MS = 3_600_000
"""A client creates a ledger's record within this time, also where its clock is wrong."""
_AT_ONCE = 1_000
_MOST_LEFT = 10_000
"""The most candidates remembered until they are deleted; the next look finds the others."""


class LocalLedgers(Protocol):
    """The ledgers that a bookie stores."""

    def pages(self) -> AsyncIterator[list[int]]:
        """Yield the local ledgers in ascending order, in pages."""

    async def needed(self, ledger: int) -> dict[int, int]:
        """Bytes that a ledger's rows name in each journal file."""

    async def try_to_delete(self, ledger: int, expected: Mapping[int, int]) -> bool:
        """Delete a ledger if its rows can be read and still name what is expected; whether it did."""


def has_left(metadata: LedgerMetadata, stat: Stat, bookie_id: str) -> bool:
    """Whether a ledger is closed and no ensemble of it has the bookie; `stat` is that of its record.

    Never if the record was restored from a backup.
    """
    if metadata.state is not LedgerState.CLOSED or _is_restored(metadata, stat):
        return False
    return not any(bookie_id in segment.bookies for segment in metadata.segments)


def _is_restored(metadata: LedgerMetadata, stat: Stat) -> bool:
    """Whether the closed ledger's record was not created by the client that created the ledger."""
    return stat.version == _CREATED or (metadata.ctime > 0 and stat.created_ms - metadata.ctime > _AT_ONCE_MS)


class OverreplicatedLedgers:
    """Finds and deletes over-replicated ledgers at intervals."""

    def __init__(
        self,
        local: LocalLedgers,
        bookie_id: str,
        root: str,
        counts: GarbageCounters,
        grace_s: float,
        every_s: float = EVERY_S,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Look every `every_s` seconds, first after one interval; never if it is 0 or less."""
        self._local, self._bookie_id, self._root, self._counts = local, bookie_id, root, counts
        self._grace_s, self._every_s = grace_s, every_s
        self._clock = clock or asyncio.get_running_loop().time
        self._looked_at = self._clock()
        self._left: dict[int, tuple[float, Mapping[int, int]]] = {}
        self._locks: set[str] = set()

    @property
    def due(self) -> bool:
        """Whether there is something to do."""
        looks = self._every_s > 0 and self._clock() - self._looked_at >= self._every_s
        return looks or bool(self._left or self._locks)

    async def collect(self, store: MetadataStore) -> list[int]:
        """Look when it is time, and delete what was found a grace period ago; return the ids. Raises its errors."""
        if self._locks:
            await store.sync()  # a server that lags may not know of a lock whose creation was not answered
            await self._release_lost(store)
        if self._every_s > 0 and self._clock() - self._looked_at >= self._every_s:
            await self._look(store)
            self._looked_at = self._clock()
        now, deleted = self._clock(), []
        for ledger, (since, needed) in list(self._left.items()):
            if now - since >= self._grace_s:
                if await self._delete(store, ledger, needed):
                    log.info("overreplicated_ledger_deleted", ledger=ledger)
                    deleted.append(ledger)
                    self._counts.ledgers_deleted += 1
                del self._left[ledger]
        return deleted

    async def _look(self, reader: MetadataReader) -> None:
        """Find the ledgers whose ensembles the bookie has left."""
        async for page in self._local.pages():
            for start in range(0, len(page), _AT_ONCE):
                for ledger in await self._left_of(reader, page[start : start + _AT_ONCE]):
                    if ledger not in self._left and len(self._left) < _MOST_LEFT:
                        await self._note(ledger)

    async def _note(self, ledger: int) -> None:
        """Remember a ledger that the bookie has left, with what its rows name; one whose rows are damaged stays."""
        try:
            self._left[ledger] = self._clock(), await self._local.needed(ledger)
        except Exception as error:  # RocksDB's have no class of their own
            self._counts.failures += 1
            log.error("ledger_not_deleted", ledger=ledger, error=error, hint="the index is damaged")

    async def _left_of(self, reader: MetadataReader, ledgers: Sequence[int]) -> list[int]:
        """Those of `ledgers` that the bookie has left. Ledgers without metadata are left to the `GarbageCollector`."""
        paths = [ledger_path(ledger, self._root) for ledger in ledgers]
        found = []
        for ledger, path, node in zip(ledgers, paths, await reader.get_many(paths), strict=True):
            try:
                if node is None:
                    continue
                if has_left(decode_ledger_metadata(node.data, path), node.stat, self._bookie_id):
                    found.append(ledger)
            except RecordError as error:
                log.warning("ledger_metadata_unreadable", ledger=ledger, error=error, hint="the ledger is kept")
        return found

    async def _delete(self, store: MetadataStore, ledger: int, needed: Mapping[int, int]) -> bool:
        """Delete a ledger unless somebody replicates it now or it has changed since it was found."""
        lock = underreplication_lock_path(ledger, self._root)
        try:
            await store.create(lock, encode_lock(self._bookie_id), ephemeral=True, parents=True)
        except NodeExists:
            log.info("overreplicated_ledger_kept", ledger=ledger, reason="locked")
            return False
        except StoreUnavailable:  # the lock may have been created
            self._locks.add(lock)
            raise
        try:
            await store.sync()
            return bool(await self._left_of(store, [ledger])) and await self._local.try_to_delete(ledger, needed)
        finally:
            self._locks.add(lock)
            await self._release_lost(store)

    async def _release_lost(self, store: MetadataStore) -> None:
        """Release locks of this session; locks of other sessions ended with those."""
        for lock in list(self._locks):
            stat = await store.exists(lock)
            if stat is not None and stat.ephemeral_owner == store.owner_at(lock):
                try:
                    await store.delete(lock)
                except NodeNotFound:
                    log.debug("lock_gone", path=lock)
            self._locks.discard(lock)
