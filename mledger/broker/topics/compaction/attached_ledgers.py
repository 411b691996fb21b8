"""Ledgers that cursors name besides cursor ledgers: deleted with the cursor, or once it names them no more."""

from collections.abc import Iterable, Sequence

from mledger.admin.references.attached_ledgers import find_attached, is_compacted_ledger, own_buckets
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.metastore.store import MetadataReader
from mledger.topics.managed_ledger import ManagedLedger


class AttachedLedgers:
    """The compacted ledger and the ledgers with the index of delayed messages of one topic.

    A cursor's properties are text that a client may have written: only what is this topic's by its own metadata counts.
    """

    def __init__(self, managed_ledger: ManagedLedger, store: MetadataReader, bookkeeper: BookKeeperReader) -> None:
        self._managed_ledger = managed_ledger
        self._store = store
        self._bookkeeper = bookkeeper

    async def of_cursor(self, path: str) -> Sequence[int]:
        """What the cursor with this record names; its durable state counts."""
        found = await find_attached(self._store, self._bookkeeper, self._managed_ledger.name, [path])
        return found.by_cursor().get(path, ())

    async def buckets(self, ledger_ids: Iterable[int]) -> Sequence[int]:
        """Those of the ledgers that hold an index of this topic's delayed messages. Raises StoreUnavailable."""
        return await own_buckets(self._store, ledger_ids, self._managed_ledger.name)

    async def is_compacted(self, ledger_id: int) -> bool:
        """Whether a ledger exists that compaction wrote for this topic. Raises StoreUnavailable."""
        await self._store.sync()  # another process may just have written it
        return await is_compacted_ledger(self._store, ledger_id, self._managed_ledger.name)
