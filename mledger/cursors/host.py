"""What a cursor asks of the topic that it belongs to."""

import asyncio
from typing import Protocol

from mledger.config import ManagedLedgerConfig
from mledger.events import Event
from mledger.ledgers.entry import Entry
from mledger.ledgers.entry_reader import EntryReader
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
        """Its ledgers as of now; another object after each change of the list."""

    @property
    def ledgers_to_start_in(self) -> LedgerList:
        """Its ledgers without those that are being taken off the list: where a new cursor may begin."""

    @property
    def reader(self) -> EntryReader:
        """Reads its entries."""

    @property
    def terminated(self) -> Position | None:
        """Where it was terminated, None if it was not."""

    @property
    def trim_lock(self) -> asyncio.Lock:
        """Held while ledgers are taken off the list."""

    def emit(self, event: Event) -> None:
        """Tell of what happened."""

    def next_arrival(self) -> "asyncio.Future[None]":
        """Done when there may be something new to read: entries, a moved cursor, the end of the topic.

        Who waits no longer cancels it.
        """

    def wake_readers(self) -> None:
        """Have every parked read look again."""

    def mark_delete_moved(self, old: Position, new: Position) -> None:
        """A cursor's durable mark-delete moved: ledgers may be free to go."""

    async def read_entry(self, position: Position) -> Entry:
        """One entry."""
