"""The search for the newest entry that matches, by bisection over a topic's ledgers (C7)."""

from collections.abc import Awaitable, Callable

from mledger.cursors.positions import find_newest
from mledger.errors import InvalidPosition
from mledger.ledgers.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position

ReadEntry = Callable[[Position], Awaitable[Entry]]


async def find_newest_matching(
    ledgers: Callable[[], LedgerList],
    read_entry: ReadEntry,
    matches: Callable[[Entry], bool],
    lower: Position,
    upper: Position | None = None,
) -> Position | None:
    """The newest entry above `lower`, up to `upper` or the end, that matches; None if the first does not.

    Entries that match must precede all others. An entry that is trimmed during the search counts as
    a match, since all that are left are newer. `ledgers` gives the current list.
    """
    search = find_newest(ledgers(), lower, upper)
    try:
        position = next(search)
        while True:
            try:
                matching = matches(await read_entry(position))
            except InvalidPosition:
                if ledgers().exists(position) or position > ledgers().first_position:
                    raise
                matching = True
            position = search.send(matching)
    except StopIteration as stop:
        found: Position | None = stop.value
        return found
