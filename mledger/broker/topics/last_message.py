"""Finds the last message that a topic has for consumers: what clients compare with where they are.

Markers of brokers and entries that are no messages go to no consumer. A reader that was told of one
would wait for it for good.
"""

from mledger.broker.topics.compaction.compacted_view import CompactedLedger
from mledger.cursors.positions import previous
from mledger.messages.pulsar_message import decode_entry
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.topics.managed_ledger import ManagedLedger


async def find_last_message(managed_ledger: ManagedLedger, view: CompactedLedger | None) -> tuple[Position, int]:
    """The position of the last message, and its index if it is in a batch, else -1; of the compacted `view`, too.

    The position has entry -1 if there is no message, or none any more.

    Raises:
        MledgerError: an entry cannot be read.
    """
    at = last = managed_ledger.last_confirmed
    if not managed_ledger.ledger_list.exists(at):  # a topic may have been terminated in a ledger without entries
        at = previous(managed_ledger.ledger_list, at)
    while managed_ledger.ledger_list.exists(at):
        if view is not None and at <= view.horizon:
            break
        try:
            entry = decode_entry((await managed_ledger.read_entry(at)).payload, str(at))
        except RecordError:
            pass
        else:
            if not entry.marker:
                return at, entry.message_count - 1 if entry.batched else -1
        at = previous(managed_ledger.ledger_list, at)
    return (Position(last.ledger_id, NO_ENTRY), -1) if view is None else await view.last_message()
