"""The incomplete batches of one ledger: the one place that holds their payloads.

A batch is complete when all its entries are acknowledged and no batch before it is incomplete (M5). Until then its
payloads are kept: they are sent again to a bookie that replaces a failed one (Q2), and written to another ledger when
this one ends (M4).
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

from mledger.metastore.errors import MledgerError


class PendingBatch(Struct):
    """Entries sent together: payloads of an append, or stored entries that recovery writes back."""

    first: int
    end: int  # the entry after the last one
    payloads: Sequence[bytes]
    last_add_confirmed: int
    length: int  # the ledger's, in bytes, before this batch
    future: asyncio.Future[int]
    last_frame: Sequence[bytes] = ()  # the parts of the last entry's frame


class PendingBatches:
    """Batches in the order of their entries, oldest first."""

    def __init__(self) -> None:
        self._batches: deque[PendingBatch] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._complete_below = 0
        self._complete_frame: Sequence[bytes] = ()  # of the entry before it, as its batch kept it

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: PendingBatch) -> None:
        """Keep the batch that follows the last one."""
        self._batches.append(batch)

    def are_ready(self, below: int) -> bool:
        """Whether `complete` would complete a batch: every entry of the first one is below `below`."""
        return bool(self._batches) and self._batches[0].end <= below

    def complete(self, below: int) -> None:
        """Complete the batches whose entries are all below `below`, the first entry not acknowledged (M5)."""
        batches = self._batches
        while batches and batches[0].end <= below:
            batch = batches.popleft()
            self._complete_below, self._complete_frame = batch.end, batch.last_frame
            if not batch.future.done():
                batch.future.set_result(batch.first)
        if not batches and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def frame_before(self, entry: int) -> Sequence[bytes]:
        """The frame of the last entry that is complete, as its batch kept it, unless others lie between it and `entry`.

        Those are acknowledged, and their batch is not complete yet.
        """
        return self._complete_frame if self._complete_below >= entry else ()

    def fail(self, failure: MledgerError) -> None:
        """Fail every incomplete batch; keep the payloads."""
        for batch in self._batches:
            set_failure(batch.future, failure)
        if self._idle is not None:
            set_failure(self._idle, failure)

    async def drained(self) -> None:
        """Return when every batch is complete; raises the failure of the batches."""
        if self._batches:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def payloads_from(self, entry: int) -> list[bytes]:
        """The payloads from `entry` on, in order."""
        return list(chain.from_iterable(batch.payloads[max(0, entry - batch.first) :] for batch in self._batches))

    def length_below(self, entry: int, length: int) -> int:
        """The ledger's length in bytes before `entry`; `length` is that of all entries sent."""
        for batch in self._batches:
            if batch.end > entry:
                return batch.length + sum(map(len, batch.payloads[: max(0, entry - batch.first)]))
        return length

    def since(self, entry: int) -> Iterator[PendingBatch]:
        """The batches with entries from `entry` on."""
        return (batch for batch in self._batches if batch.end > entry)


def failed_future(failure: MledgerError) -> asyncio.Future[int]:
    """A future that has failed already."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    set_failure(future, failure)
    return future


def set_failure(future: "asyncio.Future[int] | asyncio.Future[None]", failure: MledgerError) -> None:
    """Fail `future` unless it is done; if nobody retrieves the failure, asyncio logs nothing at exit."""
    if not future.done():
        future.set_exception(failure)
        future.exception()
