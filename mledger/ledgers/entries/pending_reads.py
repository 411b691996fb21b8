"""Reads from bookies that are under way, which all share that want the same entries meanwhile (D6)."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from mledger.bookie.errors import BookieError, NoSuchEntry, NoSuchLedger


class EntryRange(Struct, frozen=True):
    """Entries `first` to `last` of a ledger."""

    first: int
    last: int


class RangePlan(Struct, frozen=True):
    """Wait for the read `awaited`, or if that is None, read up to `last`."""

    awaited: EntryRange | None
    last: int


def plan_range(wanted: EntryRange, pending: Iterable[EntryRange], cached_from: int | None = None) -> RangePlan:
    """How to get the first of the `wanted` entries without reading one that comes, or is there, anyway.

    Args:
        wanted: the first of them is not cached.
        pending: what is being read.
        cached_from: the next entry after the first wanted one that is cached.
    """
    last = wanted.last if cached_from is None else min(wanted.last, cached_from - 1)
    for each in pending:
        if each.first <= wanted.first <= each.last:
            return RangePlan(each, wanted.last)
        if wanted.first < each.first:
            last = min(last, each.first - 1)
    return RangePlan(None, last)


class PendingRead:
    """One read; what it found is there for those who wait once it has ended."""

    __slots__ = ("_ended", "failure", "payloads", "range")

    def __init__(self, wanted: EntryRange) -> None:
        self.range = wanted
        self.payloads: Sequence[bytes] = ()
        """The first of the wanted entries, all or as many as came; none if the read did not end well."""
        self.failure: BookieError | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """Wake those who wait."""
        self._ended.set_result(None)

    async def from_entry(self, first: int) -> Sequence[bytes]:
        """What it finds from an entry on; nothing if it is cancelled or ends before that, or finds an entry missing.

        Raises:
            BookieError: it failed otherwise: bookies do not answer.
        """
        await asyncio.wait([self._ended])
        if self.failure is not None:
            raise self.failure
        return self.payloads[first - self.range.first :]


class PendingReads:
    """The reads of one topic that are under way."""

    def __init__(self) -> None:
        self._reads: dict[int, dict[EntryRange, PendingRead]] = {}

    def plan(self, ledger_id: int, wanted: EntryRange, cached_from: int | None) -> RangePlan:
        """As `plan_range`."""
        return plan_range(wanted, self._reads.get(ledger_id, ()), cached_from)

    def awaited(self, ledger_id: int, plan: EntryRange) -> PendingRead:
        """The read of a range that is under way."""
        return self._reads[ledger_id][plan]

    @contextmanager
    def begin(self, ledger_id: int, wanted: EntryRange) -> Iterator[PendingRead]:
        """Let others wait for a read until the block ends, in which `payloads` is set."""
        reads = self._reads.setdefault(ledger_id, {})
        read = reads[wanted] = PendingRead(wanted)
        try:
            yield read
        except (NoSuchEntry, NoSuchLedger):  # it may not be one that the others want
            raise
        except BookieError as error:
            read.failure = error
            raise
        finally:
            del reads[wanted]
            if not reads:
                del self._reads[ledger_id]
            read.end()
