"""Ledgers whose metadata was deleted are deleted here too, and their space comes back.

- Local ids are listed before the metadata is: a ledger made meanwhile is in no danger.
- Each id that the listing does not have is looked up again, alone, before anything of it is deleted.
- A listing that fails or ends early deletes nothing; nor does a cluster with another instance id.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Sequence

from bookie.server.store import Store
from bookie.server.turn import Turns
from metastore.layout import instance_id
from metastore.ledgers import LedgerStoreReader
from metastore.paths import LEDGERS, ledger_path
from metastore.store import MetadataReader

log = logging.getLogger(__name__)


def plan_candidates(local: Sequence[int], listed: Collection[int]) -> list[int]:
    """The local ledgers that a complete listing of the metadata does not have, to be looked up one by one."""
    return [ledger for ledger in local if ledger not in listed]


class GarbageCollector:
    """Compares what a bookie holds with the metadata store, now and then."""

    def __init__(self, store: Store, turns: Turns, instance: str, root: str = LEDGERS) -> None:
        """`instance` is the instance id of the cluster that the bookie's ledgers belong to."""
        self._store, self._turns, self._instance, self._root = store, turns, instance, root

    async def collect(self, reader: MetadataReader) -> list[int]:
        """Delete what the metadata store no longer has; the ids. Its errors come out, and then nothing was deleted."""
        started = time.monotonic()
        local = self._store.ledger_ids()
        if not local:
            return []
        found = await instance_id(reader, self._root)
        if found != self._instance:
            log.error("event=garbage_refused cluster=%s bookie_belongs_to=%s", found, self._instance)
            return []
        candidates = plan_candidates(local, await _listed(LedgerStoreReader(reader, self._root).list()))
        missing = [ledger for ledger in candidates if await reader.exists(ledger_path(ledger, self._root)) is None]
        for ledger in missing:
            self._turns.delete(ledger)
            log.info("event=ledger_deleted ledger=%d", ledger)
            await asyncio.sleep(0)
        if missing:
            await asyncio.get_running_loop().run_in_executor(None, self._store.reclaim)
            log.info("event=space_reclaimed ledgers=%d seconds=%.3f", len(missing), time.monotonic() - started)
        return missing


async def _listed(pages: AsyncIterator[list[int]]) -> set[int]:
    listed: set[int] = set()
    async for page in pages:
        listed.update(page)
    return listed
