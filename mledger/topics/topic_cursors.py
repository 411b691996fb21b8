"""The cursors of an open topic."""

from collections.abc import Mapping, Sequence

from mledger.cursors.compaction import COMPACTION
from mledger.cursors.container import CursorContainer
from mledger.cursors.creations import NewCursor
from mledger.cursors.cursor import Cursor
from mledger.cursors.non_durable_cursors import NonDurableCursor, NonDurableCursors
from mledger.cursors.recovery import Start
from mledger.errors import CursorExists, CursorNotFound
from mledger.ledgers.orphans.pending_records import compacted_ledgers
from mledger.metastore.records.position import Position
from mledger.topics.backlog_quota import BacklogQuotas
from mledger.topics.topic_reads import TopicReads
from mledger.topics.trimmer import Trimmer


class TopicCursors(TopicReads):
    """The part of a topic that opens, lists and deletes cursors."""

    _cursors: CursorContainer
    _non_durable: NonDurableCursors
    _trimmer: Trimmer

    @property
    def cursors(self) -> list[str]:
        """Names of its cursors, sorted; includes those that are listed but not yet recovered."""
        return self._cursors.names

    def has_cursor(self, name: str) -> bool:
        """Whether it has the durable cursor `name`, recovered or not, or is creating it."""
        return self._cursors.has(name)

    @property
    def open_cursors(self) -> Mapping[str, Cursor]:
        """Its recovered cursors."""
        return self._cursors.open

    @property
    def new_cursors(self) -> Mapping[str, Position]:
        """Positions of cursors whose creation is under way or of unknown outcome, by name."""
        return self._cursors.new_positions

    @property
    def non_durable_cursors(self) -> Mapping[str, NonDurableCursor]:
        """Its open cursors that are in memory only (C9)."""
        return self._non_durable.open

    async def open_cursor(
        self,
        name: str,
        *,
        initial: Start = "earliest",
        cursor_properties: Mapping[str, str] | None = None,
        position_properties: Mapping[str, int] | None = None,
        create: bool = True,
        exclusive: bool = False,
        durable: bool = True,
    ) -> Cursor:
        """Open the cursor `name` to read from after its mark-delete, or create it at `initial` (R1).

        `initial` is "earliest", "latest" or the mark-delete position. Waits only for this cursor's
        recovery. `cursor_properties`, and `position_properties` of its first position, apply to a new
        cursor only: its first record has them. A cursor that is not `durable` is in memory only, keeps
        no ledger from being trimmed, and is shared by name: the `close` of its last user ends it (C9).
        It has no properties. Past the last entry it begins at the latest.

        Raises:
            CursorRecoveryFailed: its state cannot be read now; try again (R5).
            CursorNotFound: it does not exist, and `create` is false.
            CursorExists: it exists, and `exclusive` is true; or a cursor that is durable has the
                name of one that is not.
        """
        self._check_open()
        open_in_memory = self._non_durable.open
        if not durable:
            if name not in open_in_memory and not create:
                raise CursorNotFound(f"{self.name} has no cursor {name} in memory")
            if name in open_in_memory and exclusive:
                raise CursorExists(f"{self.name} has a cursor {name} already")
            return self._non_durable.open_cursor(name, initial)
        if name in open_in_memory:
            raise CursorExists(f"{self.name} has a cursor {name} that is not durable: choose another name")
        new = NewCursor(initial, cursor_properties, position_properties)
        return await self._cursors.open_cursor(name, new, create=create, exclusive=exclusive)

    async def delete_cursor(self, name: str, *, attached: Sequence[int] = ()) -> None:
        """Delete the cursor, its record and its ledger.

        The same write records `attached`, other ledgers that the cursor names (`attached_ledgers`),
        for deletion. The caller must pass them: a consumer of this owner may still use them.

        Raises:
            CursorNotFound: there is no such cursor.
        """
        self._check_open()
        await self._cursors.delete_cursor(name, attached)
        self._trimmer.trim_later()

    def duplicate_cursor(self, cursor: Cursor, name: str) -> NonDurableCursor:
        """A new cursor in memory with the acknowledgements of `cursor`, to read its backlog once more (C9).

        Raises:
            CursorExists: a cursor has the name `name`.
        """
        self._check_open()
        return self._non_durable.duplicate(cursor, name)

    async def usable_cursor(self, name: str) -> Cursor:
        """The durable cursor where it stands: unlike `open_cursor`, this does not set its read position back.

        One that is not recovered, or was closed, is recovered. Raises CursorRecoveryFailed (R5), CursorNotFound, and
        ManagedLedgerClosed if the topic closes.
        """
        return await self._cursors.usable(name)

    @property
    def backlog_quotas(self) -> BacklogQuotas:
        """Checks the topic's backlog against quotas, and evicts what exceeds them."""
        return BacklogQuotas(self)

    def ledgers_dropped(self) -> None:
        """Move cursors off the ledgers that were removed: those in memory, and those reset during a truncation."""
        for cursor in (*self._cursors.open.values(), *self._non_durable.open.values()):
            cursor.pass_trimmed()

    def _named_compacted_ledgers(self) -> Sequence[int] | None:
        """The compacted ledger that compaction's cursor names; None while its state is not known."""
        cursor = self._cursors.open.get(COMPACTION)
        if cursor is None:
            return None if self._cursors.has(COMPACTION) else ()
        return compacted_ledgers(cursor.properties.items())

    def _check_open(self) -> None:
        self._record.check()
        if self._stopped is not None:
            raise self._stopped
