"""The publish time of an entry, and the search for a position by time (C7)."""

from collections.abc import Awaitable, Callable

from mledger.cursors.positions import find_newest
from mledger.ledgers.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.messages.pulsar_message import decode_entry
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position


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


async def find_by_time(
    ledgers: LedgerList,
    read_entry: Callable[[Position], Awaitable[Entry]],
    time_ms: int,
    entry_time: Callable[[bytes], int],
) -> Position | None:
    """The newest entry published before `time_ms` (ms since 1970); None if the first one was not.

    A binary search over all entries; it assumes that publish times rise.
    """
    search = find_newest(ledgers, ledgers.first_position)
    try:
        position = next(search)
        while True:
            entry = await read_entry(position)
            position = search.send(entry_time(entry.payload) < time_ms)
    except StopIteration as stop:
        found: Position | None = stop.value
        return found
