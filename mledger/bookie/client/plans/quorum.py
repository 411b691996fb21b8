"""Tracks the acknowledgements of one ledger that is being written; no I/O.

The rules kept here:

- Q1 Entry e belongs to the Wq ensemble indexes (e + i) mod E, i < Wq.
- M5 An entry is acknowledged when Aq members of its write set hold it and all entries before it are acknowledged.
- Q5 So Aq copies hold what is acknowledged: it is lost only if all of them are.
- Q2 While an ensemble is being changed in the metadata nothing more is acknowledged; the new one begins at the first
  entry not acknowledged, and a new member's acknowledgements count from there: it is sent those entries again.
- Q2 Until a failed bookie has a replacement writing goes on, while every write set has Aq members left.
- A bookie may answer out of order (Java's do), and may answer twice.

For each index a watermark is kept: every entry below it that belongs to the index is stored there. What arrives beyond
the next expected entry waits in a set. The last-add-confirmed (LAC) is `acknowledged_below - 1`.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct

from mledger.bookie.client.plans.placement import check_quorums
from mledger.bookie.client.plans.write_sets import belongs, write_set


class EnsembleChange(Struct, frozen=True):
    """New bookies are to replace those at `indexes` from `first_entry` on; nothing is acknowledged meanwhile (Q2)."""

    indexes: tuple[int, ...]
    first_entry: int


class Resend(Struct, frozen=True):
    """Send the entries `first_entry` to `last_entry` that belong to `index` again, to its new bookie."""

    index: int
    first_entry: int
    last_entry: int


class Lacking(Struct, frozen=True):
    """No acknowledgement is possible: only the members at `remaining` are left of a write set."""

    remaining: tuple[int, ...]
    needed: int


class WriteQuorum:
    """Acknowledgements of one ledger from `first_entry` on, over an ensemble of `ensemble_size` indexes."""

    def __init__(self, ensemble_size: int, write_quorum: int, ack_quorum: int, first_entry: int = 0) -> None:
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        self.ensemble_size = ensemble_size
        self.write_quorum = write_quorum
        self.ack_quorum = ack_quorum
        self.next_entry = first_entry
        self.acknowledged_below = first_entry
        self._striped = write_quorum < ensemble_size
        self._watermarks = [first_entry] * ensemble_size
        self._early: list[set[int]] = [set() for _ in range(ensemble_size)]
        self._down: set[int] = set()  # failed and not replaced yet
        self._changing: EnsembleChange | None = None
        self._nth = write_quorum - ack_quorum  # index of a watermark, ascending: Aq of a write set reach it

    @property
    def down(self) -> frozenset[int]:
        """Indexes whose bookie has failed and is not replaced yet."""
        return frozenset(self._down)

    def outstanding(self, index: int) -> bool:
        """Whether the bookie at `index` owes an acknowledgement."""
        if index in self._down:
            return False
        return self._next_of(index, self._watermarks[index]) < self.next_entry

    def watermark(self, index: int) -> int:
        """Every entry of `index` below this one is stored there."""
        return self._watermarks[index]

    def has_gap(self, index: int, held_from: int) -> bool:
        """Whether the bookie at `index` may lack acknowledged entries below `held_from`: it is not sent those again."""
        return self._next_of(index, self._watermarks[index]) < min(held_from, self.acknowledged_below)

    def sent(self, count: int) -> int:
        """Note that the next `count` entries were sent to every index that is up; return the first one's id."""
        first = self.next_entry
        self.next_entry = first + count
        return first

    def acknowledged_run(self, index: int, first: int, last: int) -> int:
        """Note that the bookie at `index` stores all entries `first` to `last`; return `acknowledged_below`."""
        if self._striped or first > self._watermarks[index] or last >= self.next_entry:
            return self.acknowledged(index, range(first, last + 1))
        if last >= self._watermarks[index]:
            self._watermarks[index] = last + 1
            if self._early[index]:
                self._take_early(index)
            self._advance()
        return self.acknowledged_below

    def acknowledged(self, index: int, entries: Iterable[int]) -> int:
        """Note that the bookie at `index` stores `entries`, in any order; return `acknowledged_below`."""
        early, watermark = self._early[index], self._watermarks[index]
        early.update(
            entry
            for entry in entries
            if watermark <= entry < self.next_entry and belongs(entry, index, self.ensemble_size, self.write_quorum)
        )
        self._take_early(index)
        self._advance()
        return self.acknowledged_below

    def failed(self, indexes: Collection[int]) -> None:
        """Note that the bookies at `indexes` have failed: they get no more entries; their acknowledgements count."""
        self._down.update(indexes)

    def lacking(self) -> Lacking | None:
        """The first write set with fewer than Aq members left, if there is one."""
        for entry in range(self.ensemble_size):
            members = write_set(entry, self.ensemble_size, self.write_quorum)
            left = tuple(index for index in members if index not in self._down)
            if len(left) < self.ack_quorum:
                return Lacking(left, self.ack_quorum)
        return None

    def begin_change(self, indexes: Collection[int]) -> EnsembleChange:
        """Begin to replace the failed bookies at `indexes`; return what the metadata must record first (Q2)."""
        if self._changing is not None or not self._down.issuperset(indexes):
            raise ValueError(f"indexes {sorted(indexes)} cannot be changed: {sorted(self._down)} have failed")
        self._changing = EnsembleChange(tuple(sorted(indexes)), self.acknowledged_below)
        return self._changing

    def changed(self, whole_below: Mapping[int, int] = MappingProxyType({})) -> tuple[Resend, ...]:
        """Complete the change after the metadata names the new bookies; return what to send to them.

        `whole_below`: of indexes whose bookie is the same as before, the entry below which it lacks none. It is sent
        those from there on, although some are acknowledged.
        """
        if self._changing is None:
            raise ValueError("no change of ensemble is under way")
        change, self._changing = self._changing, None
        self._down.difference_update(change.indexes)
        for index in change.indexes:
            self._watermarks[index] = min(whole_below.get(index, change.first_entry), change.first_entry)
            self._early[index].clear()
        self._advance()
        last = self.next_entry - 1
        return tuple(Resend(each, self._watermarks[each], last) for each in change.indexes if self.outstanding(each))

    def _advance(self) -> None:
        if self._changing is not None:
            return
        if not self._striped:
            below = sorted(self._watermarks)[self._nth]
        else:
            below = min(self._first_unacknowledged(residue) for residue in range(self.ensemble_size))
        if below > self.acknowledged_below:
            self.acknowledged_below = min(below, self.next_entry)

    def _first_unacknowledged(self, residue: int) -> int:
        """The first entry e with e mod E = `residue` that fewer than Aq members of its write set store."""
        members = write_set(residue, self.ensemble_size, self.write_quorum)
        below = sorted(self._watermarks[index] for index in members)[self._nth]
        return below + (residue - below) % self.ensemble_size

    def _next_of(self, index: int, entry: int) -> int:
        """The first entry from `entry` on that belongs to `index`."""
        while not belongs(entry, index, self.ensemble_size, self.write_quorum):
            entry += 1
        return entry

    def _take_early(self, index: int) -> None:
        early, at = self._early[index], self._next_of(index, self._watermarks[index])
        while at in early:
            early.discard(at)
            at = self._next_of(index, at + 1)
        self._watermarks[index] = at
