"""Where a dispatcher begins whose subscription has buckets of delayed messages (D3)."""

from collections.abc import Sequence

from mledger.broker.dispatch.tracked_dispatcher import TrackedDispatcher
from mledger.broker.dispatch.waiting.delayed_bucket import StoredBucket
from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.cursor import Cursor
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position


def restore_delays(
    dispatcher: TrackedDispatcher, cursor: Cursor, ledgers: LedgerList, buckets: Sequence[StoredBucket], now_ms: int
) -> None:
    """Begin with what the buckets say; the cursor reads on behind the last of their ledgers that exists."""
    end = end_of(ledgers, buckets)
    if end is None:
        return
    dispatcher.restore(buckets, unacknowledged(ledgers, cursor.acks, end), now_ms)
    cursor.rewind()
    cursor.read_after(end)


def end_of(ledgers: LedgerList, buckets: Sequence[StoredBucket]) -> Position | None:
    """The last position of the ledgers that buckets cover; None if they cover none that exists."""
    last = max((each.end for each in buckets), default=-1)
    ledger_id = ledgers.previous_id(last + 1)
    return None if ledger_id is None else Position(ledger_id, ledgers.entries(ledger_id) - 1)


def unacknowledged(ledgers: LedgerList, acks: AckState, end: Position) -> PositionSet:
    """All entries up to `end` that are not acknowledged."""
    found = PositionSet()
    for ledger_id in ledgers.between(acks.mark_delete.ledger_id, end.ledger_id):
        for run in acks.live_runs(ledger_id, 0, ledgers.entries(ledger_id) - 1):
            found.add_run(ledger_id, run.first, run.last + 1)
    return found
