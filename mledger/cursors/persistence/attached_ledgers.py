"""Ledgers that a cursor's own properties name, such as those with an index of delayed messages (R10).

- Such a ledger is created under a pending record. The write of the cursor's record that first names it removes that.
- The write that names it no longer records it for deletion. So a crash at any point leaves no ledger without a record.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence

from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.errors import BookieError
from mledger.ledgers.ledger_factory import CustomMetadata, LedgerFactory
from mledger.ledgers.orphans.pending_records import bucket_ledgers
from mledger.metastore.errors import MetadataError
from mledger.metastore.store import Operation

_Properties = Iterable[tuple[str, str]]


class CursorAttachments:
    """The ledgers of one cursor whose naming is not durable yet, or no longer."""

    def __init__(self, factory: LedgerFactory, delete_later: Callable[[int], None]) -> None:
        self._factory = factory
        self._delete_later = delete_later
        self._new: set[int] = set()
        self._old: set[int] = set()
        self._named: set[int] = set()  # of those made here

    async def create(self, custom: CustomMetadata, entries: Sequence[bytes]) -> int:
        """A new closed ledger with `entries`; properties that are set next may name it.

        Raises BookieError and MetadataError: there is no ledger then.
        """
        writer = await self._factory.create_attached_ledger(custom)
        try:
            await writer.append(entries)
            await writer.close()
        except BaseException:
            with contextlib.suppress(BookieError, MetadataError):  # its pending record stays: a replay deletes it
                await self._factory.discard(writer)
            self._factory.settled(writer.ledger_id)
            raise
        self._factory.on_step("attached ledger written")
        self._new.add(writer.ledger_id)
        return writer.ledger_id

    async def open(self, ledger_id: int) -> LedgerReader:
        """Open such a ledger to read it."""
        return await self._factory.open_to_read(ledger_id)

    def drop(self, ledger_ids: Iterable[int]) -> None:
        """Delete these once no property names them any more."""
        self._old.update(ledger_ids)

    def owned(self, properties: _Properties) -> set[int]:
        """What goes with a cursor whose record has these properties: of ledgers made here what it names or named."""
        return self._old | self._named.intersection(bucket_ledgers(properties))

    def operations(self, properties: _Properties) -> list[Operation]:
        """The operations to include in the write of a record with these properties."""
        named = set(bucket_ledgers(properties))
        return [
            *(self._factory.listed(each) for each in sorted(self._new & named)),
            *(self._factory.deletion(each) for each in sorted(self._old - named)),
        ]

    def written(self, properties: _Properties) -> None:
        """A record with these properties was written."""
        if not (self._new or self._old):
            return
        named = set(bucket_ledgers(properties))
        for ledger_id in self._new & named:
            self._factory.settled(ledger_id)
        for ledger_id in self._old - named:
            self._delete_later(ledger_id)
        self._named = (self._named | self._new) & named
        self._new -= named
        self._old &= named

    def forget(self) -> None:
        """The cursor was deleted: a replay deletes what no record ever named."""
        for ledger_id in self._new:
            self._factory.settled(ledger_id)
        self._new.clear()
        self._old.clear()
        self._named.clear()
