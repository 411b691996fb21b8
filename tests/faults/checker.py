"""The history checker compares what owners were told with what is found afterwards. No I/O.

- Each acknowledged append is at its position, once, and in its order (M5, Q5).
- An append that was not acknowledged may be missing, or is in its place: after those before it, at most once.
  Only one that was said to have failed may be missing before others of its owner.
- A flushed acknowledgement holds, there is none that nobody made, and a backlog equals its recount (C8).
- A missing ledger was consumed by every cursor, and missing ledgers are a prefix of the list (R10).
- The records name every ledger that exists, and none that does not (R10).
- Each replica passes its digest and equals the others, and enough bookies have one.
"""

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy
from numpy.typing import NDArray

Marks = NDArray[numpy.bool_]
_SHOWN = 5
_FIRST_ROOM = 1 << 12
_LEDGER_SHIFT = 32


class Kind(enum.Enum):
    """What went wrong."""

    LOST = "an acknowledged entry is gone"
    DOUBLE = "an entry is there more than once"
    MOVED = "an entry is not where its writer was told"
    OUT_OF_ORDER = "entries are not in the order in which they were given"
    MADE_UP = "an entry is there that nobody gave"
    ALTERED = "an entry has bytes that nobody gave"
    GAP = "a ledger does not hold what the list says"
    TRIMMED_EARLY = "an entry was trimmed that a cursor had not acknowledged"
    ACK_LOST = "a flushed acknowledgement is gone"
    ACK_MADE_UP = "an entry counts as acknowledged that nobody acknowledged"
    BACKLOG = "a backlog is not its recount"
    DELIVERY = "a cursor reads other entries than those it has not acknowledged"
    LOST_LEDGER = "a record names a ledger that is gone"
    ORPHAN = "a ledger is there that no record names"
    FEW_COPIES = "an entry has fewer copies than the ack quorum"
    REPLICA_DIFFERS = "copies of an entry differ"


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.kind.value}: {self.what}"


class HistoryBroken(AssertionError):
    """What was found does not follow from what was done."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("\n".join(map(str, violations)))
        self.violations = tuple(violations)


class Acknowledged:
    """The positions that one cursor has acknowledged: all up to one, and some above."""

    def __init__(self) -> None:
        self.up_to: tuple[int, int] = (-1, -1)
        self._above: dict[int, Marks] = {}

    def add_up_to(self, ledger: int, entry: int) -> None:
        """All positions up to this one."""
        self.up_to = max(self.up_to, (ledger, entry))

    def add_run(self, ledger: int, first: int, last: int) -> None:
        """The entries `first` to `last` of a ledger."""
        marks = self._above.get(ledger)
        if marks is None or len(marks) <= last:
            room = max(_FIRST_ROOM, 1 << (last + 1).bit_length())
            grown = numpy.zeros(room, bool)
            if marks is not None:
                grown[: len(marks)] = marks
            marks = self._above[ledger] = grown
        marks[first : last + 1] = True

    def forget_above(self, ledger: int, entry: int) -> None:
        """All positions above this one no longer count."""
        self.up_to = min(self.up_to, (ledger, entry))
        self._above = {held: marks for held, marks in self._above.items() if held <= ledger}
        if ledger in self._above:
            self._above[ledger][entry + 1 :] = False

    def of(self, ledger: int, count: int) -> Marks:
        """Which of the first `count` entries of a ledger are among them."""
        marks = numpy.zeros(count, bool)
        held = self._above.get(ledger)
        if held is not None:
            held = held[:count]
            marks[: len(held)] = held
        if ledger < self.up_to[0]:
            marks[:] = True
        elif ledger == self.up_to[0]:
            marks[: self.up_to[1] + 1] = True
        return marks

    def holds(self, ledger: int, entries: NDArray[numpy.int64]) -> Marks:
        """Which of these entries of a ledger are among them."""
        return self.of(ledger, int(entries.max()) + 1)[entries] if len(entries) else numpy.zeros(0, bool)

    def copy(self) -> "Acknowledged":
        """An independent copy."""
        other = Acknowledged()
        other.up_to, other._above = self.up_to, {ledger: marks.copy() for ledger, marks in self._above.items()}
        return other


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """Entries in the order read, one row each: ledger, entry, epoch of its owner, its number there."""

    rows: NDArray[numpy.int64]

    @staticmethod
    def of(rows: Sequence[tuple[int, int, int, int]]) -> "FoundEntries":
        """From one tuple per entry."""
        return FoundEntries(numpy.array(rows, numpy.int64).reshape(-1, 4))

    @property
    def positions(self) -> NDArray[numpy.int64]:
        """Each entry's position as one number that rises with it."""
        return (self.rows[:, 0] << _LEDGER_SHIFT) + self.rows[:, 1]


@dataclass(frozen=True, slots=True)
class OwnerAppends:
    """What one owner appended, in order from number 0, and the positions that it was told.

    Attributes:
        acked: number of the first entry, ledger, first and last entry there, of each run.
        failed: number of the first entry, and how many, of each append that failed while the owner went on.
    """

    epoch: int
    sent: int
    acked: Sequence[tuple[int, int, int, int]] = ()
    failed: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True)
class RecoveredCursor:
    """A cursor as it was recovered."""

    acknowledged: Acknowledged
    backlog: int


@dataclass(frozen=True, slots=True)
class RecoveredTopic:
    """A topic as it was recovered: each ledger's id and count of entries, in order, and the entries."""

    ledgers: Sequence[tuple[int, int]]
    entries: FoundEntries
    issued: Sequence[Acknowledged] = field(default=())  # what each cursor was asked to acknowledge


def check_topic(given: Sequence[OwnerAppends], topic: RecoveredTopic) -> list[Violation]:
    """Compare a topic's entries with what its owners, in order, appended and were told."""
    return [*_check_places(topic), *_check_order(given, topic.entries), *_check_acknowledged(given, topic)]


def _check_places(topic: RecoveredTopic) -> list[Violation]:
    rows, positions = topic.entries.rows, topic.entries.positions
    found = []
    if (numpy.diff(positions) <= 0).any():
        at = rows[1:][numpy.diff(positions) <= 0][:_SHOWN, :2].tolist()
        found.append(Violation(Kind.OUT_OF_ORDER, f"positions do not rise at {at}"))
    for ledger, count in topic.ledgers:
        entries = rows[rows[:, 0] == ledger, 1]
        if not numpy.array_equal(entries, numpy.arange(count)):
            found.append(
                Violation(Kind.GAP, f"ledger {ledger} is listed with {count} entries, {len(entries)} were read")
            )
    unlisted = set(numpy.unique(rows[:, 0]).tolist()) - {ledger for ledger, _ in topic.ledgers}
    if unlisted:
        found.append(
            Violation(Kind.GAP, f"entries were read of ledgers {sorted(unlisted)[:_SHOWN]}, which are not listed")
        )
    return found


def _check_order(given: Sequence[OwnerAppends], entries: FoundEntries) -> list[Violation]:
    """Owners follow one another, and the numbers of each rise by one; only the first one found may begin above 0."""
    rows, found = entries.rows, []
    if (numpy.diff(rows[:, 2]) < 0).any():
        found.append(Violation(Kind.OUT_OF_ORDER, "entries of one owner lie between another's"))
    known, first = {owner.epoch: owner for owner in given}, int(rows[0, 2]) if len(rows) else -1
    for epoch in numpy.unique(rows[:, 2]).tolist():
        numbers = rows[rows[:, 2] == epoch, 3]
        name = f"owner {epoch}"
        if epoch not in known or int(numbers.max()) >= known[epoch].sent:
            sent = known[epoch].sent if epoch in known else 0
            found.append(Violation(Kind.MADE_UP, f"{name} gave {sent} entries, number {int(numbers.max())} is there"))
        once, counts = numpy.unique(numbers, return_counts=True)
        if (counts > 1).any():
            found.append(Violation(Kind.DOUBLE, f"{name}: numbers {once[counts > 1][:_SHOWN].tolist()}"))
        elif (numpy.diff(numbers) < 0).any():
            found.append(
                Violation(Kind.OUT_OF_ORDER, f"{name}: {numbers[1:][numpy.diff(numbers) < 0][:_SHOWN].tolist()}")
            )
        start = int(once[0]) if epoch == first else 0
        missing = numpy.setdiff1d(numpy.arange(start, int(once[-1])), once, assume_unique=True)
        for failed, count in known[epoch].failed if epoch in known else ():
            missing = missing[(missing < failed) | (missing >= failed + count)]
        if len(missing):
            what = f"{name}: numbers {missing[:_SHOWN].tolist()} are missing before number {int(once[-1])}"
            found.append(Violation(Kind.LOST, what))
    return found


def _check_acknowledged(given: Sequence[OwnerAppends], topic: RecoveredTopic) -> list[Violation]:
    rows, positions = topic.entries.rows, topic.entries.positions
    by_position = numpy.argsort(positions, kind="stable")
    positions = positions[by_position]
    kept_from = topic.ledgers[0][0] if topic.ledgers else 1 << 30
    found: list[Violation] = []
    for owner in given:
        acked = _expand(owner)
        if not len(acked):
            continue
        wanted = (acked[:, 1] << _LEDGER_SHIFT) + acked[:, 2]
        at = numpy.minimum(numpy.searchsorted(positions, wanted), max(len(positions) - 1, 0))
        there = positions[at] == wanted if len(positions) else numpy.zeros(len(wanted), bool)
        held = rows[by_position[at[there]], 2:]
        moved = (held[:, 0] != owner.epoch) | (held[:, 1] != acked[there, 0])
        if moved.any():
            found.append(Violation(Kind.MOVED, _which(owner, acked[there][moved])))
        gone = acked[~there]
        if (lost := gone[gone[:, 1] >= kept_from]).size:
            found.append(Violation(Kind.LOST, _which(owner, lost)))
        found += _check_trimmed(owner, gone[gone[:, 1] < kept_from], topic.issued)
    return found


def _check_trimmed(owner: OwnerAppends, gone: NDArray[numpy.int64], issued: Sequence[Acknowledged]) -> list[Violation]:
    found = []
    for ledger in numpy.unique(gone[:, 1]).tolist():
        of_ledger = gone[gone[:, 1] == ledger]
        for cursor in issued:
            early = ~cursor.holds(ledger, of_ledger[:, 2])
            if early.any():
                found.append(Violation(Kind.TRIMMED_EARLY, _which(owner, of_ledger[early])))
                break
    return found


def _expand(owner: OwnerAppends) -> NDArray[numpy.int64]:
    """Number, ledger and entry of everything that was acknowledged to an owner."""
    if not owner.acked:
        return numpy.zeros((0, 3), numpy.int64)
    runs = numpy.array(owner.acked, numpy.int64)
    counts = runs[:, 3] - runs[:, 2] + 1
    starts = numpy.repeat(runs[:, :3], counts, axis=0)
    offsets = numpy.arange(int(counts.sum())) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
    starts[:, 0] += offsets
    starts[:, 2] += offsets
    return starts


def _which(owner: OwnerAppends, rows: NDArray[numpy.int64]) -> str:
    shown = ", ".join(f"{number} at {ledger}:{entry}" for number, ledger, entry in rows[:_SHOWN].tolist())
    return f"owner {owner.epoch}: {len(rows)} entries, numbers {shown}"


def check_cursor(
    name: str, issued: Acknowledged, durable: Acknowledged, found: RecoveredCursor, ledgers: Sequence[tuple[int, int]]
) -> list[Violation]:
    """Compare a cursor with what it was asked to acknowledge, and with the part of it that it reported durable."""
    violations, recount = [], 0
    for ledger, count in ledgers:
        now = found.acknowledged.of(ledger, count)
        lost, made_up = durable.of(ledger, count) & ~now, now & ~issued.of(ledger, count)
        for kind, marks in ((Kind.ACK_LOST, lost), (Kind.ACK_MADE_UP, made_up)):
            if marks.any():
                entries = marks.nonzero()[0]
                what = f"cursor {name}: {len(entries)} in ledger {ledger}: {entries[:_SHOWN].tolist()}"
                violations.append(Violation(kind, what))
        recount += count - int(now.sum())
    if found.backlog != recount:
        violations.append(Violation(Kind.BACKLOG, f"cursor {name}: backlog {found.backlog}, recount {recount}"))
    return violations


def check_delivery(
    name: str, found: RecoveredCursor, read: Sequence[tuple[int, int]], ledgers: Sequence[tuple[int, int]]
) -> list[Violation]:
    """Compare what a cursor reads from its beginning with what it has not acknowledged."""
    wanted = [
        (ledger, entry)
        for ledger, count in ledgers
        for entry in (~found.acknowledged.of(ledger, count)).nonzero()[0].tolist()
    ]
    if list(read) == wanted:
        return []
    differing = sorted(set(read) ^ set(wanted))[:_SHOWN]
    return [Violation(Kind.DELIVERY, f"cursor {name}: {len(read)} read, {len(wanted)} to be read, {differing} differ")]


def check_ledgers(named: Collection[int], existing: Collection[int]) -> list[Violation]:
    """Compare the ledgers in the records of topics and cursors with those that exist."""
    lost, orphans = sorted(set(named) - set(existing)), sorted(set(existing) - set(named))
    return [Violation(Kind.LOST_LEDGER, f"ledger {ledger}") for ledger in lost] + [
        Violation(Kind.ORPHAN, f"ledger {ledger}") for ledger in orphans
    ]


def check_copies(
    ledger: int, entries: Mapping[int, bytes], copies: Mapping[int, Sequence[bytes]], least: int
) -> list[Violation]:
    """Compare the copies of a ledger's entries, each read from its bookie alone, with the entries."""
    few = [entry for entry in entries if len(copies.get(entry, ())) < least]
    differing = [entry for entry, data in entries.items() if any(copy != data for copy in copies.get(entry, ()))]
    found = []
    if few:
        found.append(Violation(Kind.FEW_COPIES, f"ledger {ledger}: {len(few)} entries: {few[:_SHOWN]}"))
    if differing:
        found.append(
            Violation(Kind.REPLICA_DIFFERS, f"ledger {ledger}: {len(differing)} entries: {differing[:_SHOWN]}")
        )
    return found
