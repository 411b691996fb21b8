"""Attributes of a cursor that come from its state, its reads and its persistence."""

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.backlog import backlog, count_from
from mledger.cursors.host import CursorHost
from mledger.cursors.persistence.cursor_persistence import CursorPersistence, MemoryPersistence
from mledger.cursors.persistence.store import CursorState
from mledger.cursors.reads import CursorReads
from mledger.metastore.records.position import Position, PositionRange


class CursorAttributes:
    """The public properties of a cursor."""

    _host: CursorHost
    _acks: AckState
    _reads: CursorReads
    _persistence: CursorPersistence | MemoryPersistence
    _properties: tuple[tuple[str, int], ...]
    _cursor_properties: tuple[tuple[str, str], ...]

    @property
    def acks(self) -> AckState:
        """The acknowledgement state; callers must not change it."""
        return self._acks

    @property
    def active(self) -> bool:
        """Whether consumers follow the topic by this cursor, so that new entries are cached for it (D6)."""
        return self._reads.active

    @property
    def durable(self) -> bool:
        """Whether it is kept in the metadata store; else it ends with its last user (C9)."""
        return isinstance(self._persistence, CursorPersistence)

    @property
    def path(self) -> str:
        """The path of its record in the metadata store; empty if it is not durable."""
        return self._persistence.path

    @property
    def mark_delete(self) -> Position:
        """The mark-delete position: it and every entry before it are acknowledged."""
        return self._acks.mark_delete

    @property
    def durable_mark_delete(self) -> Position:
        """The durable mark-delete position: the one after a restart."""
        return self._persistence.durable_mark_delete

    @property
    def held_from(self) -> Position:
        """Entries above this position must not be trimmed: the lowest of mark-delete and what may be stored."""
        return min(self.mark_delete, self._persistence.held_from)

    @property
    def read_position(self) -> Position:
        """Where the next read begins."""
        return self._reads.position

    @property
    def holes(self) -> list[PositionRange]:
        """The ranges acknowledged above mark-delete, open below and closed above, in order."""
        return self._acks.ranges()

    @property
    def individually_deleted(self) -> str:
        """The ranges of `holes` as Pulsar prints them."""
        return self._acks.describe_ranges()

    @property
    def backlog(self) -> int:
        """The number of entries that are not acknowledged (C8)."""
        return backlog(self._host.ledger_list, self._acks)

    @property
    def backlog_size(self) -> int:
        """Payload bytes above mark-delete, estimated within a ledger from its average entry."""
        return self._host.ledger_list.size_above(self.mark_delete)

    @property
    def entries_to_read(self) -> int:
        """The number of entries from the read position on that are not acknowledged."""
        return count_from(self._host.ledger_list, self._acks, self.read_position)

    @property
    def properties(self) -> dict[str, int]:
        """Properties of the current position."""
        return dict(self._properties)

    @property
    def cursor_properties(self) -> dict[str, str]:
        """Properties of the cursor itself."""
        return dict(self._cursor_properties)

    @property
    def cursor_ledger(self) -> int:
        """The cursor ledger that its record names, -1 for none."""
        return self._persistence.ledger_id

    @property
    def is_failing(self) -> bool:
        """Whether the last write of its state failed, so acknowledgements wait in memory for a retry (C5)."""
        return self._persistence.is_failing

    @property
    def behind_s(self) -> float:
        """Seconds since the oldest change of its state that is not durable; 0 if all are."""
        return self._persistence.behind_s

    def batch_deleted(self, position: Position) -> tuple[int, ...] | None:
        """Words of the partly acknowledged batch at `position` (1: not yet acknowledged), or None."""
        return self._acks.batch_words(position)

    def is_deleted(self, position: Position) -> bool:
        """Whether the entry is acknowledged."""
        return self._acks.is_deleted(position)

    def _snapshot(self) -> CursorState:
        return CursorState(self._acks.copy(), self._properties, self._cursor_properties)

    def _restore(self, state: CursorState) -> None:
        self._acks = state.acks.copy()
        self._properties, self._cursor_properties = state.properties, state.cursor_properties
