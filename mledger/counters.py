"""An owner's counters, per namespace: cheap to update per batch, read when metrics are scraped."""

from dataclasses import dataclass, field

from mledger.events import (
    CursorRecovered,
    CursorRecoveryDelayed,
    CursorStateNotPersisted,
    Event,
    Fenced,
    LedgerRecovered,
    LostEntriesSkipped,
)
from mledger.metastore.runtime.durations import Durations


@dataclass(slots=True)
class NamespaceCounters:
    """Counts since the owner started, over all its topics of one namespace. Bytes are payload bytes."""

    added: int = 0
    added_bytes: int = 0
    add_times: Durations = field(default_factory=Durations)
    batches_failed: int = 0
    adds_timed_out: int = 0
    reads: int = 0
    entries_read: int = 0
    reads_failed: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    states_in_ledgers: int = 0
    states_in_ledgers_failed: int = 0
    states_in_records: int = 0
    states_in_records_failed: int = 0
    states_not_persisted: int = 0
    lost_entries_skipped: int = 0
    open_times: Durations = field(default_factory=Durations)
    opens_failed: int = 0
    ledgers_recovered: int = 0
    cursors_recovered: int = 0
    cursor_recoveries_delayed: int = 0
    fenced: int = 0

    def saw(self, event: Event) -> None:
        """Count an event."""
        match event:
            case LedgerRecovered():
                self.ledgers_recovered += 1
            case CursorRecovered():
                self.cursors_recovered += 1
            case CursorRecoveryDelayed():
                self.cursor_recoveries_delayed += 1
            case CursorStateNotPersisted():
                self.states_not_persisted += 1
            case LostEntriesSkipped():
                self.lost_entries_skipped += event.last.entry_id - event.first.entry_id + 1
            case Fenced():
                self.fenced += 1


class OwnerCounters:
    """The counters of one owner."""

    def __init__(self) -> None:
        self.namespaces: dict[str, NamespaceCounters] = {}

    def of(self, managed_ledger: str) -> NamespaceCounters:
        """The counters of a managed ledger's namespace."""
        namespace = namespace_of(managed_ledger)
        found = self.namespaces.get(namespace)
        if found is None:
            found = self.namespaces[namespace] = NamespaceCounters()
        return found


def namespace_of(managed_ledger: str) -> str:
    """The namespace in a managed ledger's name: tenant/namespace, in the old form tenant/cluster/namespace."""
    return managed_ledger.rsplit("/", 2)[0]
