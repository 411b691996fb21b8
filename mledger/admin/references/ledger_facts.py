"""What BookKeeper has of a ledger: whether it is closed, and where it ends; read-only."""

import asyncio

from msgspec import Struct

from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.store import Node


class LedgerFacts(Struct, frozen=True):
    """A ledger as BookKeeper has it; `end` is its end, or the peeked end if it is not closed."""

    state: LedgerState
    end: LedgerEnd


class LedgerFactsReader:
    """Reads the facts of ledgers; passwords come from their own metadata."""

    def __init__(self, bookkeeper: BookKeeperReader, at_once: asyncio.Semaphore) -> None:
        """`at_once` limits the peeks under way."""
        self._bookkeeper, self._at_once = bookkeeper, at_once

    async def read(self, ledger_id: int, node: Node | None) -> LedgerFacts | None:
        """The facts of the ledger whose metadata is in `node`; None if it does not exist.

        Raises RecordError if the metadata does not parse, and BookieError if the ledger is open and cannot be peeked
        at, or its end not be decided.
        """
        if node is None:
            return None
        metadata = decode_ledger_metadata(node.data, ledger_path(ledger_id))
        if metadata.state is LedgerState.CLOSED:
            return LedgerFacts(metadata.state, LedgerEnd(metadata.last_entry + 1, metadata.length))
        try:
            async with self._at_once:
                peek = (await self._bookkeeper.peek(ledger_id, metadata.password or b"")).decided()
        except NoSuchLedger:
            return None
        return LedgerFacts(metadata.state, LedgerEnd(peek.last_entry + 1, peek.length))
