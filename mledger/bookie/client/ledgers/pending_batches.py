"""The incomplete batches of one ledger: the one place that holds their payloads.

A batch is complete when all its entries are acknowledged and no batch before it is incomplete (M5). Until then its
payloads are kept: they are sent again to a bookie that replaces a failed one (Q2), and written to another ledger when
this one ends (M4). While a bookie is reconnected that was lost when it owed nothing, some of those are held, too, that
are complete by then: without them it would have a gap for good.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

from mledger.metastore.errors import MledgerError

_MOST_HELD, _ENTRY_BYTES = 64 << 10, 100
"""Bytes of complete batches that one ledger holds, and what an entry counts beside its payload."""


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
        self._held: deque[PendingBatch] = deque()
        self._holding, self._held_bytes = False, 0

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
            if self._holding:
                self._keep(batch)
            if not batch.future.done():
                batch.future.set_result(batch.first)
        if not batches and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def hold(self) -> None:
        """Hold batches that are complete from now on: a bookie that is reconnected was not sent them."""
        self._holding = True

    def release(self) -> None:
        """Hold no complete batches any more."""
        self._held.clear()
        self._holding, self._held_bytes = False, 0

    def _keep(self, batch: PendingBatch) -> None:
        self._held.append(batch)
        self._held_bytes += sum(map(len, batch.payloads), _ENTRY_BYTES * len(batch.payloads))
        if self._held_bytes > _MOST_HELD:
            self.release()

    @property
    def held_from(self) -> int:
        """The entry from which on every batch is here, complete or not."""
        first = next(chain(self._held, self._batches), None)
        return self._complete_below if first is None else first.first

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
        """The batches with entries from `entry` on, those that are held first."""
        return (batch for batch in chain(self._held, self._batches) if batch.end > entry)


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
