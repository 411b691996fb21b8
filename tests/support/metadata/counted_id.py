"""Ledger ids that count how often they are compared: work that grows with the square of a list shows."""

from typing import ClassVar


class CountedId(int):
    """A number; `compared` counts the comparisons of all of them for equality."""

    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        CountedId.compared += 1
        return int.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = int.__hash__
