"""What a cursor has acknowledged (C1, C2, C5, C8); no I/O.

The mark-delete position and all entries before it are deleted. Above it, deleted entries are stored
as one roaring bitmap per ledger, and partly acknowledged batches as bit-set words (1: not yet
acknowledged). Invariants: bitmaps contain only existing entries above mark-delete, none is empty,
and the entry of a partly acknowledged batch is not itself deleted. So counts are exact. Recovered
ranges are split by ledger. Ranges over ledgers that the topic does not have are dropped; invalid
ones are reported and skipped (R7).
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from pyroaring import BitMap

from mledger.cursors.acks.entry_bits import (
    BITS_PER_WORD,
    MAX_ENTRY,
    EdgeArrays,
    EntryRun,
    WordArrays,
    and_words,
    bits_of_words,
    edges_of,
    ranges_of,
    run,
    run_end,
    runs,
    trim_words,
    words_of,
)
from mledger.cursors.acks.exact_positions import entries_by_ledger
from mledger.errors import InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import NO_ENTRY, Position, PositionRange
from mledger.metastore.records.values import BatchDeletion, LedgerBits

FEW = 1000


class AckState:
    """One cursor's mark-delete, holes and batch indexes. Not thread-safe; pass on only a `copy()`."""

    __slots__ = ("_batch_order", "_batches", "_deleted", "mark_delete")

    def __init__(self, mark_delete: Position) -> None:
        self.mark_delete = mark_delete
        self._deleted: dict[int, BitMap] = {}
        self._batches: dict[Position, tuple[int, ...]] = {}
        self._batch_order: list[Position] = []  # a heap of the keys of _batches, and of some removed ones

    def copy(self) -> "AckState":
        """An independent state with the same content."""
        other = AckState(self.mark_delete)
        other._deleted = {ledger_id: bits.copy() for ledger_id, bits in self._deleted.items()}
        other._batches = dict(self._batches)
        other._batch_order = list(self._batch_order)
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AckState):
            return NotImplemented
        return (self.mark_delete, self._deleted, self._batches) == (other.mark_delete, other._deleted, other._batches)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"AckState({self.mark_delete}, {self.deleted_count} above it, {len(self._batches)} batches)"

    # -- acknowledging

    def acknowledge(self, positions: Iterable[Position], ledgers: LedgerList) -> int:
        """Delete individual entries, then advance mark-delete over contiguous deleted entries (C2).

        Returns how many are newly deleted. Positions that are at or below mark-delete, already
        deleted, or not an entry are ignored. Raises InvalidPosition, before any change, for a
        position past the last confirmed entry.
        """
        by_ledger = entries_by_ledger(positions)
        self._check_not_past_end(by_ledger, ledgers)
        newly = 0
        for ledger_id, entries in by_ledger.items():
            if len(entries) == 1:
                newly += self._delete_one(Position(ledger_id, entries[0]), ledgers)
            else:
                newly += self._delete(ledger_id, BitMap([e for e in entries if 0 <= e <= MAX_ENTRY]), ledgers)
        if newly and self._deleted:
            self.advance(ledgers)
        return newly

    def acknowledge_run(self, ledger_id: int, first: int, last: int, ledgers: LedgerList) -> int:
        """Delete entries `first` to `last` of one ledger as `acknowledge` does; returns how many are new."""
        self._check_not_past_end({ledger_id: [last]}, ledgers)
        newly = self._delete(ledger_id, run(first, min(last, ledgers.entries(ledger_id) - 1)), ledgers)
        if newly:
            self.advance(ledgers)
        return newly

    def acknowledge_batch(self, position: Position, words: Sequence[int], ledgers: LedgerList) -> bool:
        """Delete the batch indexes whose bit in `words` is 0, and the entry if none is left.

        Returns whether anything changed.
        """
        self._check_not_past_end({position.ledger_id: [position.entry_id]}, ledgers)
        if not ledgers.exists(position) or self.is_deleted(position):
            return False
        held = self._batches.get(position)
        left = trim_words(words) if held is None else and_words(held, words)
        if not left:
            return bool(self.acknowledge((position,), ledgers))
        if left == held:
            return False
        self._keep_batch(position, left)
        return True

    def acknowledge_cumulative(self, position: Position, ledgers: LedgerList, words: Sequence[int] = ()) -> bool:
        """Delete everything up to `position`, then advance over contiguous deleted entries (C2).

        With `words`, the entry at `position` is a batch, and the indexes with bit 0 are deleted.
        Returns whether anything changed. Raises InvalidPosition as `check_markable` does.
        """
        self.check_markable(position, ledgers)
        before = self.mark_delete
        if left := trim_words(words):
            self._move(max(before, Position(position.ledger_id, max(NO_ENTRY, position.entry_id - 1))))
            changed = self.acknowledge_batch(position, left, ledgers)
            self.advance(ledgers)
            return changed or self.mark_delete != before
        self._move(position)
        self.advance(ledgers)
        return self.mark_delete != before

    def check_markable(self, position: Position, ledgers: LedgerList) -> None:
        """Raise InvalidPosition if `position` is below mark-delete, past the last confirmed entry or no position."""
        if position.entry_id < NO_ENTRY:
            raise InvalidPosition(f"{position} is no position: entries begin at 0, and {NO_ENTRY} is before the first")
        if position > max(ledgers.last_confirmed, self.mark_delete):
            raise InvalidPosition(f"{position} is past the last confirmed entry {ledgers.last_confirmed}")
        if position < self.mark_delete:
            raise InvalidPosition(f"{position} is below mark-delete {self.mark_delete}: reset the cursor to go back")

    def reset(self, mark_delete: Position, batch: BatchDeletion | None = None) -> None:
        """Set mark-delete with nothing acknowledged above it (C7) except the batch indexes of `batch`."""
        self.mark_delete = mark_delete
        self._deleted = {}
        self._batches = {}
        self._batch_order = []
        if batch is not None and batch.position > mark_delete and (words := trim_words(batch.words)):
            self._keep_batch(batch.position, words)

    def move_mark_delete(self, position: Position) -> None:
        """Move mark-delete to `position` (R6, R7, R9); keep what is acknowledged above it."""
        self._move(position)

    def _check_not_past_end(self, by_ledger: "dict[int, list[int]]", ledgers: LedgerList) -> None:
        end = max(ledgers.last_confirmed, self.mark_delete)
        for ledger_id, entries in by_ledger.items():
            if ledger_id >= end.ledger_id:
                past = Position(ledger_id, max(entries))
                if past > end:
                    raise InvalidPosition(f"{past} is past the last confirmed entry {ledgers.last_confirmed}")

    def _delete_one(self, position: Position, ledgers: LedgerList) -> int:
        """Delete one entry, in order or not: the most common acknowledgement."""
        ledger_id, entry_id = position
        if position <= self.mark_delete or not 0 <= entry_id < min(ledgers.entries(ledger_id), MAX_ENTRY + 1):
            return 0
        in_order = (ledger_id, entry_id - 1) == self.mark_delete
        bits = self._deleted.get(ledger_id)
        if in_order and bits is None:
            self._move(position)
            return 1
        if bits is None:
            bits = self._deleted[ledger_id] = BitMap()
        elif entry_id in bits:
            return 0
        bits.add(entry_id)
        self._batches.pop(position, None)
        return 1

    def _delete(self, ledger_id: int, entries: BitMap, ledgers: LedgerList) -> int:
        """Add those of `entries` that exist above mark-delete; returns how many are new."""
        count = ledgers.entries(ledger_id)
        entries.remove_range(min(count, MAX_ENTRY), MAX_ENTRY + 1)
        if ledger_id < self.mark_delete.ledger_id:
            return 0
        if ledger_id == self.mark_delete.ledger_id:
            entries.remove_range(0, self.mark_delete.entry_id + 1)
        if not entries:
            return 0
        bits = self._deleted.get(ledger_id)
        if bits is None:
            self._deleted[ledger_id] = entries
            newly = len(entries)
        else:
            before = len(bits)
            bits |= entries
            newly = len(bits) - before
        if self._batches:
            self._forget_batches(ledger_id, entries)
        return newly

    def _keep_batch(self, position: Position, words: tuple[int, ...]) -> None:
        if position not in self._batches:
            if len(self._batch_order) > 2 * len(self._batches) + FEW:  # mark-delete stays, and most are whole since
                self._batch_order = sorted(self._batches)
            heapq.heappush(self._batch_order, position)
        self._batches[position] = words

    def _forget_batches(self, ledger_id: int, entries: BitMap) -> None:
        if len(entries) < len(self._batches):
            gone = [p for e in entries if (p := Position(ledger_id, e)) in self._batches]
        else:
            gone = [p for p in self._batches if p.ledger_id == ledger_id and p.entry_id in entries]
        for position in gone:
            del self._batches[position]

    def _move(self, position: Position) -> None:
        """Set mark-delete and forget what is not above it."""
        self.mark_delete = position
        for ledger_id in [ledger_id for ledger_id in self._deleted if ledger_id <= position.ledger_id]:
            bits = self._deleted[ledger_id]
            if ledger_id == position.ledger_id:
                bits.remove_range(0, position.entry_id + 1)
            if ledger_id < position.ledger_id or not bits:
                del self._deleted[ledger_id]
        while self._batch_order and self._batch_order[0] <= position:
            self._batches.pop(heapq.heappop(self._batch_order), None)

    def advance(self, ledgers: LedgerList) -> None:
        """Move mark-delete over contiguous deleted entries, across ledger ends and empty ledgers (C2)."""
        ledger_id, entry_id = reached = self.mark_delete
        while self._deleted:
            if entry_id + 1 >= ledgers.entries(ledger_id):
                following = ledgers.next_id(ledger_id)
                if following is None:
                    break
                ledger_id, entry_id = following, NO_ENTRY
                continue
            bits = self._deleted.get(ledger_id)
            if bits is None or entry_id + 1 not in bits:
                break
            entry_id = run_end(bits, entry_id + 1)
            reached = Position(ledger_id, entry_id)
        if reached != self.mark_delete:
            self._move(reached)

    # -- queries

    def is_deleted(self, position: Position) -> bool:
        """Whether the entry is acknowledged, at or below mark-delete or individually."""
        if position <= self.mark_delete:
            return True
        bits = self._deleted.get(position.ledger_id)
        return bits is not None and 0 <= position.entry_id <= MAX_ENTRY and position.entry_id in bits

    @property
    def deleted_count(self) -> int:
        """Individually deleted entries above mark-delete."""
        return sum(map(len, self._deleted.values()))

    def deleted_above(self, position: Position) -> int:
        """Individually deleted entries above `position` (and above mark-delete)."""
        count = 0
        for ledger_id, bits in self._deleted.items():
            if ledger_id > position.ledger_id:
                count += len(bits)
            elif ledger_id == position.ledger_id:
                count += bits.range_cardinality(max(0, min(position.entry_id + 1, MAX_ENTRY)), MAX_ENTRY + 1)
        return count

    def deleted_per_ledger(self) -> list[tuple[int, int]]:
        """Ledgers with individually deleted entries, in order, and the number of these entries."""
        return [(ledger_id, len(self._deleted[ledger_id])) for ledger_id in sorted(self._deleted)]

    def live_runs(self, ledger_id: int, first: int, last: int) -> list[EntryRun]:
        """The entries of `ledger_id` from `first` to `last` that are not deleted, as runs in order."""
        if ledger_id < self.mark_delete.ledger_id:
            return []
        if ledger_id == self.mark_delete.ledger_id:
            first = max(first, self.mark_delete.entry_id + 1)
        if first > last:
            return []
        bits = self._deleted.get(ledger_id)
        if bits is None:
            return [EntryRun(first, last)]
        live: list[EntryRun] = []
        for deleted in runs(bits & run(first, last)):
            if first < deleted.first:
                live.append(EntryRun(first, deleted.first - 1))
            first = deleted.last + 1
        if first <= last:
            live.append(EntryRun(first, last))
        return live

    def nth_live(self, ledger_id: int, first: int, n: int) -> int:
        """The entry id of the `n`-th (from 1) entry of `ledger_id` at or above `first` that is not deleted."""
        bits = self._deleted.get(ledger_id)
        if bits is None:
            return first + n - 1
        low, high = first, first + n - 1 + len(bits)
        while low < high:
            middle = (low + high) // 2
            live = middle - first + 1 - bits.range_cardinality(first, middle + 1)
            if live >= n:
                high = middle
            else:
                low = middle + 1
        return low

    def batch_words(self, position: Position) -> tuple[int, ...] | None:
        """Words of the partly acknowledged batch at `position` (1: not yet acknowledged), or None."""
        return self._batches.get(position)

    # -- conversion

    @property
    def range_count(self) -> int:
        """How many ranges `ranges()` would return."""
        return sum(len(edges.firsts) for edges in self.edge_arrays())

    def ranges(self, limit: int | None = None) -> list[PositionRange]:
        """Deleted entries above mark-delete as ranges, in order, each within one ledger.

        Ranges are open below and closed above. With `limit`, only the first ones.
        """
        if limit is None:
            return ranges_of(list(self.edge_arrays()))
        return list(islice(chain.from_iterable(ranges_of([each]) for each in self.edge_arrays()), limit))

    def describe_ranges(self, limit: int | None = None) -> str:
        """The ranges as Pulsar prints them, `[(3:1..3:2],(4:-1..4:0]]`; after `limit` of them, a count."""
        shown = self.ranges(limit)
        left = 0 if limit is None else self.range_count - len(shown)
        return f"[{','.join(map(str, shown))}{f',… {left} more' if left else ''}]"

    @property
    def word_count(self) -> int:
        """How many words `ledger_bits()` would have."""
        return sum(bits.max() // BITS_PER_WORD + 1 for bits in self._deleted.values())

    def ledger_bits(self) -> tuple[LedgerBits, ...]:
        """Deleted entries above mark-delete as bit-set words (bit = entry id, 1 = deleted), in order of ledgers."""
        return tuple(LedgerBits(words.ledger_id, words=words.all_words()) for words in self.word_arrays())

    def edge_arrays(self) -> Iterator[EdgeArrays]:
        """The ranges as arrays, one item per ledger, in order."""
        return (edges_of(ledger_id, self._deleted[ledger_id]) for ledger_id in sorted(self._deleted))

    def word_arrays(self) -> Iterator[WordArrays]:
        """The nonzero bit-set words as arrays, one item per ledger, in order."""
        return (words_of(ledger_id, self._deleted[ledger_id]) for ledger_id in sorted(self._deleted))

    @property
    def has_batches(self) -> bool:
        """Whether a batch is partly acknowledged."""
        return bool(self._batches)

    def batch_deletions(self) -> tuple[BatchDeletion, ...]:
        """Partly acknowledged batches above mark-delete, in order."""
        return tuple(BatchDeletion(position, self._batches[position]) for position in sorted(self._batches))

    @classmethod
    def recover(
        cls,
        mark_delete: Position,
        ledgers: LedgerList,
        *,
        ranges: Iterable[PositionRange] = (),
        ledger_bits: Iterable[LedgerBits] = (),
        batch_deletions: Iterable[BatchDeletion] = (),
    ) -> tuple["AckState", tuple[str, ...]]:
        """The state in a record, fitted to the topic's ledgers (R7), and warnings about omitted parts.

        Mark-delete is not changed. Parts at or below it are omitted without a warning, since they
        are deleted anyway.
        """
        state = cls(mark_delete)
        warnings: list[str] = []
        for ledger_id, deleted in state._split(ranges, ledgers, warnings).items():
            state._delete(ledger_id, deleted, ledgers)
        for bits in ledger_bits:
            state._recover_bits(bits, ledgers, warnings)
        for batch in batch_deletions:
            state._recover_batch(batch, ledgers, warnings)
        return state, tuple(warnings)

    def _split(self, ranges: Iterable[PositionRange], ledgers: LedgerList, warnings: list[str]) -> dict[int, BitMap]:
        """The entries of `ranges` by ledger; may include entries not above mark-delete."""
        found: defaultdict[int, BitMap] = defaultdict(BitMap)
        wrong: defaultdict[str, list[PositionRange]] = defaultdict(list)
        count_of, count = NO_ENTRY, 0
        for item in ranges:
            (ledger_id, lower), (last_ledger, upper) = item
            if ledger_id != count_of:
                count_of, count = ledger_id, ledgers.entries(ledger_id)
            if ledger_id == last_ledger and NO_ENTRY <= lower < upper < count:
                found[ledger_id].add_range(lower + 1, upper + 1)
            elif self._is_useful(item, ledgers, wrong):
                for part in ledgers.between(ledger_id, last_ledger):
                    first = lower + 1 if part == ledger_id else 0
                    last = upper if part == last_ledger else MAX_ENTRY
                    found[part] |= run(first, min(last, ledgers.entries(part) - 1))
        for what, (first_one, *others) in wrong.items():  # a lost ledger may hold a million of them
            warnings.append(f"range {first_one} {what}" + (f" ({len(others):,} more like it)" if others else ""))
        return found

    def _is_useful(self, item: PositionRange, ledgers: LedgerList, wrong: dict[str, list[PositionRange]]) -> bool:
        """Whether an unusual range has entries to use; records what is wrong with it."""
        lower, upper = item
        if upper < lower or upper.entry_id < NO_ENTRY or lower.entry_id < NO_ENTRY:
            wrong["is invalid: skipped"].append(item)
            return False
        if upper <= self.mark_delete or upper == lower:
            return False
        missing = [end for end in (lower.ledger_id, upper.ledger_id) if end not in ledgers]
        if missing:
            wrong[f"covers missing ledger {missing[0]}: that part dropped"].append(item)
        elif upper.entry_id >= ledgers.entries(upper.ledger_id):
            wrong[f"extends past the end of ledger {upper.ledger_id}: that part dropped"].append(item)
        return True

    def _recover_bits(self, item: LedgerBits, ledgers: LedgerList, warnings: list[str]) -> None:
        try:
            bits = BitMap.deserialize(item.bitmap) if item.bitmap else bits_of_words(item.words)
        except ValueError as error:
            warnings.append(f"bitmap of ledger {item.ledger_id} is invalid ({error}): skipped")
            return
        if not bits or item.ledger_id < self.mark_delete.ledger_id:
            return
        if item.ledger_id not in ledgers:
            warnings.append(f"deleted entries of missing ledger {item.ledger_id}: dropped")
            return
        if bits.max() >= ledgers.entries(item.ledger_id):
            warnings.append(f"deleted entries past the end of ledger {item.ledger_id}: dropped")
        self._delete(item.ledger_id, bits, ledgers)

    def _recover_batch(self, item: BatchDeletion, ledgers: LedgerList, warnings: list[str]) -> None:
        if self.is_deleted(item.position):
            return
        if not ledgers.exists(item.position):
            warnings.append(f"batch indexes of {item.position}, which is not an entry: dropped")
            return
        if words := trim_words(item.words):
            self._keep_batch(item.position, words)
        else:
            self._delete(item.position.ledger_id, BitMap((item.position.entry_id,)), ledgers)
