"""Entries to read again before new ones, in the order of their positions (D3, D7, D8)."""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from heapq import merge
from itertools import islice

from pyroaring import BitMap

from mledger.broker.dispatch.position_set import PositionSet
from mledger.metastore.records.position import Position


class KeyedReplayList:
    """Entries to replay, by the hash of their key; the hash of some is not known before they are read.

    Of a key's entries, the first ones always come first.
    """

    __slots__ = ("_by_hash", "_hashes", "unhashed")

    def __init__(self) -> None:
        self._by_hash: dict[int, list[Position]] = {}
        self._hashes: dict[Position, int] = {}
        self.unhashed = PositionSet()

    def __len__(self) -> int:
        return len(self._hashes) + len(self.unhashed)

    def __contains__(self, position: tuple[int, int]) -> bool:
        return position in self._hashes or position in self.unhashed

    def has_key(self, key_hash: int) -> bool:
        """Whether an entry with this hash waits."""
        return key_hash in self._by_hash

    def add(self, ledger_id: int, entries: BitMap, hashes: Mapping[int, int]) -> None:
        """Add entries with the hashes of their keys, by entry id."""
        self._learn(ledger_id, entries)
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

    def _learn(self, ledger_id: int, entries: BitMap) -> None:
        if self.unhashed:
            self.unhashed.take(ledger_id, entries)

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
        self.unhashed.clear()

    def first(self, count: int, may_go: Callable[[int], bool]) -> Sequence[Position]:
        """The first `count` entries of those keys whose hash `may_go`, in order; those without a hash before all."""
        if self.unhashed:
            return self.unhashed.first(count)
        ready = [waiting for key_hash, waiting in self._by_hash.items() if may_go(key_hash)]
        if len(ready) == 1:
            return ready[0][:count]
        return list(islice(merge(*ready), count))
