"""What the recorder knows: every append and acknowledgement of every owner, and what must hold after a kill."""

from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field

import numpy

from mledger import Position

Marks = dict[int, numpy.ndarray]
_LEDGER_ROOM = 1 << 18


def _no_marks() -> numpy.ndarray:
    return numpy.zeros(_LEDGER_ROOM, bool)


class Acknowledged:
    """Positions that one cursor has acknowledged: all up to one, and some above."""

    def __init__(self) -> None:
        self.up_to: tuple[int, int] = (-1, -1)
        self.above: Marks = defaultdict(_no_marks)

    def add(self, what: list) -> None:
        """A position, all up to which is acknowledged, or a list of positions."""
        if what and isinstance(what[0], int):
            self.up_to = max(self.up_to, (what[0], what[1]))
            return
        for ledger, entry in what:
            self.above[ledger][entry] = True

    def of(self, ledger: int, count: int) -> numpy.ndarray:
        """Which of the first `count` entries of a ledger."""
        marks = self.above[ledger][:count].copy()
        if ledger < self.up_to[0]:
            marks[:] = True
        elif ledger == self.up_to[0]:
            marks[: self.up_to[1] + 1] = True
        return marks


@dataclass
class Cursor:
    """Acknowledgements of one cursor: asked for, and told to be durable."""

    issued: Acknowledged = field(default_factory=Acknowledged)
    durable: Acknowledged = field(default_factory=Acknowledged)
    pending: dict[int, list] = field(default_factory=dict)

    def issue(self, number: int, what: list) -> None:
        """The owner asks for it now."""
        self.pending[number] = what
        self.issued.add(what)

    def became_durable(self, number: int) -> None:
        """The owner was told that it is durable."""
        self.durable.add(self.pending.pop(number))

    def check(self, found: Acknowledged, entries: dict[int, int]) -> int:
        """Durable ones hold, none was made up; what was found is where things go on from. The recounted backlog."""
        recount = 0
        for ledger, count in entries.items():
            now = found.of(ledger, count)
            lost, made_up = self.durable.of(ledger, count) & ~now, now & ~self.issued.of(ledger, count)
            assert not lost.any(), f"durable acknowledgements lost in ledger {ledger}: {lost.nonzero()[0][:5]}"
            assert not made_up.any(), f"never acknowledged in ledger {ledger}: {made_up.nonzero()[0][:5]}"
            recount += int((~now).sum())
        self.pending.clear()
        self.issued, self.durable = deepcopy(found), found
        return recount


@dataclass
class Owner:
    """One owner's life."""

    epoch: int
    sent: int = 0
    acked: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)  # first number of a batch: where it is
    issued: int = 0
    durable: int = 0
    at: str = ""
    opened: bool = False
    ledgers: list[tuple[int, int]] = field(default_factory=list)
    recovered: dict[str, tuple] = field(default_factory=dict)

    @property
    def acked_entries(self) -> int:
        """Entries acknowledged to it."""
        return sum(last - first + 1 for ranges in self.acked.values() for _, first, last in ranges)

    @property
    def in_flight(self) -> int:
        """Entries given to append and not acknowledged."""
        return self.sent - self.acked_entries

    @property
    def unflushed(self) -> int:
        """Acknowledgements of cursors that are not durable."""
        return self.issued - self.durable


class Books:
    """All owners, in order, and the cursors."""

    def __init__(self) -> None:
        self.owners: list[Owner] = []
        self.cursors = {"cumulative": Cursor(), "holes": Cursor()}

    @property
    def owner(self) -> Owner:
        """The last owner."""
        return self.owners[-1]

    def record(self, line: list) -> None:
        """Take one line of the owner."""
        kind, *rest = line
        owner = self.owner
        match kind:
            case "sent":
                owner.sent = rest[0]
            case "acked":
                owner.acked[rest[0]] = [tuple(where) for where in rest[1]]
            case "issued":
                owner.issued += 1
                self.cursors[rest[0]].issue(rest[1], rest[2])
            case "durable":
                owner.durable += 1
                self.cursors[rest[0]].became_durable(rest[1])
            case "ledgers":
                owner.ledgers = [tuple(ledger) for ledger in rest[0]]
            case "recovered":
                self._check_cursor(*rest)
            case "at":
                owner.at = rest[0]
            case "open":
                owner.opened = True
            case _:
                raise AssertionError(f"the owner said {line}")

    def _check_cursor(self, name: str, mark_delete: list, holes: list, backlog: int) -> None:
        self.owner.recovered[name] = (Position(*mark_delete), holes, backlog)
        found = Acknowledged()
        found.add(mark_delete)
        for (ledger, lower), (upper_ledger, upper) in holes:
            assert ledger == upper_ledger
            found.above[ledger][lower + 1 : upper + 1] = True
        recount = self.cursors[name].check(found, dict(self.owner.ledgers))
        assert backlog == recount, f"{name}: backlog {backlog}, recount {recount}"

    def check_entries(self, entries: list[tuple[Position, bytes]]) -> None:
        """Nothing acknowledged is lost, nothing is double, nothing out of order; each is where it was said to be."""
        at = {(position.ledger_id, position.entry_id): payload for position, payload in entries}
        assert [position for position, _ in entries] == sorted(at)
        by_epoch: dict[int, list[int]] = defaultdict(list)
        epochs = []
        for _, payload in entries:
            epoch, number, _ = payload.split(b" ")
            if not epochs or epochs[-1] != int(epoch):
                epochs.append(int(epoch))
            by_epoch[int(epoch)].append(int(number))
        assert epochs == sorted(set(epochs)), "entries of one owner lie between another's"
        for owner in self.owners:
            numbers = by_epoch[owner.epoch]
            assert numbers == list(range(len(numbers))), f"owner {owner.epoch}: lost, double or out of order"
            assert owner.acked_entries <= len(numbers) <= owner.sent
            for first, ranges in owner.acked.items():
                where = ((ledger, entry) for ledger, low, high in ranges for entry in range(low, high + 1))
                for number, place in enumerate(where, first):
                    assert at[place].startswith(b"%d %d " % (owner.epoch, number))
