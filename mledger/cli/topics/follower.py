"""A topic's entries as they come, over rollovers and over what is away for a while; it only looks (M9, Q3)."""

import asyncio
from collections.abc import AsyncIterator, Callable

from mledger.admin.inspect import Inspector, SeenEntry
from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.cli.shared.errors import UNAVAILABLE, exit_code, one_line
from mledger.cli.shared.messages import messages
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo

LOOK_AGAIN_S = 0.5


class Follower:
    """Looks at a topic again and again, each time from behind what it has shown: every entry once, in order."""

    def __init__(self, inspector: Inspector, name: str, on_skipped: Callable[[LedgerInfo], None]) -> None:
        self._inspector = inspector
        self._name = name
        self._on_skipped = on_skipped
        self._skipped: set[int] = set()
        self._away = False

    async def end(self) -> Position:
        """Behind the last entry that can be seen now. TopicNotFound, and what keeps the end from being seen."""
        return after((await self._inspector.topic(self._name)).last_confirmed)

    async def follow(self, first: Position) -> AsyncIterator[list[SeenEntry]]:
        """Entries from `first` on, in lists; an empty one ends each look, until nobody asks for more.

        While bookies or the metadata store are away it says so once and goes on. TopicNotFound when the topic is gone.
        """
        next_position = first
        while True:
            try:
                async for batch in self._inspector.read(self._name, next_position, on_skipped=self._skip):
                    if batch:
                        next_position = after(batch[-1].position)
                        yield batch
                self._say_back()
            except MledgerError as error:
                if not passes(error):
                    raise
                self._say_away(error)
            yield []
            await asyncio.sleep(LOOK_AGAIN_S)

    def _skip(self, ledger: LedgerInfo) -> None:
        if ledger.ledger_id not in self._skipped:
            self._skipped.add(ledger.ledger_id)
            self._on_skipped(ledger)

    def _say_away(self, error: MledgerError) -> None:
        if not self._away:
            messages.warning(f"{one_line(error)}; it is looked for again until it is there")
        self._away = True

    def _say_back(self) -> None:
        if self._away:
            messages.warning(f"{self._name} can be read again")
        self._away = False


def after(position: Position) -> Position:
    """Where the entry behind `position` is, in the same ledger or at the start of a later one."""
    return Position(position.ledger_id, position.entry_id + 1)


def passes(error: MledgerError) -> bool:
    """Whether what `error` tells of may be over the next time: something is away, or a ledger was just trimmed."""
    return exit_code(error) == UNAVAILABLE or isinstance(error, NoSuchLedger | NoSuchEntry)
