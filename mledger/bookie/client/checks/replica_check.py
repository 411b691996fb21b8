"""Reads every copy of a ledger's entries, bookie by bookie, and checks its digest; fences and writes nothing.

Where every bookie of an ensemble has all entries, each bookie is read by batch reads, one after another. A copy that a
batch read does not return is read alone, and only that answer counts.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.client.connections.frames import StoredEntry, open_batch, open_entry
from mledger.bookie.client.connections.pool import BookiePool
from mledger.bookie.client.plans.bad_copies import DAMAGED, MISSING, UNREADABLE
from mledger.bookie.client.plans.read_limits import entries_within, mean_size
from mledger.bookie.client.plans.replicas import (
    CopyRun,
    LedgerCheck,
    LedgerFragment,
    OtherCopies,
    spans,
    split_behind,
    uncovered,
)
from mledger.bookie.client.plans.write_sets import entries_of
from mledger.bookie.digest import Digest
from mledger.bookie.errors import BookieRefused, BookieUnavailable, Code
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.runtime.rate_limiter import RateLimiter

CHUNK_BYTES = 512 << 10  # asked of one bookie at once
WINDOW = 64  # single reads of one bookie under way, at first
MOST_WINDOW = 1024
WINDOW_BYTES = 16 << 20  # of entries in a window: what does not come in time counts as not readable
NO_BATCHES = (Code.BAD_REQUEST, Code.BAD_VERSION)

CopiesSink = Callable[[int, int], None]


def ignore_copies(copies: int, size: int) -> None:
    """Ignore the number of copies checked."""


def most_at_once(last_entry: int, length: int) -> int:
    """How many entries to ask a bookie for at once of a ledger with `length` payload bytes up to `last_entry`."""
    return min(MOST_WINDOW, entries_within(WINDOW_BYTES, mean_size(length, last_entry)))


class _Copies(Struct):
    """The copies of a span that one bookie has."""

    whole: int = 0
    size: int = 0
    bad: list[CopyRun] = field(default_factory=list)
    away: list[CopyRun] = field(default_factory=list)
    after_bad: bool = False  # whether the copy judged last was bad

    @property
    def judged(self) -> int:
        """The number of judged copies; copies are judged in the order of entries."""
        return self.whole + sum(run.count for run in self.bad)

    def note_whole(self, count: int, size: int) -> None:
        """Count `count` whole copies."""
        self.whole, self.size = self.whole + count, self.size + size
        self.after_bad = self.after_bad and not count

    def note_bad(self, bookie: str, entry: int, reason: str) -> None:
        """Note that the copy of `entry` is bad; bad copies without a whole one between them form one run."""
        last = self.bad[-1] if self.bad else None
        if last is not None and self.after_bad and last.reason == reason:
            self.bad[-1] = replace(last, last=entry, count=last.count + 1)
        else:
            self.bad.append(CopyRun(bookie, entry, entry, 1, reason))
        self.after_bad = True


class ReplicaCheck:
    """Checks ledgers, one after another or several at once; `on_copies` gets the number of copies checked."""

    def __init__(self, pool: BookiePool, rate_limiter: RateLimiter, on_copies: CopiesSink = ignore_copies) -> None:
        self._pool, self._rate_limiter, self._on_copies = pool, rate_limiter, on_copies
        self._no_batches: set[str] = set()

    async def check(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        digest: Digest,
        last_entry: int,
        length: int,
        warnings: tuple[str, ...] = (),
    ) -> LedgerCheck:
        """Check every copy of the entries 0 to `last_entry`, which have `length` payload bytes together.

        The result names bookies that do not answer.
        """
        closed = metadata.state is LedgerState.CLOSED
        parts, window = spans(metadata, last_entry), most_at_once(last_entry, length)
        found = [
            await self._span(ledger_id, metadata, digest, span, window, settled=closed or span is not parts[-1])
            for span in parts
        ]
        return LedgerCheck(
            ledger_id=ledger_id,
            state=metadata.state,
            entries=last_entry + 1,
            whole=sum(each.whole for each in found),
            size=sum(each.size for each in found),
            bad=tuple(run for each in found for run in each.bad),
            away=tuple(run for each in found for run in each.away),
            behind=tuple(run for each in found for run in each.behind),
            lost=tuple(run for each in found for run in each.lost),
            unreachable=tuple(run for each in found for run in each.unreachable),
            warnings=warnings,
        )

    async def check_other(
        self, ledger_id: int, metadata: LedgerMetadata, digest: Digest, bookie: str, other: str
    ) -> OtherCopies:
        """Check the copies that `other` has of what `bookie` should have of a closed ledger (Q1)."""
        found = []
        window = most_at_once(metadata.last_entry, metadata.length)
        for span in spans(metadata, metadata.last_entry):
            if bookie in span.bookies:
                index = span.bookies.index(bookie)
                bookies = (*span.bookies[:index], other, *span.bookies[index + 1 :])
                span = replace(span, bookies=bookies)
                reading = _SpanReading(self, ledger_id, span, metadata.write_quorum, digest, window)
                found.append(await reading.copies(index))
        return OtherCopies(
            sum(each.whole for each in found),
            tuple(run for each in found for run in each.bad),
            tuple(run for each in found for run in each.away),
        )

    async def _span(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        digest: Digest,
        span: LedgerFragment,
        window: int,
        *,
        settled: bool,
    ) -> LedgerCheck:
        """The copies of one ensemble; with `settled`, none of its bookies may be behind any more."""
        quorum = metadata.write_quorum
        reading = _SpanReading(self, ledger_id, span, quorum, digest, window)
        copies = await asyncio.gather(*(reading.copies(index) for index in range(len(span.bookies))))
        bad = [run for found in copies for run in found.bad]
        away = [run for found in copies for run in found.away]
        behind: list[CopyRun] = []
        if not settled:
            split = [split_behind(found.bad, reading.last_of(index)) for index, found in enumerate(copies)]
            late = [run for _, runs in split for run in runs]
            if not uncovered(span, quorum, bad, copies=quorum - metadata.ack_quorum + 1):
                bad, behind = [run for runs, _ in split for run in runs], late
        return LedgerCheck(
            ledger_id,
            metadata.state,
            span.entries,
            sum(found.whole for found in copies),
            sum(found.size for found in copies),
            tuple(bad),
            tuple(away),
            tuple(behind),
            uncovered(span, quorum, bad),
            uncovered(span, quorum, away, beside=bad),
        )

    async def connection(self, bookie: str) -> BookieConnection:
        """A connection to one bookie; BookieUnavailable."""
        return self._pool.opened(bookie) or await self._pool.connection(bookie)

    def takes_batches(self, bookie: str) -> bool:
        """Whether batch reads of the bookie are worth trying."""
        return bookie not in self._no_batches

    def note_no_batches(self, bookie: str) -> None:
        """Note that the bookie does not support batch reads."""
        self._no_batches.add(bookie)

    async def looked_at(self, copies: int, size: int) -> None:
        """Tell of it, and keep to the rate."""
        self._on_copies(copies, size)
        pause = self._rate_limiter.pause_after(size, asyncio.get_running_loop().time())
        if pause > 0:
            await asyncio.sleep(pause)


class _SpanReading:
    """Reads the copies of one span."""

    def __init__(
        self, check: ReplicaCheck, ledger_id: int, span: LedgerFragment, write_quorum: int, digest: Digest, window: int
    ) -> None:
        """`window`: how many entries may be asked for at once."""
        self._check, self._ledger_id, self._span, self._digest = check, ledger_id, span, digest
        self._write_quorum = write_quorum
        self._most, self._first = window, min(window, WINDOW)

    def last_of(self, index: int) -> int:
        """The last entry that the bookie at `index` should have."""
        span = self._span
        late = max(span.first, span.last - len(span.bookies) + 1)
        return max(self._entries(index, late, span.last), default=span.last)

    async def copies(self, index: int) -> _Copies:
        """The bookie's copies of the span, for the bookie at `index` of the ensemble."""
        found = _Copies()
        whole_span = self._write_quorum == len(self._span.bookies)
        bookie = self._span.bookies[index]
        entry = self._span.first
        try:
            if whole_span and self._check.takes_batches(bookie):
                entry = await self._by_batches(bookie, index, found)
            while entry <= self._span.last:
                last = min(entry + self._most - 1, self._span.last)
                await self._singly(bookie, self._entries(index, entry, last), found)
                entry = last + 1
        except (BookieUnavailable, BookieRefused) as error:
            self._rest_is_away(bookie, index, found, str(error))
        return found

    def _rest_is_away(self, bookie: str, index: int, found: _Copies, reason: str) -> None:
        """Note that no further copy of the bookie can be read."""
        rest = list(islice(self._all_entries(index), found.judged, None))
        if rest:
            found.away.append(CopyRun(bookie, rest[0], rest[-1], len(rest), reason))

    def _all_entries(self, index: int) -> Iterator[int]:
        for start in range(self._span.first, self._span.last + 1, MOST_WINDOW):
            yield from self._entries(index, start, min(start + MOST_WINDOW - 1, self._span.last))

    def _entries(self, index: int, first: int, last: int) -> Sequence[int]:
        return entries_of(index, first, last, len(self._span.bookies), self._write_quorum)

    async def _by_batches(self, bookie: str, index: int, found: _Copies) -> int:
        """Read by batch reads as long as they work; return the first entry that was not read."""
        entry, window = self._span.first, self._first
        while entry <= self._span.last:
            taken = await self._batch(bookie, entry, found)
            if taken is None:
                return entry
            entry += taken
            if taken:
                window = self._first
                continue
            last = min(entry + window - 1, self._span.last)
            before = found.whole
            await self._singly(bookie, range(entry, last + 1), found)
            entry = last + 1
            window = min(2 * window, self._most) if found.whole == before else self._first
        return entry

    async def _batch(self, bookie: str, entry: int, found: _Copies) -> int | None:
        """The number of whole copies that one batch read returned; None from a bookie without batch reads."""
        known = entry > self._span.first
        connection = await self._check.connection(bookie)
        try:
            count = self._span.last - entry + 1
            code, body = await connection.read_batch(self._ledger_id, entry, count, CHUNK_BYTES)
        except BookieUnavailable:
            if known:
                raise
            self._check.note_no_batches(bookie)  # an old bookie closes the connection
            return None
        if code in NO_BATCHES:
            self._check.note_no_batches(bookie)
            return None
        if code != Code.OK:
            return 0
        try:
            payloads = open_batch(body, self._ledger_id, entry, self._digest)[:count]
        except BookieRefused:
            return 0
        size = sum(map(len, payloads))
        found.note_whole(len(payloads), size)
        await self._check.looked_at(len(payloads), size)
        return len(payloads)

    async def _singly(self, bookie: str, entries: Sequence[int], found: _Copies) -> None:
        connection = await self._check.connection(bookie)
        asked = [connection.read(self._ledger_id, entry) for entry in entries]
        await asyncio.gather(*asked, return_exceptions=True)
        size = 0
        for entry, future in zip(entries, asked, strict=True):
            code, stored = future.result()
            verdict = self._judge(bookie, entry, code, stored)
            if isinstance(verdict, StoredEntry):
                found.note_whole(1, len(verdict.payload))
                size += len(verdict.payload)
            else:
                found.note_bad(bookie, entry, verdict)
        await self._check.looked_at(len(entries), size)

    def _judge(self, bookie: str, entry: int, code: int, stored: bytes) -> StoredEntry | str:
        if code == Code.OK:
            return open_entry(stored, self._ledger_id, entry, self._digest) or DAMAGED
        if code in (Code.NO_ENTRY, Code.NO_LEDGER, Code.UNKNOWN_LEDGER_STATE):
            return MISSING
        if code == Code.IO_ERROR:
            return UNREADABLE
        raise BookieRefused(f"ledger {self._ledger_id}, entry {entry}, bookie {bookie}: error {code}")
