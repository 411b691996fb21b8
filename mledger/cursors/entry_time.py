"""The publish time of an entry, and the search for the newest entry that matches, or by time (C7)."""

from collections.abc import Awaitable, Callable

from mledger.cursors.positions import find_newest
from mledger.errors import InvalidPosition
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.messages.pulsar_message import decode_entry
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position

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


async def find_by_time(
    ledgers: Callable[[], LedgerList],
    read_entry: ReadEntry,
    time_ms: int,
    entry_time: Callable[[bytes], int],
    lower: Position | None = None,
) -> Position | None:
    """The newest entry above `lower` published before `time_ms` (ms since 1970); None if the first was not.

    A binary search over all entries, without `lower` from the first one; it assumes that publish
    times rise. `ledgers` gives the current list.
    """
    below = ledgers().first_position if lower is None else lower
    return await find_newest_matching(ledgers, read_entry, lambda entry: entry_time(entry.payload) < time_ms, below)
