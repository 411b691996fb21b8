"""Compaction's cursor: its last state names the ledger that holds the compacted topic; no I/O.

The cursor's record names one too, the one that was current when the record was written: once the cursor has a cursor
ledger, each compaction writes the next state there and deletes the ledger before.
"""

from mledger.cursors.ledger_state import CursorLedgerFinding, CursorLedgerUnavailable, StateFound
from mledger.errors import CursorRecoveryFailed
from mledger.ledgers.references import COMPACTED_LEDGER
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo

COMPACTION = "__compaction"
"""The cursor of compaction."""


def is_compaction(path: str) -> bool:
    """Whether the cursor whose record is at `path` is compaction's."""
    return path.endswith(f"/{COMPACTION}")


def compacted_ledger(record: ManagedCursorInfo, finding: CursorLedgerFinding | None) -> int | None:
    """The ledger of the compacted topic, None where there is none yet.

    `record` is that of compaction's cursor, `finding` what its cursor ledger holds, None where it has none. What a
    lost cursor ledger held falls back to the record (R4). Raises CursorRecoveryFailed where it cannot be read now (R5).
    """
    if isinstance(finding, CursorLedgerUnavailable):
        raise CursorRecoveryFailed(
            f"the cursor {COMPACTION}: {finding.describe()}; try again when the bookies are back"
        )
    properties = finding.state.properties if isinstance(finding, StateFound) else record.properties
    return dict(properties).get(COMPACTED_LEDGER)


def names_in_state(record: ManagedCursorInfo) -> bool:
    """Whether the last state in the cursor ledger, not the record, names the compacted topic's ledger."""
    return record.cursors_ledger_id != NO_CURSOR_LEDGER
