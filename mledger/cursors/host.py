"""The interface of a topic that its cursors use."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from mledger.config import ManagedLedgerConfig
from mledger.events import Event
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.entries.entry_reader import EntryReader
from mledger.ledgers.entries.position_reads import PositionsFound
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position


class CursorHost(Protocol):
    """The managed ledger, as its cursors see it."""

    @property
    def name(self) -> str:
        """The managed ledger's name."""

    @property
    def config(self) -> ManagedLedgerConfig:
        """Its settings."""

    @property
    def ledger_list(self) -> LedgerList:
        """Its current list of ledgers; a new object after each change of the list."""

    @property
    def ledgers_to_start_in(self) -> LedgerList:
        """Its ledgers without those that a trim is removing: where a cursor may start, a new one or by a reset."""

    @property
    def reader(self) -> EntryReader:
        """Reads its entries."""

    @property
    def terminated(self) -> Position | None:
        """The position of its termination, or None."""

    @property
    def trim_lock(self) -> asyncio.Lock:
        """Held while ledgers are removed from the list."""

    def emit(self, event: Event) -> None:
        """Pass an event to the listener."""

    def next_arrival(self) -> "asyncio.Future[None]":
        """A future that is done when there may be something new to read.

        That is an entry, a moved cursor, or the end of the topic. A caller that stops waiting
        cancels it.
        """

    def wake_readers(self) -> None:
        """Make every waiting read check again."""

    def mark_delete_moved(self, old: Position, new: Position) -> None:
        """Note that a cursor's durable mark-delete moved, so a trim may be due."""

    async def read_positions(self, positions: Iterable[Position]) -> PositionsFound:
        """The entries at `positions`, and those positions that have none."""

    async def read_entry(self, position: Position) -> Entry:
        """The entry at `position`."""
