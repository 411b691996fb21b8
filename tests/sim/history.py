"""What happened in a simulation, in order. The digest is the same wherever a seed is run; the lines are for people."""

import hashlib
from typing import NamedTuple


class Happening(NamedTuple):
    """One line of a history; `at` in simulated seconds."""

    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:10.6f}  {self.who:<12} {self.what}"


class History:
    """The happenings of one simulation."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def note(self, at: float, who: str, what: str) -> None:
        """Add a line."""
        self.happenings.append(Happening(at, who, what))

    @property
    def digest(self) -> str:
        """A hash over every line."""
        text = "\n".join(map(str, self.happenings))
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        return "\n".join(map(str, self.happenings))
