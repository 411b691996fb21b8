"""Compacted ledgers of one topic, replaced so that a crash leaves no orphan (R10, C12).

The state of compaction's cursor names the compacted ledger. That state is an entry of a cursor
ledger, so the write that names the new ledger cannot remove records with it. Therefore both the new
ledger and the one before have a pending record around that write. A replay keeps the one that the
recovered cursor names and deletes the other.
"""

import contextlib
from collections.abc import Iterable

from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.errors import BookieError
from mledger.ledgers.ledger_factory import CustomMetadata, LedgerFactory
from mledger.metastore.errors import MetadataError
from mledger.metastore.records.ledger_metadata import DigestType

PASSWORD = b""
"""Of compacted ledgers, in Pulsar."""


class CompactedLedgers:
    """Creates and deletes the compacted ledgers of one topic."""

    def __init__(self, factory: LedgerFactory) -> None:
        self._factory = factory

    async def create(self, custom: CustomMetadata) -> LedgerWriter:
        """A new ledger under a pending record. Raises NotEnoughBookies, StoreUnavailable."""
        return await self._factory.create_attached_ledger(custom, DigestType.CRC32, PASSWORD)

    async def discard(self, writer: LedgerWriter) -> None:
        """Delete a ledger that no state names; if that fails, a replay deletes it."""
        with contextlib.suppress(BookieError, MetadataError):
            await self._factory.discard(writer)
        self._factory.settled(writer.ledger_id)

    async def doubt(self, ledger_ids: Iterable[int]) -> None:
        """Record the ledgers that the cursor still names, before a state names a new one, which is closed."""
        self._factory.on_step("compacted ledger written")
        for each in ledger_ids:
            await self._factory.doubt(each)
            self._factory.on_step("compacted ledger doubted")

    async def settle(self, ledger_id: int, *, named: bool) -> None:
        """Once a state is durable: keep the ledger if the state names it, else delete it."""
        self._factory.on_step("compacted ledger named")
        await self._factory.settle_doubt(ledger_id, listed=named)
