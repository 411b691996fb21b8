"""What dispatch needs to know of entries: read from their metadata by the protocol, used by the dispatchers (D4)."""

from collections.abc import Sequence
from typing import NamedTuple

NO_KEY_HASH = 0
"""The key hash of an entry that was not hashed; hashes of keys are from 1 to `KEY_HASHES` - 1."""
KEY_HASHES = 65_536
"""The number of key hashes: Pulsar's default range."""


class MessageChunk(NamedTuple):
    """An entry that is a part of a message: `number` counts from 0, `uuid` names the message."""

    uuid: str
    number: int
    is_last: bool


class EntryFacts(NamedTuple):
    """One entry: its messages, the hash of its key, when it is due, its size.

    `messages` are those of the batch that are left to deliver: its size less the batch indexes already
    acknowledged, at least 1. `deliver_at_ms` is in milliseconds since 1970, 0 for at once. `size` is in bytes.
    `chunk` is None if the entry has whole messages.
    """

    messages: int
    size: int
    key_hash: int = NO_KEY_HASH
    deliver_at_ms: int = 0
    chunk: MessageChunk | None = None


class FactsRun(NamedTuple):
    """Consecutive entries of one ledger, the facts in columns: entry `first_entry + i` has those at index `i`.

    `key_hashes` is None if nobody needs them, `deliver_at_ms` is None if no entry is delayed, `chunks` if none is a
    chunk. A run has at least one entry, and no entry that has nothing left to deliver: whoever makes it divides a run
    there.
    """

    ledger_id: int
    first_entry: int
    messages: Sequence[int]
    sizes: Sequence[int]
    key_hashes: Sequence[int] | None = None
    deliver_at_ms: Sequence[int] | None = None
    chunks: Sequence[MessageChunk | None] | None = None

    @classmethod
    def of(cls, ledger_id: int, first_entry: int, facts: Sequence[EntryFacts]) -> "FactsRun":
        """The run of these entries."""
        messages, sizes, hashes, due, chunks = zip(*facts, strict=True)
        delayed, chunked = due if any(due) else None, chunks if any(chunks) else None
        return cls(ledger_id, first_entry, messages, sizes, hashes, delayed, chunked)

    def chunks_at(self, indexes: Sequence[int]) -> int:
        """How many of the entries at these indexes are chunks."""
        chunks = self.chunks
        return 0 if chunks is None else sum(chunks[index] is not None for index in indexes)
