"""The search for a message by its number, which brokers with AppendIndexMetadataInterceptor put before entries."""

from collections.abc import Callable

from mledger.cursors.entry_time import ReadEntry, find_by_time
from mledger.cursors.positions import next_valid
from mledger.ledgers.ledger_list import LedgerList
from mledger.messages.pulsar_message import broker_metadata_of
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position


def index_of(payload: bytes) -> int:
    """The number of an entry's last message. RecordError if it has none."""
    broker = broker_metadata_of(payload)
    if broker is None or not broker.HasField("index"):
        raise RecordError("the entry has no number: it was published without AppendIndexMetadataInterceptor")
    return broker.index


async def find_by_index(ledgers: Callable[[], LedgerList], read_entry: ReadEntry, index: int) -> Position:
    """The entry with the message of that number; where the next entry will be if none has it yet.

    A binary search over all entries: numbers rise. `ledgers` gives the current list.

    Raises:
        RecordError: no entry that was read has a number.
    """
    before = await find_by_time(ledgers, read_entry, index, index_of)
    return next_valid(ledgers(), ledgers().first_position if before is None else before)
