"""A range of key hashes (D2)."""

from typing import NamedTuple


class KeyRange(NamedTuple):
    """The key hashes `start` to `end`, both included."""

    start: int
    end: int
