"""The publish time of an entry, and the search for the newest entry that matches, or by time (C7)."""

from collections.abc import Awaitable, Callable

from mledger.cursors.positions import find_newest, next_valid
from mledger.errors import InvalidPosition
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.messages.pulsar_message import decode_entry
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position

LOOKED_AT = 100
"""How many entries in a row without a time are passed over to find one that has one."""
ReadEntry = Callable[[Position], Awaitable[Entry]]


def publish_time(payload: bytes) -> int:
    """The publish time of a Pulsar entry, in ms since 1970: the broker's if it has one, else the producer's.

    Raises RecordError for a payload that is not an entry of a Pulsar broker.
    """
    try:
        return decode_entry(payload).published
    except RecordError as error:
        raise RecordError(
            "the entry was not written by a Pulsar broker and has no publish time: pass a function that gives it"
        ) from error


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

    async def look(position: Position) -> bool:
        return matches(await read_entry(position))

    return await _search(ledgers, look, lower, upper)


async def _search(
    ledgers: Callable[[], LedgerList],
    look: Callable[[Position], Awaitable[bool]],
    lower: Position,
    upper: Position | None = None,
) -> Position | None:
    """As `find_newest_matching`; `look` reads whether the entry at a position matches."""
    search = find_newest(ledgers(), lower, upper)
    try:
        position = next(search)
        while True:
            try:
                matching = await look(position)
            except InvalidPosition:
                if ledgers().exists(position) or position > ledgers().first_position:
                    raise
                matching = True
            position = search.send(matching)
    except StopIteration as stop:
        found: Position | None = stop.value
        return found


async def find_by_time(
    ledgers: Callable[[], LedgerList],
    read_entry: ReadEntry,
    time_ms: int,
    entry_time: Callable[[bytes], int],
    lower: Position | None = None,
) -> Position | None:
    """The newest entry above `lower` published before `time_ms` (ms since 1970); None if the first was not.

    A binary search over all entries, without `lower` from the first one; it assumes that publish
    times rise. `ledgers` gives the current list. An entry without a time, which any client can have
    published, counts as published with the next one that has a time, if there is one soon.

    Raises:
        RecordError: no entry that was read has a time.
    """
    undated: list[RecordError] = []
    dated = False

    async def look(position: Position) -> bool:
        nonlocal dated
        for _ in range(LOOKED_AT):
            try:
                before = entry_time((await read_entry(position)).payload) < time_ms
            except RecordError as error:
                undated.append(error)
                position = next_valid(ledgers(), position)
                if not ledgers().exists(position):
                    return False
            else:
                dated = True
                return before
        return False

    found = await _search(ledgers, look, ledgers().first_position if lower is None else lower)
    if undated and not dated:
        raise undated[0]
    return found
