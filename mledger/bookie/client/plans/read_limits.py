"""Reads that are limited by bytes: how many entries to ask for, and when to ask no more. No I/O.

Sizes of entries are not known before they come. A request for what little is left of a limit costs a round trip and
brings next to nothing, so a read ends near its limit.
"""

_LITTLE = 8  # as little as this part of a limit is not worth a request


def entries_within(size: int, mean: int) -> int:
    """How many entries of `mean` bytes have `size` bytes together; at least 1."""
    return max(1, size // max(1, mean))


def is_enough(entries: int, size: int, most: int) -> bool:
    """Whether a read of at most about `most` bytes ends with so many entries, which have `size` bytes."""
    left = most - size
    return entries > 0 and (left <= 0 or left * _LITTLE < most or left * entries < size)
