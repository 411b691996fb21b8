"""Positions as one roaring bitmap per ledger: runs cost as little as single ones, order is by position (D3)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from pyroaring import BitMap

from mledger.metastore.records.position import Position

MAX_ENTRY = (1 << 32) - 1
"""Of an entry's id in a bitmap; no ledger is that long."""


class PositionSet:
    """A set of positions; entry ids are at most MAX_ENTRY, ledger ids any. No bitmap in it is empty."""

    __slots__ = ("_ledgers",)

    def __init__(self, positions: Iterable[tuple[int, int]] = ()) -> None:
        self._ledgers: dict[int, BitMap] = {}
        for ledger_id, entry_id in positions:
            self.add_run(ledger_id, entry_id, entry_id + 1)

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def __len__(self) -> int:
        return sum(map(len, self._ledgers.values()))

    def __contains__(self, position: tuple[int, int]) -> bool:
        bits = self._ledgers.get(position[0])
        return bits is not None and position[1] in bits

    def __iter__(self) -> Iterator[Position]:
        for ledger_id in sorted(self._ledgers):
            for entry_id in self._ledgers[ledger_id]:
                yield Position(ledger_id, entry_id)

    def ledgers(self) -> Iterator[tuple[int, BitMap]]:
        """Each ledger with its entries, in order; the bitmaps must not be changed."""
        return iter(sorted(self._ledgers.items()))

    def bits(self, ledger_id: int) -> BitMap | None:
        """The entries of a ledger, which must not be changed; None if there are none."""
        return self._ledgers.get(ledger_id)

    def add_run(self, ledger_id: int, first: int, stop: int) -> None:
        """Add entries `first` up to `stop`, which is not among them."""
        if first >= stop:
            return
        bits = self._ledgers.get(ledger_id)
        if bits is None:
            bits = self._ledgers[ledger_id] = BitMap()
        bits.add_range(first, stop)

    def add(self, ledger_id: int, entries: BitMap) -> None:
        """Add entries of a ledger."""
        if not entries:
            return
        bits = self._ledgers.get(ledger_id)
        if bits is None:
            self._ledgers[ledger_id] = entries.copy()
        else:
            bits |= entries

    def update(self, other: "PositionSet") -> None:
        """Add all of `other`."""
        for ledger_id, entries in other._ledgers.items():
            self.add(ledger_id, entries)

    def take(self, ledger_id: int, entries: BitMap) -> BitMap:
        """Remove entries of a ledger; returns those that were here."""
        bits = self._ledgers.get(ledger_id)
        if bits is None:
            return BitMap()
        gone = bits & entries
        if gone:
            bits -= gone
            if not bits:
                del self._ledgers[ledger_id]
        return gone

    def take_to(self, position: Position) -> "PositionSet":
        """Remove everything up to `position`; returns what that was."""
        gone = PositionSet()
        for ledger_id in [ledger_id for ledger_id in self._ledgers if ledger_id <= position.ledger_id]:
            bits = self._ledgers[ledger_id]
            if ledger_id == position.ledger_id:
                passed = bits & run(0, position.entry_id + 1)
                if passed:
                    gone.add(ledger_id, self.take(ledger_id, passed))
            else:
                gone._ledgers[ledger_id] = self._ledgers.pop(ledger_id)
        return gone

    def clear(self) -> None:
        """Remove everything."""
        self._ledgers.clear()

    def first(self, count: int) -> list[Position]:
        """The first `count` positions, in order."""
        return list(islice(self, count))


def run(first: int, stop: int) -> BitMap:
    """The entries `first` up to `stop`, which is not among them."""
    bits = BitMap()
    if first < stop:
        bits.add_range(first, stop)
    return bits


def by_ledger(positions: Sequence[tuple[int, int]]) -> dict[int, BitMap]:
    """The entries of these positions, by ledger; without those that no ledger has, of which clients may name any."""
    try:
        return _by_ledger(positions)
    except OverflowError:
        return _by_ledger([each for each in positions if 0 <= each[1] <= MAX_ENTRY])


def _by_ledger(positions: Sequence[tuple[int, int]]) -> dict[int, BitMap]:
    if not positions:
        return {}
    ledger_id = positions[0][0]
    entries = [entry for each, entry in positions if each == ledger_id]
    if len(entries) == len(positions):
        return {ledger_id: BitMap(entries)}
    found: dict[int, BitMap] = {}
    for each, entry in positions:
        found.setdefault(each, BitMap()).add(entry)
    return found


def entries_at(first_entry: int, indexes: range | list[int]) -> BitMap:
    """The entries at these indexes of a run that begins at `first_entry`."""
    if isinstance(indexes, range):
        return run(first_entry + indexes.start, first_entry + indexes.stop)
    return BitMap([first_entry + index for index in indexes])
