"""A reader's ensembles: read again from the metadata store when all members of a write set fail (Q6).

Re-replication replaces lost bookies while readers are open. A reader keeps the metadata with which it was opened until
a read fails; what it reads then is valid until its ledger's own metadata changes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from mledger.metastore.errors import MledgerError
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

_READ_AGAIN_S = 1.0  # metadata is not read again sooner: reads that fail earlier use what is known

Reread = Callable[[int], Awaitable[LedgerMetadata]]
"""Reads a ledger's metadata as it is in the store now."""


class Readable(Protocol):
    """The current state of a ledger that its reader needs."""

    @property
    def metadata(self) -> LedgerMetadata:
        """Ensembles and quorums."""

    @property
    def last_entry(self) -> int:
        """The last entry that can be read."""

    @property
    def readable_length(self) -> int:
        """Payload bytes up to that entry."""


class CurrentEnsembles:
    """One ledger's ensembles for its reader; reads that fail at the same time share one look."""

    def __init__(self, ledger_id: int, ledger: Readable, reread: Reread) -> None:
        self._ledger_id, self._ledger, self._reread = ledger_id, ledger, reread
        self._ground: LedgerMetadata | None = None
        self._found: LedgerMetadata | None = None
        self._reading: asyncio.Task[None] | None = None
        self._read_at = float("-inf")

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata, with the ensembles to ask."""
        held = self._ledger.metadata
        return self._found if self._found is not None and self._ground is held else held

    async def look_again(self, tried: LedgerMetadata) -> bool:
        """Whether the store names other ensembles than those of `tried`, on which a read has failed."""
        if self.metadata is tried:
            if self._reading is None:
                if asyncio.get_running_loop().time() - self._read_at < _READ_AGAIN_S:
                    return False
                self._reading = asyncio.create_task(self._read())
            await asyncio.shield(self._reading)
        return self.metadata.segments != tried.segments

    async def _read(self) -> None:
        held = self._ledger.metadata
        try:
            found = await self._reread(self._ledger_id)
        except MledgerError as error:  # the read's own error says more
            log.warning("ensembles_unknown", ledger=self._ledger_id, error=error)
        else:
            if found.segments != self.metadata.segments:
                log.info("ensembles_read_again", ledger=self._ledger_id)
                self._ground, self._found = held, replace(held, segments=found.segments)
        finally:
            self._read_at = asyncio.get_running_loop().time()
            self._reading = None
