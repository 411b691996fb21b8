"""Follows a topic's entries across rollovers and temporary unavailability; read-only (M9, Q3)."""

import asyncio
from collections.abc import AsyncIterator, Callable

from mledger.admin.inspect import Inspector, SeenEntry
from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.cli.shared.errors import UNAVAILABLE, exit_code, one_line
from mledger.cli.shared.messages import messages
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo

POLL_S = 0.5


class Follower:
    """Polls a topic, each time from after the last entry shown: every entry once, in order."""

    def __init__(self, inspector: Inspector, name: str, on_skipped: Callable[[LedgerInfo], None]) -> None:
        self._inspector = inspector
        self._name = name
        self._on_skipped = on_skipped
        self._skipped: set[int] = set()
        self._away = False

    async def end(self) -> Position:
        """The position after the last visible entry. Raises TopicNotFound, and errors of reading the end."""
        return after((await self._inspector.topic(self._name)).last_confirmed)

    async def follow(self, first: Position) -> AsyncIterator[list[SeenEntry]]:
        """Entries from `first` on, in lists, without an end; an empty list ends each poll.

        Warns once while bookies or the metadata store are unavailable, and continues. Raises
        TopicNotFound when the topic is gone.
        """
        next_position = first
        while True:
            try:
                async for batch in self._inspector.read(self._name, next_position, on_skipped=self._skip):
                    if batch:
                        next_position = after(batch[-1].position)
                        yield batch
                self._report_back()
            except MledgerError as error:
                if not is_temporary(error):
                    raise
                self._report_away(error)
            yield []
            await asyncio.sleep(POLL_S)

    def _skip(self, ledger: LedgerInfo) -> None:
        if ledger.ledger_id not in self._skipped:
            self._skipped.add(ledger.ledger_id)
            self._on_skipped(ledger)

    def _report_away(self, error: MledgerError) -> None:
        if not self._away:
            messages.warning(f"{one_line(error)}; retrying")
        self._away = True

    def _report_back(self) -> None:
        if self._away:
            messages.warning(f"{self._name} can be read again")
        self._away = False


def after(position: Position) -> Position:
    """The position after `position`; its entry may be in a later ledger."""
    return Position(position.ledger_id, position.entry_id + 1)


def is_temporary(error: MledgerError) -> bool:
    """Whether a retry may succeed: something is unavailable, or a ledger was just trimmed."""
    return exit_code(error) == UNAVAILABLE or isinstance(error, NoSuchLedger | NoSuchEntry)
