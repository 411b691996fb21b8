"""What the owners of a topic were told, all together."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mledger.metastore.records.position import Position
from tests.faults.checker import Acknowledged, OwnerAppends


class KnownCursor:
    """A cursor that an owner was told to be there, and what it was asked to acknowledge since the last reset.

    A reset that was asked for may happen or not, until its answer: then nothing is acknowledged but what is below its
    place, or was asked for after the reset.
    """

    def __init__(self, found: Acknowledged) -> None:
        self.issued = found.copy()
        """What may be acknowledged."""
        self.durable = found.copy()
        """What must be."""
        self.consumed = found.copy()
        """What may be gone: trimmed while it was acknowledged."""
        self.resets = 0
        """How many resets were asked for."""
        self._since: dict[int, Acknowledged] = {}

    def ask(self, positions: Iterable[Position]) -> None:
        """These positions are to be acknowledged."""
        for position in positions:
            for marks in self._asked:
                marks.add_run(position.ledger_id, position.entry_id, position.entry_id)

    def ask_up_to(self, mark: tuple[int, int]) -> None:
        """All positions up to `mark` are to be acknowledged."""
        for marks in self._asked:
            marks.add_up_to(*mark)

    def ask_reset(self, mark: tuple[int, int], truncating: Iterable[Position]) -> int:
        """Nothing above `mark` is to be acknowledged but what is being truncated already; the reset's number."""
        self.ask_up_to(mark)
        self.durable.forget_above(*mark)
        self.resets += 1
        self._since[self.resets] = Acknowledged()
        for place in (mark, *truncating):
            self._since[self.resets].add_up_to(*place)
        return self.resets

    def end_reset(self, number: int, mark: tuple[int, int], first_ledger: int | None) -> None:
        """The reset is done, while `first_ledger` is the topic's first one; or it is not known whether, with None."""
        since = self._since.pop(number)
        if first_ledger is None or number != self.resets:
            return
        self.issued, self.consumed = since.copy(), since
        self.consumed.add_up_to(first_ledger, -1)
        self.durable.add_up_to(*mark)

    @property
    def _asked(self) -> list[Acknowledged]:
        return [self.issued, self.consumed, *self._since.values()]


@dataclass
class KnownTopic:
    """What all owners know together."""

    given: list[OwnerAppends] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    """Where acknowledged entries are."""
    cursors: dict[str, KnownCursor] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    """Cursors that somebody asked to delete."""
    truncating: list[Position] = field(default_factory=list)
    """Up to where the topic is being truncated, with cursors that are created or reset meanwhile."""
    terminated: Position | None = None
    """Where somebody was told that the topic ends."""
    opening: set[str] = field(default_factory=set)
    """Who is opening the topic, or died while opening it."""
    holding: set[str] = field(default_factory=set)
    """Who has opened the topic and may still think that it owns it."""
    openings: int = 0
    """How often somebody began to open the topic, or was done with it."""
