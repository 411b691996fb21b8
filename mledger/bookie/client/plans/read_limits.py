"""Reads that are limited by bytes: how many entries to ask for, and when to ask no more. No I/O.

Sizes of entries are not known before they come. A request for what little is left of a limit costs a round trip and
brings next to nothing, so a read ends near its limit.
"""

_LITTLE = 8  # as little as this part of a limit is not worth a request
_UNKNOWN_BYTES = 16 << 10


def mean_size(length: int, last_entry: int) -> int:
    """The mean bytes of the entries up to `last_entry` of a ledger with `length` bytes.

    Java's recovery closes a ledger with entries at length 0 if its last ensemble has none: 16 KiB are assumed then.
    """
    if last_entry < 0:
        return 1
    return length // (last_entry + 1) if length else _UNKNOWN_BYTES


def entries_within(size: int, mean: int) -> int:
    """How many entries of `mean` bytes have `size` bytes together; at least 1."""
    return max(1, size // max(1, mean))


def is_enough(entries: int, size: int, most: int) -> bool:
    """Whether a read of at most about `most` bytes ends with so many entries, which have `size` bytes."""
    left = most - size
    return entries > 0 and (left <= 0 or left * _LITTLE < most or left * entries < size)
