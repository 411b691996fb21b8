"""What must hold in every simulation, whatever went wrong in it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from mledger.bookie.server.storage.records.journal_changes import ChangeKind, JournalChange
from mledger.metastore.errors import MetadataError, RecordError


class Violated(AssertionError):
    """Something happened that must not."""


def check_end(host: str, error: Exception, explained: bool) -> None:
    """A bookie has ended by itself with `error`; `explained`: by a fault of its disk."""
    unreachable = isinstance(error, MetadataError | RecordError)
    if not (unreachable or explained):
        raise Violated(f"{host} ended by itself: {type(error).__name__}: {error}")


def check_fenced(owner: str, error: str, *, claimed: bool, wrote: bool) -> None:
    """`owner` was fenced with `error`, and not only by the end of its session.

    `claimed`: another owner may have claimed the topic's owner node. `wrote`: another one has
    written its record since this one began to open the topic.
    """
    if "session" in error:
        return
    by_node = "another owner has it" in error or "others are opening it" in error
    if not (claimed if by_node else wrote):
        raise Violated(f"{owner} was fenced by nobody: {error}")


def check_ledgers_kept(host: str, kept: int, most: int) -> None:
    """A bookie keeps no more ledgers in memory than it may."""
    if kept > most:
        raise Violated(f"{host} keeps too many ledgers in memory: {kept} of {most}")


def check_live(host: str, live: Mapping[int, int], counted: Mapping[int, int]) -> None:
    """What a bookie counts as live of each file is what its index names."""
    found = {file: size for file, size in live.items() if size}
    if found != counted:
        raise Violated(f"{host} counts live bytes wrongly: {found}, its index names {dict(counted)}")


def check_rows(host: str, unreadable: Sequence[str]) -> None:
    """What a bookie's index names is in its journal."""
    if unreadable:
        raise Violated(f"{host}: its index names what its journal does not hold: {unreadable[0]}")


@dataclass
class LedgerKnowledge:
    """What clients know of one ledger."""

    ledger: int
    ack_quorum: int
    asked: dict[int, bytes] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    closed_at: int | None = None
    """The last entry, once anybody saw it closed; -1 if it is empty."""
    deleted: bool = False


class Knowledge:
    """What clients were told, and what bookies made durable. Checks raise Violated."""

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerKnowledge] = {}
        self.durable: dict[tuple[int, int], set[str]] = {}
        self.on_disk: dict[str, set[tuple[int, int]]] = {}
        """What each bookie has made durable on the disk that it has now."""
        self.rotten: set[str] = set()
        """Bookies that may have lost something: their disk went bad."""

    def ledger(self, ledger: int, ack_quorum: int) -> LedgerKnowledge:
        """What is known of a new ledger."""
        return self.ledgers.setdefault(ledger, LedgerKnowledge(ledger, ack_quorum))

    def stored(self, bookie: str, changes: Iterable[JournalChange]) -> None:
        """A bookie has synced changes."""
        for change in changes:
            if change.kind in (ChangeKind.RUN, ChangeKind.REPEAT):
                for entry in range(change.first, change.last + 1):
                    self.durable.setdefault((change.ledger, entry), set()).add(bookie)
                    self.on_disk.setdefault(bookie, set()).add((change.ledger, entry))

    def acknowledge(self, ledger: LedgerKnowledge, first: int, count: int) -> None:
        """A writer was told that entries are durable (Q5)."""
        for entry in range(first, first + count):
            holders = self.durable.get((ledger.ledger, entry), set())
            if len(holders) < ledger.ack_quorum:
                raise Violated(
                    f"ledger {ledger.ledger}: entry {entry} was acknowledged, and durable on {sorted(holders)} only"
                )
            if ledger.closed_at is not None and entry > ledger.closed_at:
                raise Violated(
                    f"ledger {ledger.ledger}: entry {entry} was acknowledged by a fenced writer: the ledger is closed "
                    f"at {ledger.closed_at}"
                )
            ledger.acknowledged.add(entry)

    def kept(self, host: str, needed: Callable[[int, int], bool], held: AbstractSet[tuple[int, int]]) -> None:
        """A bookie still has what it made durable, as far as the metadata names it for that."""
        for ledger, entry in sorted(self.on_disk.get(host, set()) - held):
            if needed(ledger, entry):
                raise Violated(f"{host} has lost entry {entry} of ledger {ledger}, which it had made durable")

    def recorded(self, ledger: LedgerKnowledge, entry: int, ensemble: Iterable[str] | None) -> None:
        """`ensemble` is what the metadata names for an entry that was acknowledged (Q2)."""
        if ensemble is not None:
            holders = self.durable.get((ledger.ledger, entry), set()) & set(ensemble)
            if len(holders) < ledger.ack_quorum:
                raise Violated(
                    f"ledger {ledger.ledger}: entry {entry} was acknowledged, and of the bookies that the metadata "
                    f"names, {sorted(ensemble)}, it is durable on {sorted(holders)}"
                )

    def closed(self, ledger: LedgerKnowledge, last: int) -> None:
        """Somebody sees the ledger closed at `last`."""
        if ledger.closed_at is not None and ledger.closed_at != last:
            raise Violated(f"ledger {ledger.ledger} was closed at {ledger.closed_at} and at {last}")
        ledger.closed_at = last
        beyond = [entry for entry in ledger.acknowledged if entry > last]
        if beyond:
            raise Violated(f"ledger {ledger.ledger}: closed at {last}, entry {min(beyond)} was acknowledged")

    def confirmed(self, ledger: LedgerKnowledge, last: int) -> None:
        """A reader was told that entries up to `last` are confirmed."""
        for entry in range(last + 1):
            holders = self.durable.get((ledger.ledger, entry), set())
            if len(holders) < ledger.ack_quorum:
                raise Violated(
                    f"ledger {ledger.ledger}: a reader was told that entry {entry} is confirmed, it is durable on "
                    f"{sorted(holders)}"
                )

    def read(self, ledger: LedgerKnowledge, first: int, entries: Iterable[bytes]) -> None:
        """A reader got entries."""
        for entry, data in enumerate(entries, first):
            if ledger.asked.get(entry) != data:
                raise Violated(f"ledger {ledger.ledger}: entry {entry} reads as {data[:20]!r}, nobody wrote that")
