"""Sums of a cluster's figures, added up a topic at a time: memory for namespaces and the worst cursors only. No I/O."""

from collections import Counter
from dataclasses import dataclass, field

from mledger.bookie.client.connections.bookie_info import BookieInfo
from mledger.exporter.bookie_states import BookieStates
from mledger.exporter.orphan_suspects import OrphanSuspects
from mledger.exporter.replication_marks import ReplicationMarks
from mledger.exporter.topic_figures import STATES, CursorFigures, TopicFigures, Untrimmed
from mledger.exporter.worst_cursors import WorstCursors
from mledger.metastore.store import MAX_REQUEST_BYTES

NEAR = 0.8
"""The share of a limit from which something is near it."""

SIZED = ("topic", "cursor")
"""The kinds of records whose size grows with their state."""


@dataclass(slots=True)
class CursorSums:
    """The cursors of a namespace in one state; the age in ms."""

    cursors: int = 0
    backlog: int = 0
    oldest_ms: int = 0


@dataclass(slots=True)
class NamespaceFigures:
    """The sums of a namespace; `most_holes` of one cursor."""

    topics: int = 0
    ledgers: int = 0
    entries: int = 0
    size: int = 0
    holes: int = 0
    most_holes: int = 0
    near_range_limit: int = 0
    untrimmed_ledgers: int = 0
    untrimmed_size: int = 0
    retention_without_effect: bool = False
    by_state: dict[str, CursorSums] = field(default_factory=lambda: {state: CursorSums() for state in STATES})


@dataclass(slots=True)
class RecordSizes:
    """The records of a kind: bytes of the largest, and how many are near the largest that a store takes."""

    largest: int = 0
    near_limit: int = 0


class ClusterFigures:
    """What one round has found; `worst` is how many cursors are named by each measure."""

    def __init__(self, worst: int, range_limit: int) -> None:
        self.range_limit = range_limit
        self.namespaces: dict[str, NamespaceFigures] = {}
        self.backlogs, self.ages, self.holes = WorstCursors(worst), WorstCursors(worst), WorstCursors(worst)
        self.sizes = {kind: RecordSizes() for kind in SIZED}
        self.unreadable: Counter[str] = Counter()
        """How many records of each kind do not parse, or may not be read."""
        self.bookies = BookieStates()
        self.disks: dict[str, BookieInfo] = {}
        """Of the bookies that were asked, and answered."""
        self.marks = ReplicationMarks()
        self.orphans: OrphanSuspects | None = None
        """None if the ledgers could not be listed."""

    def namespace(self, name: str) -> NamespaceFigures:
        """The sums of the namespace of that name."""
        found = self.namespaces.get(name)
        if found is None:
            found = self.namespaces[name] = NamespaceFigures()
        return found

    def add_record(self, kind: str, size: int) -> None:
        """Count the size of a record."""
        sizes = self.sizes[kind]
        sizes.largest = max(sizes.largest, size)
        sizes.near_limit += size >= NEAR * MAX_REQUEST_BYTES

    def add_topic(self, namespace: str, topic: TopicFigures) -> None:
        """Count a topic."""
        sums = self.namespace(namespace)
        sums.topics += 1
        sums.ledgers += topic.ledgers
        sums.entries += topic.entries
        sums.size += topic.size

    def add_cursor(self, namespace: str, managed_ledger: str, name: str, cursor: CursorFigures) -> None:
        """Count a cursor of the managed ledger."""
        sums = self.namespace(namespace)
        state = sums.by_state[cursor.state]
        state.cursors += 1
        state.backlog += cursor.backlog
        state.oldest_ms = max(state.oldest_ms, cursor.age_ms)
        sums.holes += cursor.holes
        sums.most_holes = max(sums.most_holes, cursor.holes)
        sums.near_range_limit += 0 < NEAR * self.range_limit <= cursor.holes
        self.backlogs.add(cursor.backlog, managed_ledger, name, cursor.state)
        self.ages.add(cursor.age_ms, managed_ledger, name, cursor.state)
        self.holes.add(cursor.holes, managed_ledger, name, cursor.state)

    def add_untrimmed(self, namespace: str, found: Untrimmed) -> None:
        """Count the ledgers of a topic that could have been trimmed."""
        sums = self.namespace(namespace)
        sums.untrimmed_ledgers += found.ledgers
        sums.untrimmed_size += found.size
