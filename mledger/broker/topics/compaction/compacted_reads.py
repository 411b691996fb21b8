"""How a subscription whose consumer wants the compacted view reads it: up to its horizon, then the topic."""

from collections.abc import Callable, Sequence

from mledger.broker.topics.compaction.compacted_view import CompactedView, runs_of
from mledger.broker.topics.subscriptions.read_ahead import ReadAhead
from mledger.broker.topics.subscriptions.read_ahead_memory import ReadAheadMemory
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor import Cursor
from mledger.cursors.positions import EARLIEST, next_valid
from mledger.ledgers.entries.entry import PayloadRun
from mledger.metastore.records.position import Position
from mledger.topics.managed_ledger import ManagedLedger


def plan_start(cursor: str, read_position: Position, first: Position, asked: Position | None) -> Position:
    """Where a cursor of that name that reads from `read_position` on begins to read the view.

    At the topic's first entry `first` it begins where it was `asked` to, if that is before: what
    compaction kept may be older than what the topic still has. Compaction's own cursor does so
    wherever it is: its mark-delete says how far compaction came, and what was kept so far goes into
    what is kept next.
    """
    if asked is None or (read_position > first and cursor != COMPACTION):
        return read_position
    return min(asked, read_position)


class ViewStart:
    """Where the consumers of one subscription begin to read the view."""

    def __init__(self, cursor: Cursor, managed_ledger: ManagedLedger) -> None:
        self._cursor = cursor
        self._managed_ledger = managed_ledger
        self._asked: Position | None = None
        self._asked_at = cursor.mark_delete
        self._unconsumed: Position | None = None  # of one that is not durable: what it has to acknowledge
        self._consumed = False

    def ask(self, position: Position | None) -> None:
        """A client wants to begin at `position`, which the topic may have no more; None: where the cursor is.

        Compaction always begins before all.
        """
        if self._cursor.name != COMPACTION:
            self._asked, self._asked_at = position, self._cursor.mark_delete
            self._unconsumed, self._consumed = None if self._cursor.durable else self._first(), False

    def acknowledged(self, before: Position) -> None:
        """A client has acknowledged something; the mark-delete position was `before`.

        Who has acknowledged what the topic still had has consumed the view, too. A cursor that is not durable is also
        moved by a trim, and has consumed nothing by that (C9).
        """
        if self._unconsumed is not None and before < self._cursor.mark_delete >= self._unconsumed:
            self._unconsumed, self._consumed = None, True

    def plan(self, *, from_earliest: bool) -> Position:
        """Where they begin now; `from_earliest` if a new subscription begins at the first message."""
        cursor = self._cursor
        asked = EARLIEST if from_earliest and not self._consumed else None
        consumed = cursor.mark_delete != self._asked_at if cursor.durable else self._consumed
        if self._asked is not None and not consumed:
            asked = self._asked
        return plan_start(cursor.name, cursor.read_position, self._first(), asked)

    def _first(self) -> Position:
        """The topic's first entry, as of the cursor."""
        return next_valid(self._managed_ledger.ledgers_to_start_in, EARLIEST)


class CompactedReads(ReadAhead):
    """The normal reads of one cursor, in the compacted view from where `start` says.

    The cursor stands still meanwhile: it may be unable to go where the topic has no entry any more.
    """

    def __init__(
        self, cursor: Cursor, view: CompactedView, start: Callable[[], Position], memory: ReadAheadMemory | None = None
    ) -> None:
        super().__init__(cursor, memory)
        self._view = view
        self._start = start
        self._at: Position | None = start()  # behind what is held; None once the cursor reads the topic

    @property
    def position(self) -> Position:
        """Where the next read begins."""
        return super().position if self._held or self._at is None else self._at

    def rewind(self) -> None:
        """Read again from the first entry that is not acknowledged, which the view may have."""
        super().rewind()
        self._at = self._start()

    def read_now(self, entries: int, max_bytes: int) -> Sequence[PayloadRun]:
        """As of ReadAhead; of the view, what is held."""
        if self._at is None:
            return super().read_now(entries, max_bytes)
        self._taken = self._take(entries, max_bytes)
        return self._taken

    async def read(self, entries: int, max_bytes: int) -> Sequence[PayloadRun]:
        """As of ReadAhead; errors also as of `CompactedView.latest` and `CompactedLedger.read`."""
        while (at := self._at) is not None and not self._held:
            if self._cursor.name == COMPACTION:
                await self._view.begin_anew()  # if what was compacted is gone
            compacted = await self._view.latest()
            runs = [] if compacted is None or at > compacted.horizon else await compacted.read(at, entries, max_bytes)
            if at is not self._at:  # rewound meanwhile
                return ()
            if runs:
                last = runs[-1]
                self._at = Position(last.ledger_id, last.first_entry + len(last.payloads))
                self._hold([part for run in runs for part in self._unacknowledged(run)])
            else:
                self._at = None
                if compacted is not None:
                    self._cursor.read_after(compacted.horizon)
                elif at != EARLIEST and self._cursor.name != COMPACTION:  # the view is gone since it was read
                    self._cursor.read_after(Position(at.ledger_id, at.entry_id - 1))
        if self._at is None and not self._held:
            return await super().read(entries, max_bytes)
        self._taken = self._take(entries, max_bytes)
        return self._taken

    def _unacknowledged(self, run: PayloadRun) -> list[PayloadRun]:
        """As of ReadAhead; of the view, what is older than the cursor was never the cursor's, and stays."""
        if self._at is None:
            return super()._unacknowledged(run)
        cursor, left = self._cursor, []
        for entry_id, payload in enumerate(run.payloads, run.first_entry):
            position = Position(run.ledger_id, entry_id)
            if position <= cursor.mark_delete or not cursor.is_deleted(position):
                left.append((position, payload))
        return [run] if len(left) == len(run.payloads) else runs_of(left)
