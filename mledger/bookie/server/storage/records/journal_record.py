"""A journal record while it is being gathered. No I/O."""

import asyncio
from typing import Protocol

from msgspec import Struct, field

from mledger.bookie.server.storage.journal import FRAMES, MOVED, JournalPosition
from mledger.bookie.server.storage.ledgers import LedgerDescriptor
from mledger.bookie.server.storage.reads import Parts
from mledger.bookie.server.storage.records.journal_changes import (
    MOVED_ROW_BYTES,
    ROW_BYTES,
    ChangeKind,
    JournalChange,
    encode_changes,
)
from mledger.bookie.server.storage.rows.ledger_data import MOST_BYTES, LedgerData


class Client(Protocol):
    """A connection that gets answers."""

    @property
    def unsent(self) -> int:
        """Bytes of answers that it has not taken yet."""

    def send(self, parts: Parts) -> None:
        """Write responses; do nothing if the connection has ended."""

    def take(self) -> None:
        """Take the requests that waited for the turn."""


class JournalTurn(Struct, eq=False):
    """The changes of one journal record, the answers to send after its sync, and the rows for the index.

    `states` are the ledgers of its accepted runs, each once; `changed` are those whose records it changes.
    """

    kind: int = FRAMES
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    answers: dict[Client, Parts] = field(default_factory=dict)
    owed: dict[Client, int] = field(default_factory=dict)
    changes: list[JournalChange] = field(default_factory=list)
    states: list[LedgerDescriptor] = field(default_factory=list)
    changed: dict[int, LedgerDescriptor] = field(default_factory=dict)
    done: "asyncio.Future[None] | None" = None
    sequence: int = 0
    synced: bool = False
    begun: float = 0.0
    flown_at: float = 0.0
    adds: int = 0
    add_bytes: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.changes and not self.changed

    @property
    def most_size(self) -> int:
        """The most bytes that `size` can be once the turn is closed: the changed records are not in it before."""
        row = MOVED_ROW_BYTES if self.kind == MOVED else ROW_BYTES
        return self.size + (len(self.changes) + len(self.changed)) * row + len(self.changed) * MOST_BYTES

    def answer(self, client: Client, parts: Parts) -> None:
        """Send `parts` to `client` after the sync."""
        self.owed[client] = self.owed.get(client, 0) + sum(map(len, parts))
        waiting = self.answers.get(client)
        if waiting is None:
            self.answers[client] = parts
        else:
            waiting += parts

    def release(self) -> None:
        """Drop what has been entered and answered: ledgers keep a reference to the last turn that changed them."""
        self.changes, self.chunks, self.states = [], [], []
        self.changed, self.answers, self.owed = {}, {}, {}

    def keep(
        self,
        kind: ChangeKind,
        ledger: int,
        first: int,
        last: int,
        chunk: bytes,
        *,
        record: LedgerData | None = None,
        source: JournalPosition | None = None,
    ) -> None:
        """Add the bytes of a change to the record."""
        self.changes.append(JournalChange(kind, ledger, first, last, self.size, len(chunk), record, source))
        self.chunks.append(chunk)
        self.size += len(chunk)

    def seal(self) -> None:
        """Close the turn to more changes, and fix the ledgers' records and the list of changes."""
        for ledger, state in self.changed.items():
            if state.record is not None:
                self.keep(ChangeKind.LEDGER, ledger, 0, 0, state.record.encode(), record=state.record)
        self.chunks.append(encode_changes(self.changes, moved=self.kind == MOVED))
        self.size += len(self.chunks[-1])
