"""Compaction's cursor: its last state names the ledger of the compacted topic; no I/O.

The cursor's record names a compacted ledger too, but an outdated one: once the cursor has a cursor
ledger, each compaction writes its state there and deletes the previous compacted ledger.
"""

from mledger.cursors.persistence.ledger_state import CursorLedgerFinding, CursorLedgerUnavailable, StateFound
from mledger.errors import CursorRecoveryFailed, InvalidPosition
from mledger.ledgers.pending_records import compacted_ledgers
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo

COMPACTION = "__compaction"
"""The cursor of compaction."""


def is_compaction(path: str) -> bool:
    """Whether the record at `path` is that of compaction's cursor."""
    return path.endswith(f"/{COMPACTION}")


def compacted_ledger(record: ManagedCursorInfo, finding: CursorLedgerFinding | None) -> int | None:
    """The ledger of the compacted topic; None if there is none yet.

    `record` is the record of compaction's cursor, `finding` the content of its cursor ledger, or
    None if it has none. If the cursor ledger is lost, the record counts (R4). Raises
    CursorRecoveryFailed if it cannot be read now (R5).
    """
    if isinstance(finding, CursorLedgerUnavailable):
        raise CursorRecoveryFailed(f"cursor {COMPACTION}: {finding.describe()}; try again when the bookies are back")
    properties = finding.state.properties if isinstance(finding, StateFound) else record.properties
    return next(iter(compacted_ledgers(properties)), None)


def names_in_state(record: ManagedCursorInfo) -> bool:
    """Whether the last state in the cursor ledger, not the record, names the compacted topic's ledger."""
    return record.cursors_ledger_id != NO_CURSOR_LEDGER


def check_not_advanced(before: Position, after: Position) -> None:
    """Raise InvalidPosition if a command moves the mark-delete of compaction's cursor forward (C7)."""
    if after > before:
        raise InvalidPosition(
            f"the mark-delete of {COMPACTION}, {before}, says how far the topic is compacted: at {after} it would "
            "cover entries that are not compacted, and readers of the compacted topic would miss them; run "
            "`pulsar-admin topics compact` to advance it"
        )
