"""What of a cursor's backlog has expired, decided over plain values; no I/O.

A ledger that was closed before the limit has only older entries, so whole ledgers expire without a
read. Within a ledger the publish times of its entries decide.
"""

from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position


def plan_ledger_expiry(ledgers: LedgerList, mark_delete: Position, before_ms: int) -> Position:
    """The end of the last ledger above `mark_delete` that was closed before `before_ms`, else `mark_delete`."""
    reached = mark_delete
    for info in ledgers.infos:
        if info.ledger_id == ledgers.current or not 0 < info.timestamp < before_ms:
            break
        reached = max(reached, Position(info.ledger_id, info.entries - 1))
    return reached


def plan_position_expiry(ledgers: LedgerList, mark_delete: Position, position: Position) -> Position:
    """The mark-delete position after everything up to `position` expired; past the end nothing does."""
    if position > ledgers.last_confirmed:
        return mark_delete
    return max(mark_delete, position)
