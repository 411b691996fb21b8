"""Ends the limbo of ledgers that have been closed: nobody recovers them any more, so absence proves nothing there.

A ledger is in limbo if the bookie may have had entries of it that it lacks now (`lost_ledgers`).
"""

import asyncio

from msgspec.structs import replace

from mledger.bookie.server.process.bookie import ServingBookie
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import RecordError
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader

log = get_logger(__name__)

_AT_ONCE = 1_000


class LimboLedgers:
    """Looks after the ledgers in limbo of one bookie, at each garbage collection until none is left."""

    def __init__(self, bookie: ServingBookie, root: str) -> None:
        self._bookie, self._root = bookie, root
        self.left = True
        """Whether ledgers may be in limbo; none comes to be while a bookie serves."""

    async def collect(self, reader: MetadataReader) -> list[int]:
        """End the limbo of closed ledgers; return their ids. Raises the metadata store's errors."""
        ended, left, first = list[int](), 0, 0
        while page := await self._page(first):
            await reader.sync()
            for ledger, found in zip(page, await LedgerStoreReader(reader, self._root).read_each(page), strict=True):
                readable = None if isinstance(found, RecordError) else found
                if readable is not None and readable[0].state is LedgerState.CLOSED and self._end(ledger):
                    ended.append(ledger)
                else:
                    left += 1
            first = page[-1] + 1
        self.left = bool(left)
        if ended:
            log.info("limbo_ended", ledgers=len(ended), left=left)
        return ended

    async def _page(self, first: int) -> list[int]:
        index, threads = self._bookie.index, self._bookie.threads
        return await asyncio.get_running_loop().run_in_executor(threads, index.ledgers_in_limbo, first, _AT_ONCE)

    def _end(self, ledger: int) -> bool:
        """End a ledger's limbo; False while the disk has no room to note it."""
        turns = self._bookie.turns
        state = turns.ledgers.get(ledger)
        if turns.full:
            return False
        if state.record is not None and state.record.limbo:
            turns.change(state, replace(state.record, limbo=False))
        return True
