"""The position of an entry: (ledger id, entry id), rule M2."""

from typing import NamedTuple

NO_ENTRY = -1


class Position(NamedTuple):
    """An entry's place in a managed ledger; entry -1 is the place before the ledger's first entry.

    Positions compare as tuples: by ledger id, then by entry id.
    """

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """The position written as `ledger:entry`; ValueError says what is wrong with anything else."""
        ledger, separator, entry = text.partition(":")
        try:
            if separator:
                return cls(int(ledger), int(entry))
        except ValueError:
            pass
        raise ValueError(f"{text!r} is not a position: write it as LEDGER:ENTRY, for example 56:9")


class PositionRange(NamedTuple):
    """Positions above `lower` up to and including `upper` (open below, closed above), as MessageRange keeps them."""

    lower: Position
    upper: Position

    def __str__(self) -> str:
        return f"({self.lower}..{self.upper}]"
