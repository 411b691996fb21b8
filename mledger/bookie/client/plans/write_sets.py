"""Which bookies of an ensemble hold an entry (Q1): entry e is on the Wq indexes (e + i) mod E, i < Wq; no I/O."""

from collections.abc import Sequence


def write_set(entry: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """The ensemble indexes that hold `entry`, in reading order (Q1)."""
    return tuple((entry + i) % ensemble_size for i in range(write_quorum))


def belongs(entry: int, index: int, ensemble_size: int, write_quorum: int) -> bool:
    """Whether ensemble index `index` is in the write set of `entry` (Q1)."""
    return (index - entry) % ensemble_size < write_quorum


def entries_of(index: int, first: int, last: int, ensemble_size: int, write_quorum: int) -> Sequence[int]:
    """The entries `first` to `last` that belong to `index` (Q1)."""
    if write_quorum == ensemble_size:
        return range(first, last + 1)
    return [entry for entry in range(first, last + 1) if belongs(entry, index, ensemble_size, write_quorum)]
