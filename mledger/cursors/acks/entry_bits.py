"""Deleted entries of one ledger as a roaring bitmap: its runs, edges and bit-set words; batch words."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyroaring import BitMap

from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.runtime.processes.gc_pause import collector_paused

if TYPE_CHECKING:
    import numpy as np  # imported only for states with holes: read-only commands start sooner without it

    EntryArray = np.ndarray[tuple[int], np.dtype[np.uint32]]

BITS_PER_WORD = 64
_WORD = (1 << BITS_PER_WORD) - 1
MAX_ENTRY = 2**32 - 1  # larger entry ids do not fit a portable RoaringBitmap; no ledger is that long

FEW = 64
"""Of so many ranges or words Python's own numbers are made sooner than arrays."""

_POSITION: Callable[[tuple[int, int]], Position] = partial(tuple.__new__, Position)
_RANGE: Callable[[tuple[Position, Position]], PositionRange] = partial(tuple.__new__, PositionRange)


class EntryRun(NamedTuple):
    """Entries `first` to `last` of one ledger, both included."""

    first: int
    last: int


class EdgeArrays(NamedTuple):
    """First and last entries of all runs of deleted entries of one ledger."""

    ledger_id: int
    firsts: "EntryArray"
    lasts: "EntryArray"


class WordArrays(NamedTuple):
    """Deleted entries of one ledger as `length` bit-set words: `values` at `indexes`, 0 elsewhere."""

    ledger_id: int
    length: int
    indexes: "np.ndarray[tuple[int], np.dtype[np.intp]]"
    values: "np.ndarray[tuple[int], np.dtype[np.uint64]]"

    def all_words(self) -> tuple[int, ...]:
        """All words as signed numbers."""
        import numpy as np

        words = np.zeros(self.length, dtype=np.uint64)
        words[self.indexes] = self.values
        return tuple(words.view(np.int64).tolist())


def run(first: int, last: int) -> BitMap:
    """The bits `first` to `last`, both included; none if `last` is below `first`."""
    bits = BitMap()
    if max(first, 0) <= min(last, MAX_ENTRY):
        bits.add_range(max(first, 0), min(last, MAX_ENTRY) + 1)
    return bits


def run_end(bits: BitMap, start: int) -> int:
    """The last entry of the run of set bits that begins at the set bit `start`."""
    step = 1
    while bits.contains_range(start, start + step + 1) and start + step <= MAX_ENTRY:
        step *= 2
    low, high = start + step // 2, start + step  # low is in the run (start for step 1), high is past it
    while high - low > 1:
        middle = (low + high) // 2
        if bits.contains_range(start, middle + 1):
            low = middle
        else:
            high = middle
    return low


def edges_of(ledger_id: int, bits: BitMap) -> EdgeArrays:
    """The edges of all runs of `bits`, which must not be empty: found without listing the entries between them."""
    import numpy as np

    firsts, lasts = bits - bits.shift(1), bits - bits.shift(-1)
    return EdgeArrays(
        ledger_id,
        np.frombuffer(firsts.to_array(), dtype=np.uint32),
        np.frombuffer(lasts.to_array(), dtype=np.uint32),
    )


def ranges_of(edges: Sequence[EdgeArrays]) -> list[PositionRange]:
    """The runs of these ledgers as ranges, open below, closed above, in order."""
    counts = [len(each.firsts) for each in edges]
    if sum(counts) <= FEW:
        return [
            PositionRange(Position(each.ledger_id, first - 1), Position(each.ledger_id, last))
            for each in edges
            for first, last in zip(each.firsts.tolist(), each.lasts.tolist(), strict=True)
        ]
    import numpy as np

    with collector_paused(sum(counts)):
        # created by the million, of thousands of ledgers: this skips the constructors of the named tuples
        ledger_ids = np.repeat(np.array([each.ledger_id for each in edges]), counts).tolist()
        below = np.concatenate([each.firsts for each in edges]).astype(np.int64) - 1
        lower = map(_POSITION, zip(ledger_ids, below.tolist(), strict=True))
        upper = map(_POSITION, zip(ledger_ids, np.concatenate([each.lasts for each in edges]).tolist(), strict=True))
        return list(map(_RANGE, zip(lower, upper, strict=True)))


def runs(bits: BitMap) -> Iterator[EntryRun]:
    """The runs of `bits`, in order."""
    if not bits:
        return iter(())
    edges = edges_of(0, bits)
    return map(EntryRun, edges.firsts.tolist(), edges.lasts.tolist())


def words_of(ledger_id: int, bits: BitMap) -> WordArrays:
    """The bit-set words of `bits`, which must not be empty: made from the edges, without listing the entries."""
    import numpy as np

    edges = edges_of(ledger_id, bits)
    if len(edges.firsts) <= FEW and bits.max() < FEW * BITS_PER_WORD:
        return _few_words_of(edges)
    changes = np.column_stack((edges.firsts.astype(np.int64), edges.lasts.astype(np.int64) + 1)).ravel()
    indexes, starts = np.unique(changes // BITS_PER_WORD, return_index=True)
    words = np.zeros(int(indexes[-1]) + 1, dtype=np.uint64)
    words[indexes] = np.bitwise_xor.reduceat(np.uint64(1) << (changes % BITS_PER_WORD).astype(np.uint64), starts)
    for shift in (1, 2, 4, 8, 16, 32):  # a bit is set where an odd number of changes came up to it: in its word …
        words ^= words << np.uint64(shift)
    in_run = np.bitwise_xor.accumulate(words >> np.uint64(BITS_PER_WORD - 1))
    words[1:] ^= np.uint64(0) - in_run[:-1]  # … and in the words before
    used = np.flatnonzero(words)
    return WordArrays(ledger_id, int(used[-1]) + 1, used, words[used])


def _few_words_of(edges: EdgeArrays) -> WordArrays:
    import numpy as np

    number = 0
    for first, last in zip(edges.firsts.tolist(), edges.lasts.tolist(), strict=True):
        number |= (2 << last) - (1 << first)
    length = -(-number.bit_length() // BITS_PER_WORD)
    words = np.frombuffer(number.to_bytes(length * BITS_PER_WORD // 8, "little"), dtype="<u8")
    used = np.flatnonzero(words)
    return WordArrays(edges.ledger_id, length, used, words[used])


def bits_of_words(words: Sequence[int]) -> BitMap:
    """The set bits of signed 64-bit words; bits beyond the bitmap's range are an error."""
    import numpy as np

    packed = np.array([word & (2**64 - 1) for word in words], dtype="<u8")
    entries = np.flatnonzero(np.unpackbits(packed.view(np.uint8), bitorder="little"))
    return BitMap(array("I", entries.astype(np.uint32).tobytes()))  # of another sequence it would take each number


def trim_words(words: Sequence[int]) -> tuple[int, ...]:
    """The words without trailing zeros; empty if no index is left."""
    end = len(words)
    while end and words[end - 1] == 0:
        end -= 1
    return tuple(words[:end])


def count_words(words: Sequence[int]) -> int:
    """How many indexes are set in words, which may be signed."""
    return sum((word & _WORD).bit_count() for word in words)


def and_words(held: Sequence[int], words: Sequence[int]) -> tuple[int, ...]:
    """The indexes set in both, without trailing zero words."""
    return trim_words([a & b for a, b in zip(held, words, strict=False)])
