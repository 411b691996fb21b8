"""Compaction's cursor: its last state names the ledger of the compacted topic; no I/O.

The cursor's record names a compacted ledger too, but an outdated one: once the cursor has a cursor
ledger, each compaction writes its state there and deletes the previous compacted ledger.

Topics of Pulsar's own whose content is the last message of each key have no other durable cursor: without this one,
all that they store would count as consumed (R10). Pulsar creates it with such a topic.
"""

from collections.abc import Container

from mledger.cursors.persistence.ledger_state import CursorLedgerFinding, CursorLedgerUnavailable, StateFound
from mledger.errors import CursorRecoveryFailed, InvalidPosition
from mledger.ledgers.orphans.pending_records import compacted_ledgers
from mledger.metastore.records.paths import TopicName, split_partition
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo

COMPACTION = "__compaction"
"""The cursor of compaction."""
CHANGE_EVENTS = "__change_events"
"""The topic with the policies of a namespace's topics."""
COMPACTED_SYSTEM_TOPICS = frozenset(
    (
        CHANGE_EVENTS,
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
    )
)
"""The topics in which Pulsar keeps something of its own under keys, so that only compaction makes ledgers unneeded."""


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
        raise CursorRecoveryFailed(f"cursor {COMPACTION}: {finding.describe()}; try again when it can be read")
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


def is_always_compacted(topic: TopicName) -> bool:
    """Whether a broker compacts the topic, or this partition of one, without being told to."""
    return split_partition(topic.local_name)[0] in COMPACTED_SYSTEM_TOPICS


def why_never_trimmed(topic: TopicName, cursors: Container[str]) -> str:
    """Why nobody may trim a topic that has these durable cursors; empty if it may be trimmed."""
    if not is_always_compacted(topic) or COMPACTION in cursors:
        return ""
    name = split_partition(topic.local_name)[0]
    return f"{name} is Pulsar's own and is not trimmed before it is compacted: it has no cursor {COMPACTION}"
