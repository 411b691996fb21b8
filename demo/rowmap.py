"""The position of each row."""

import bisect
from collections.abc import Iterable, Iterator

from mledger import AppendedRange, Position


class RowMap:
    """Rows in the order they were published, as the ranges of positions that `append` acknowledged."""

    def __init__(self, ranges: Iterable[AppendedRange] = ()) -> None:
        self._ranges: list[AppendedRange] = []
        self._starts: list[int] = []
        self.rows = 0
        self.extend(ranges)

    def extend(self, ranges: Iterable[AppendedRange]) -> None:
        """Add the ranges of the next rows."""
        for each in ranges:
            self._add(each)

    def _add(self, appended: AppendedRange) -> None:
        """Add a range; join it with the last if it continues that."""
        count = appended.last_entry - appended.first_entry + 1
        last = self._ranges[-1] if self._ranges else None
        if last and last.ledger_id == appended.ledger_id and last.last_entry + 1 == appended.first_entry:
            self._ranges[-1] = AppendedRange(last.ledger_id, last.first_entry, appended.last_entry)
        else:
            self._ranges.append(appended)
            self._starts.append(self.rows)
        self.rows += count

    def position(self, row: int) -> Position:
        """The position of `row`."""
        at = bisect.bisect_right(self._starts, row) - 1
        found = self._ranges[at]
        return Position(found.ledger_id, found.first_entry + row - self._starts[at])

    def positions(self) -> Iterator[Position]:
        """The position of each row in order."""
        for each in self._ranges:
            for entry in range(each.first_entry, each.last_entry + 1):
                yield Position(each.ledger_id, entry)

    @property
    def ranges(self) -> list[tuple[int, int, int]]:
        """Ledger, first and last entry of each range, as plain numbers."""
        return [(each.ledger_id, each.first_entry, each.last_entry) for each in self._ranges]
