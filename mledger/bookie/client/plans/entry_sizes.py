"""Which entries an append may have, by their sizes: the one place that refuses them; no I/O."""

from collections.abc import Sequence
from typing import cast

from mledger.bookie.errors import EntryTooLarge

_BYTES = frozenset({bytes})


def checked_size(entries: Sequence[bytes], largest: int, place: str, raise_what: str) -> int:
    """The payload bytes of `entries`, of which none has more than `largest`.

    `place` goes before the error's text, `raise_what` says which settings allow more.

    Raises:
        EntryTooLarge: one passes the limit.
    """
    size = sum(map(len, entries))
    if size > largest:
        longest = max(map(len, entries))
        if longest > largest:
            raise EntryTooLarge(
                f"{place}an entry of {longest} bytes passes the limit of {largest}: split it, or raise {raise_what}"
            )
    return size


def check_batch(entries: Sequence[bytes], largest: int) -> None:
    """Raise what is wrong with a batch before it waits with those of others: ValueError, TypeError, EntryTooLarge."""
    if not entries:
        raise ValueError("an empty batch: give at least one entry")
    if not _BYTES.issuperset(map(type, entries)):
        for each in cast("Sequence[object]", entries):
            whole = isinstance(each, memoryview) and each.nbytes == len(each)
            if not whole and not isinstance(each, bytes | bytearray):
                raise TypeError(f"an entry is bytes, not {type(each).__name__}")
    checked_size(entries, largest, "", "maxMessageSize here and the frame limit of the bookies")
