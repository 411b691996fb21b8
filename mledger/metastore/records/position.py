"""The position of an entry: (ledger id, entry id), rule M2."""

import re
from typing import NamedTuple

NO_ENTRY = -1
_POSITION = re.compile(r"(-?[0-9]{1,20}):(-?[0-9]{1,20})")


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
        match = _POSITION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a position: write it as LEDGER:ENTRY, for example 56:9")
        position = cls(int(match[1]), int(match[2]))
        if max(map(abs, position)) >= 1 << 63:
            raise ValueError(f"{text!r} is not a position: ids of ledgers and entries are below 2^63")
        return position


class PositionRange(NamedTuple):
    """Positions above `lower` up to and including `upper` (open below, closed above), as MessageRange keeps them."""

    lower: Position
    upper: Position

    def __str__(self) -> str:
        return f"({self.lower}..{self.upper}]"
