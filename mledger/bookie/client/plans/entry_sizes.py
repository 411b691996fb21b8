"""Which entries an append may have, by their sizes: the one place that refuses them; no I/O."""

from collections.abc import Sequence

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


def checked_batch(entries: Sequence[bytes], largest: int) -> tuple[bytes, ...]:
    """The entries of a batch, which nobody can change while it waits or is written again: callers reuse their lists.

    Raises what is wrong with the batch: ValueError, TypeError, EntryTooLarge.
    """
    batch = tuple(entries)
    if not batch:
        raise ValueError("an empty batch: give at least one entry")
    if not _BYTES.issuperset(map(type, batch)):
        batch = tuple(map(_as_bytes, batch))
    checked_size(batch, largest, "", "maxMessageSize here and the frame limit of the bookies")
    return batch


def _as_bytes(entry: object) -> bytes:
    if isinstance(entry, bytes | bytearray) or (isinstance(entry, memoryview) and entry.nbytes == len(entry)):
        return bytes(entry)
    raise TypeError(f"an entry is bytes, not {type(entry).__name__}")
