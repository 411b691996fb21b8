"""The worst cursors of a cluster by one measure, in memory for only so many of them. No I/O."""

import heapq
from typing import NamedTuple


class RankedCursor(NamedTuple):
    """A cursor of a managed ledger with its value of a measure, and where that comes from."""

    value: float
    managed_ledger: str
    cursor: str
    state: str


class WorstCursors:
    """Keeps the `most` cursors with the highest values above 0; which ones does not depend on the order of adding."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[RankedCursor] = []

    def add(self, value: float, managed_ledger: str, cursor: str, state: str) -> None:
        """Take a cursor into account."""
        if value <= 0 or not self._most or (len(self._heap) == self._most and value < self._heap[0].value):
            return
        ranked = RankedCursor(value, managed_ledger, cursor, state)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, ranked)
        else:
            heapq.heappushpop(self._heap, ranked)

    def worst_first(self) -> list[RankedCursor]:
        """The cursors kept."""
        return sorted(self._heap, reverse=True)
