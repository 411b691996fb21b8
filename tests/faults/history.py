"""What the recorder knows: every append and acknowledgement of every owner, as reported, line by line."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.faults.checker import Acknowledged, HistoryBroken, OwnerAppends, RecoveredCursor, check_cursor


@dataclass
class CursorHistory:
    """Acknowledgements of one cursor: requested, and reported durable."""

    issued: Acknowledged = field(default_factory=Acknowledged)
    durable: Acknowledged = field(default_factory=Acknowledged)
    pending: dict[tuple[int, int], list] = field(default_factory=dict)

    def issue(self, epoch: int, number: int, what: list) -> None:
        """The owner of `epoch` requests it now: all up to a position, or runs of a ledger."""
        self.pending[epoch, number] = what
        _add(self.issued, what)

    def became_durable(self, epoch: int, number: int) -> None:
        """That owner was told that it is durable."""
        _add(self.durable, self.pending.pop((epoch, number)))

    def came_back(self, found: Acknowledged) -> None:
        """Continue from what was found."""
        self.issued, self.durable = found.copy(), found


def _add(marks: Acknowledged, what: list) -> None:
    if what and isinstance(what[0], int):
        marks.add_up_to(what[0], what[1])
        return
    for ledger, first, last in what:
        marks.add_run(ledger, first, last)


def acknowledged_of(mark_delete: Sequence[int], holes: Sequence[Sequence[Sequence[int]]]) -> Acknowledged:
    """A cursor's state: mark-delete, and ranges open below, closed above."""
    found = Acknowledged()
    found.add_up_to(mark_delete[0], mark_delete[1])
    for (ledger, lower), (upper_ledger, upper) in holes:
        assert ledger == upper_ledger, f"a range from {ledger}:{lower} to {upper_ledger}:{upper}"
        found.add_run(ledger, lower + 1, upper)
    return found


@dataclass
class OwnerLife:
    """The life of one owner."""

    epoch: int
    sent: int = 0
    acked_entries: int = 0
    acked: list[tuple[int, int, int, int]] = field(default_factory=list)  # first number, ledger, first and last entry
    issued: int = 0
    durable: int = 0
    at: str = ""
    opened: bool = False
    ended: tuple[str, str] | None = None  # the error that ended it, and its text
    ledgers: list[tuple[int, int]] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)  # of each batch, in seconds

    def __str__(self) -> str:
        what = f"owner {self.epoch}: {self.sent} sent, {self.acked_entries} acknowledged"
        return f"{what}, {self.unflushed} acknowledgements not flushed, opened={self.opened}, at={self.at!r}"

    @property
    def in_flight(self) -> int:
        """Entries appended and not acknowledged."""
        return self.sent - self.acked_entries

    @property
    def unflushed(self) -> int:
        """Acknowledgements of cursors that are not durable yet."""
        return self.issued - self.durable

    @property
    def given(self) -> OwnerAppends:
        """In the form of the checker."""
        return OwnerAppends(self.epoch, self.sent, self.acked)

    def acknowledge(self, number: int, ranges: list) -> None:
        """The batch that begins with `number` is at `ranges`."""
        for ledger, first, last in ranges:
            self.acked.append((number, ledger, first, last))
            number += last - first + 1
            self.acked_entries += last - first + 1


class TopicHistory:
    """All owners, in order, and the cursors."""

    def __init__(self) -> None:
        self.owners: list[OwnerLife] = []
        self.cursors = {"cumulative": CursorHistory(), "holes": CursorHistory()}

    @property
    def owner(self) -> OwnerLife:
        """The last owner."""
        return self.owners[-1]

    def record(self, line: list, owner: OwnerLife | None = None) -> None:
        """Process one line of an owner, by default the last one. HistoryBroken if a cursor was recovered wrongly."""
        kind, *rest = line
        owner = owner or self.owner
        match kind:
            case "sent":
                owner.sent = rest[0]
            case "acked":
                owner.acknowledge(rest[0], rest[1])
                owner.latencies.append(rest[2])
            case "issued":
                owner.issued += 1
                self.cursors[rest[0]].issue(owner.epoch, rest[1], rest[2])
            case "durable":
                owner.durable += 1
                self.cursors[rest[0]].became_durable(owner.epoch, rest[1])
            case "ledgers":
                owner.ledgers = [(ledger, entries) for ledger, entries in rest[0]]
            case "recovered":
                name, mark_delete, holes, backlog = rest
                self.cursor_came_back(
                    name, RecoveredCursor(acknowledged_of(mark_delete, holes), backlog), owner.ledgers
                )
            case "at":
                owner.at = rest[0]
            case "open":
                owner.opened = True
            case "ended":
                owner.ended = rest[0], rest[1]
            case _:
                raise AssertionError(f"the owner said {line}")

    def cursor_came_back(self, name: str, found: RecoveredCursor, ledgers: list[tuple[int, int]]) -> None:
        """Check a recovered cursor. Raises HistoryBroken."""
        cursor = self.cursors[name]
        violations = check_cursor(name, cursor.issued, cursor.durable, found, ledgers)
        if violations:
            raise HistoryBroken(violations)
        cursor.came_back(found.acknowledged)
