"""Which entries an append may have, by their sizes: the one place that refuses them; no I/O."""

from collections.abc import Sequence

from mledger.bookie.errors import EntryTooLarge


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
