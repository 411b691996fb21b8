"""Entries to read again before new ones, by key, in the order of their positions (D2, D3, D7, D8)."""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import islice

from pyroaring import BitMap

from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.metastore.records.position import Position


class KeyedReplayList:
    """Entries to replay with the hashes of their keys, grouped by the owners of these; some hashes are not known yet.

    An entry whose hash is not known (it was delayed, or the broker restarted) is read before all others.
    """

    __slots__ = ("_by_hash", "_group_of", "_grouped", "_groups", "_hashes", "unhashed")

    def __init__(self, group_of: Callable[[int], Hashable]) -> None:
        """`group_of` is the owner of a hash; `regroup` when owners change.

        The groups are made when somebody asks: many owners that change at once cost one grouping.
        """
        self._group_of = group_of
        self._by_hash: dict[int, list[Position]] = {}
        self._hashes: dict[Position, int] = {}
        self._groups: dict[Hashable, PositionSet] = {}
        self._grouped = True  # whether _groups is up to date
        self.unhashed = PositionSet()

    def __len__(self) -> int:
        return len(self._hashes) + len(self.unhashed)

    def __bool__(self) -> bool:
        return bool(self._hashes) or bool(self.unhashed)

    def has_key(self, key_hash: int) -> bool:
        """Whether an entry with this hash waits."""
        return key_hash in self._by_hash

    def of_key(self, key_hash: int) -> Sequence[Position]:
        """The entries with this hash, in order."""
        return self._by_hash.get(key_hash, ())

    def waiting(self, ledger_id: int, entries: BitMap) -> BitMap:
        """Which of these entries are here."""
        hashed = BitMap([entry for entry in entries if Position(ledger_id, entry) in self._hashes])
        return hashed | (entries & (self.unhashed.bits(ledger_id) or BitMap()))

    def add(self, ledger_id: int, entries: BitMap, hashes: Mapping[int, int]) -> None:
        """Add entries with their hashes, by entry id."""
        if self.unhashed:
            self.unhashed.take(ledger_id, entries)
        for entry in entries:
            position, key_hash = Position(ledger_id, entry), hashes[entry]
            if position in self._hashes:
                continue
            self._hashes[position] = key_hash
            waiting = self._by_hash.get(key_hash)
            if waiting is None:
                self._by_hash[key_hash] = [position]
            elif position > waiting[-1]:
                waiting.append(position)
            else:
                insort(waiting, position)
            if self._grouped:
                self._group(key_hash).add_run(ledger_id, entry, entry + 1)

    def _group(self, key_hash: int) -> PositionSet:
        owner = self._group_of(key_hash)
        group = self._groups.get(owner)
        if group is None:
            group = self._groups[owner] = PositionSet()
        return group

    def regroup(self) -> None:
        """Other owners have the hashes now."""
        self._groups = {}
        self._grouped = not self._hashes

    def _order_groups(self) -> None:
        if not self._grouped:
            self._grouped = True
            for (ledger_id, entry), key_hash in self._hashes.items():
                self._group(key_hash).add_run(ledger_id, entry, entry + 1)

    def take(self, ledger_id: int, entries: BitMap) -> BitMap:
        """Remove entries; returns those that were here."""
        gone = self.unhashed.take(ledger_id, entries) if self.unhashed else BitMap()
        if not self._hashes:
            return gone
        for entry in entries:
            position = Position(ledger_id, entry)
            key_hash = self._hashes.pop(position, None)
            if key_hash is None:
                continue
            gone.add(entry)
            waiting = self._by_hash[key_hash]
            if len(waiting) == 1:
                del self._by_hash[key_hash]
            else:
                del waiting[bisect_left(waiting, position)]
            if self._grouped:
                self._group(key_hash).take(ledger_id, BitMap((entry,)))
        return gone

    def take_to(self, position: Position) -> None:
        """Remove everything up to `position`."""
        self.unhashed.take_to(position)
        for passed in [each for each in self._hashes if each <= position]:
            self.take(passed.ledger_id, BitMap((passed.entry_id,)))

    def clear(self) -> None:
        """Remove everything."""
        self._by_hash.clear()
        self._hashes.clear()
        self._groups.clear()
        self._grouped = True
        self.unhashed.clear()

    def first(self, count: int, owners: Iterable[Hashable], may_go: Callable[[int], bool]) -> list[Position]:
        """The first `count` entries of these owners whose hash `may_go`, in order; those without a hash before all."""
        if self.unhashed:
            return self.unhashed.first(count)
        self._order_groups()
        hashes = self._hashes
        groups = [self._groups[owner] for owner in owners if owner in self._groups]
        return list(islice((position for position in merge(*groups) if may_go(hashes[position])), count))
