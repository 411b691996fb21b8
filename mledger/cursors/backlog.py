"""How many entries a cursor has not acknowledged, and has left to read: exact, and never negative (C8). No I/O."""

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.positions import LATEST
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position


def count_between(ledgers: LedgerList, lower: Position, upper: Position) -> int:
    """The number of entries above `lower` up to and including `upper`; 0 if `upper` is not above."""
    return max(0, ledgers.count_through(upper) - ledgers.count_through(lower))


def backlog(ledgers: LedgerList, acks: AckState) -> int:
    """Entries above mark-delete that are not individually deleted (C8)."""
    return ledgers.total_entries - ledgers.count_through(acks.mark_delete) - acks.deleted_count


def count_from(ledgers: LedgerList, acks: AckState, read_position: Position) -> int:
    """Entries from `read_position` on that are not individually deleted: what is left to read."""
    before = Position(read_position.ledger_id, read_position.entry_id - 1)
    start = max(before, acks.mark_delete)
    return count_between(ledgers, start, LATEST) - acks.deleted_above(start)
