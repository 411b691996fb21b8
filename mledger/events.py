"""A topic's events, typed and in the order of rule R11; the CLI and the tests read the same ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from mledger.metastore.records.position import Position


@dataclass(frozen=True, slots=True)
class Event:
    """An event of `topic` (its managed-ledger name); commands show it as `name`."""

    name: ClassVar[str] = "event"
    topic: str

    def describe(self) -> str:
        """The event in one line, without the topic's name."""
        return self.name


EventSink = Callable[[Event], None]


def ignore_events(event: Event) -> None:
    """An EventSink that does nothing."""


@dataclass(frozen=True, slots=True)
class Opening(Event):
    """The topic is being opened as its owner (M3)."""

    name: ClassVar[str] = "opening"

    def describe(self) -> str:
        """The event in one line."""
        return f"Opening managed ledger {self.topic}"


@dataclass(frozen=True, slots=True)
class LedgerRecovered(Event):
    """The last ledger was opened with recovery and its true end written back (M3)."""

    name: ClassVar[str] = "ledger recovered"
    ledger_id: int
    entries: int
    size: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Recovered ledger {self.ledger_id}: entries={self.entries} size={self.size}"


@dataclass(frozen=True, slots=True)
class LedgerMissing(Event):
    """The last ledger does not exist and was dropped from the list (M3)."""

    name: ClassVar[str] = "ledger missing"
    ledger_id: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Ledger {self.ledger_id} does not exist, dropped from the list"


@dataclass(frozen=True, slots=True)
class LedgerCreated(Event):
    """A ledger for writing exists and is in the list."""

    name: ClassVar[str] = "ledger created"
    ledger_id: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Created ledger {self.ledger_id}"


@dataclass(frozen=True, slots=True)
class CurrentLedgerClosed(Event):
    """The current ledger was closed, by rollover, close or termination (M4)."""

    name: ClassVar[str] = "ledger closed"
    ledger_id: int
    entries: int
    size: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Closed ledger {self.ledger_id}: entries={self.entries} size={self.size}"


@dataclass(frozen=True, slots=True)
class LoadingCursor(Event):
    """A cursor's recovery begins."""

    name: ClassVar[str] = "loading cursor"
    cursor: str

    def describe(self) -> str:
        """The event in one line."""
        return f"Loading cursor {self.cursor}"


@dataclass(frozen=True, slots=True)
class RecoveringFromLedger(Event):
    """A cursor's state is read from its cursor ledger (R3)."""

    name: ClassVar[str] = "recovering from ledger"
    cursor: str
    ledger_id: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Recovering cursor {self.cursor} from cursor ledger {self.ledger_id}"


@dataclass(frozen=True, slots=True)
class CursorRecovered(Event):
    """A cursor's state is known again, by the rule `rule`."""

    name: ClassVar[str] = "recovered to position"
    cursor: str
    position: Position
    rule: str
    backlog: int
    warnings: tuple[str, ...] = ()

    def describe(self) -> str:
        """The event in one line."""
        line = f"Cursor {self.cursor} recovered to position {self.position} by {self.rule}, backlog {self.backlog}"
        return f"{line}; {'; '.join(self.warnings)}" if self.warnings else line


@dataclass(frozen=True, slots=True)
class CursorRecoveryDelayed(Event):
    """A cursor's state cannot be read now; recovery is retried and never assumes a loss (R5)."""

    name: ClassVar[str] = "cursor recovery delayed"
    cursor: str
    reason: str

    def describe(self) -> str:
        """The event in one line."""
        return f"Cursor {self.cursor} cannot be recovered now: {self.reason}"


@dataclass(frozen=True, slots=True)
class Initialized(Event):
    """The topic is open and all its cursors are recovered."""

    name: ClassVar[str] = "initialized"

    def describe(self) -> str:
        """The event in one line."""
        return f"Initialized managed ledger {self.topic}"


@dataclass(frozen=True, slots=True)
class ResetSinceConsumed(Event):
    """A cursor at the end of a fully consumed ledger moved to the start of the next one (R9)."""

    name: ClassVar[str] = "reset since consumed"
    cursor: str
    old: Position
    new: Position

    def describe(self) -> str:
        """The event in one line."""
        return f"Reset cursor {self.cursor} from {self.old} to {self.new} since its ledger is consumed completely"


@dataclass(frozen=True, slots=True)
class LastConfirmedLedgerDeletion(Event):
    """The ledger of the last confirmed entry is about to be deleted (R10)."""

    name: ClassVar[str] = "last confirmed entry's ledger will be deleted"
    ledger_id: int
    last_confirmed: Position

    def describe(self) -> str:
        """The event in one line."""
        return f"Ledger {self.ledger_id} holds the last confirmed entry {self.last_confirmed} and will be deleted"


@dataclass(frozen=True, slots=True)
class EndTrim(Event):
    """The trimmed ledgers are off the list; `ledgers` and `size` (payload bytes) are what remains."""

    name: ClassVar[str] = "end trim"
    ledgers: int
    size: int

    def describe(self) -> str:
        """The event in one line."""
        return f"End trim: ledgers={self.ledgers} size={self.size}"


@dataclass(frozen=True, slots=True)
class RemovingLedger(Event):
    """A trimmed ledger is deleted from the bookies; size in bytes of payload."""

    name: ClassVar[str] = "removing ledger"
    ledger_id: int
    size: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Removing ledger {self.ledger_id}: size={self.size}"


@dataclass(frozen=True, slots=True)
class SubscriptionOpened(Event):
    """A cursor was opened for use."""

    name: ClassVar[str] = "subscription opened"
    cursor: str

    def describe(self) -> str:
        """The event in one line."""
        return f"Opened cursor {self.cursor}"


@dataclass(frozen=True, slots=True)
class Rewound(Event):
    """A cursor's read position went back to after its mark-delete (C7)."""

    name: ClassVar[str] = "rewind"
    cursor: str
    old: Position
    new: Position

    def describe(self) -> str:
        """The event in one line."""
        return f"Rewind cursor {self.cursor} from {self.old} to {self.new}"


@dataclass(frozen=True, slots=True)
class CursorLedgerSwitched(Event):
    """A cursor has switched to another cursor ledger (C4); -1 means none."""

    name: ClassVar[str] = "cursor ledger switched"
    cursor: str
    old_ledger_id: int
    new_ledger_id: int

    def describe(self) -> str:
        """The event in one line."""
        return f"Cursor {self.cursor} switched from cursor ledger {self.old_ledger_id} to {self.new_ledger_id}"


@dataclass(frozen=True, slots=True)
class CursorStateNotPersisted(Event):
    """A cursor's state could not be written; it stays in memory and is retried (C5)."""

    name: ClassVar[str] = "cursor state not persisted"
    cursor: str
    reason: str

    def describe(self) -> str:
        """The event in one line."""
        return f"State of cursor {self.cursor} is not persisted and stays in memory: {self.reason}"


@dataclass(frozen=True, slots=True)
class LostEntriesSkipped(Event):
    """Lost entries `first` to `last` were acknowledged unread (autoSkipNonRecoverableData)."""

    name: ClassVar[str] = "lost entries skipped"
    cursor: str
    first: Position
    last: Position
    reason: str

    def describe(self) -> str:
        """The event in one line."""
        return f"Cursor {self.cursor} skipped the lost entries {self.first} to {self.last}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CompactedLedgerGone(Event):
    """The ledger that compaction's cursor names does not exist: what only it had is lost (C12).

    The topic still has its entries after `kept_after`. The ledger stood for the topic up to `compacted_to`.
    """

    name: ClassVar[str] = "compacted ledger gone"
    ledger_id: int
    compacted_to: Position
    kept_after: Position

    def describe(self) -> str:
        """The event in one line."""
        return (
            f"Compacted ledger {self.ledger_id} (up to {self.compacted_to}) does not exist: messages up to "
            f"{self.kept_after} that only it had are lost; consumers read what the topic still has until it is "
            "compacted anew"
        )


@dataclass(frozen=True, slots=True)
class Fenced(Event):
    """Another owner has the topic (M7)."""

    name: ClassVar[str] = "fenced"
    reason: str

    def describe(self) -> str:
        """The event in one line."""
        return f"Fenced, stopped writing: {self.reason}"


@dataclass(frozen=True, slots=True)
class Terminated(Event):
    """The topic accepts no more entries (M8)."""

    name: ClassVar[str] = "terminated"
    position: Position

    def describe(self) -> str:
        """The event in one line."""
        return f"Terminated at {self.position}"


@dataclass(frozen=True, slots=True)
class Closed(Event):
    """The topic was closed by its owner."""

    name: ClassVar[str] = "closed"

    def describe(self) -> str:
        """The event in one line."""
        return f"Closed managed ledger {self.topic}"
