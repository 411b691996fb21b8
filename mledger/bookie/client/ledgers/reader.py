"""The handle of a ledger that is read: returns entries by id, from any replica that has them whole (Q1, Q3).

If a replica lacks an entry, is damaged, or cannot be reached, the next one of the write set is read; damaged and
missing replicas are reported. If a replica is slow to answer, another one is read meanwhile (Q11). If all of a write
set fail, the ledger's ensembles are read again from the metadata store, once (Q6).
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from msgspec import Struct

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.bad_replicas import BadReplica, BadReplicaSink
from mledger.bookie.client.connections.frames import StoredEntry, open_batch, open_entry
from mledger.bookie.client.connections.pool import BookiePool
from mledger.bookie.client.ledgers.ensembles.current_ensembles import CurrentEnsembles, Readable, Reread
from mledger.bookie.client.ledgers.speculation import SpeculativeRead
from mledger.bookie.client.plans.bad_copies import DAMAGED, MISSING
from mledger.bookie.client.plans.read_limits import entries_within, is_enough, mean_size
from mledger.bookie.client.plans.refusals import UNAUTHORIZED, read_refusal
from mledger.bookie.client.plans.write_sets import write_set
from mledger.bookie.digest import Digest
from mledger.bookie.errors import (
    BookieError,
    BookieRefused,
    BookieUnavailable,
    Code,
    DigestMismatch,
    LedgerStateUnknown,
    NoSuchEntry,
    Unauthorized,
)
from mledger.metastore.records.ledger_metadata import NO_ENTRY, LedgerMetadata
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit

log = get_logger(__name__)

_CHUNK_BYTES = 512 << 10  # per request to one bookie
_CHUNKS_IN_FLIGHT = 6
_SINGLE_IN_FLIGHT = 256
_SINGLE_BYTES = 16 << 20  # of entries that are read one by one, asked for at once: what is late is asked for again
_MOST_LOOKS = 2  # at ensembles newer than those that a read began with
_BATCH_ROOM = 64  # bytes of a batch answer's head and an entry's digest


class Bounds(Struct, frozen=True):
    """The bounds of a ledger whose end is fixed for its reader: closed, or read up to the LAC found at opening."""

    metadata: LedgerMetadata
    last_entry: int
    readable_length: int


class LedgerReader:
    """Reads one ledger; made by `BookKeeper` or by a `LedgerWriter`."""

    def __init__(
        self,
        ledger_id: int,
        ledger: Readable,
        digest: Digest,
        pool: BookiePool,
        config: ClientConfig,
        *,
        report: BadReplicaSink,
        reread: Reread,
    ) -> None:
        self.ledger_id = ledger_id
        self._ensembles = CurrentEnsembles(ledger_id, ledger, reread)
        self._ledger, self._digest, self._pool, self._config, self._report = ledger, digest, pool, config, report
        self._turn = 0

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata, with its ensembles as last read."""
        return self._ensembles.metadata

    @property
    def last_entry(self) -> int:
        """The last entry that can be read; -1: none."""
        return self._ledger.last_entry

    @property
    def length(self) -> int:
        """Payload bytes of the entries that can be read."""
        return self._ledger.readable_length

    async def read(self, first: int, last: int, max_bytes: int | None = None) -> list[bytes]:
        """The payloads of the entries `first` to `last`, both included.

        With `max_bytes` the list ends before the entry that would pass it, or near that, but has one at least.

        Raises:
            NoSuchEntry: outside the ledger, or no replica has it. DigestMismatch: every replica asked is damaged.
            BookieUnavailable: no replica that has it answers; retriable. Unauthorized: no other bookie has it.
        """
        if not 0 <= first <= last <= self.last_entry:
            raise NoSuchEntry(
                f"ledger {self.ledger_id} has entries 0 to {self.last_entry}: {first} to {last} cannot be read"
            )
        if first == last:
            return [(await self.read_entry(first)).payload]
        payloads: list[bytes] = []
        size = 0
        while first <= last:
            until = last if max_bytes is None else min(last, first + entries_within(max_bytes - size, self._mean) - 1)
            part = await self._read_range(first, until)
            if max_bytes is not None:
                for payload in part:
                    size += len(payload)
                    if size > max_bytes and payloads:
                        return payloads
                    payloads.append(payload)
                if is_enough(len(payloads), size, max_bytes):
                    return payloads
            else:
                payloads += part
            first = until + 1
        return payloads

    async def read_last(self) -> tuple[int, bytes]:
        """The last entry's id and payload; NoSuchEntry when the ledger is empty."""
        last = self.last_entry
        if last == NO_ENTRY:
            raise NoSuchEntry(f"ledger {self.ledger_id} is empty: it has no last entry")
        return last, (await self.read_entry(last)).payload

    async def read_entry(self, entry: int, known: Sequence[BadReplica] = ()) -> StoredEntry:
        """One entry, from the first bookie of its write set that has it whole; `known` are bad replicas to skip.

        Errors as of `read`.
        """
        for looks_left in range(_MOST_LOOKS, -1, -1):
            metadata = self.metadata
            found, bad, errors = await self._search(metadata, entry, known)
            if found is not None or not looks_left or not await self._ensembles.look_again(metadata):
                break
            known = ()
        self._report_all(bad)
        return found or self._give_up(entry, bad, errors)

    async def _search(
        self, metadata: LedgerMetadata, entry: int, known: Sequence[BadReplica]
    ) -> tuple[StoredEntry | None, list[BadReplica], list[BookieError]]:
        """The entry from a bookie of its write set, the bad replicas found, and the errors."""
        bookies = metadata.segment_at(entry).bookies
        bad, errors = list(known), list[BookieError]()
        passed_over = {replica.bookie_id for replica in known}
        members = [bookies[index] for index in write_set(entry, len(bookies), metadata.write_quorum)]
        order = [bookie for bookie in self._pool.quarantine.healthy_first(members) if bookie not in passed_over]
        asking = SpeculativeRead(
            order, lambda bookie: self._ask(bookie, entry), self._config.speculative_read_s, self._slow
        )
        try:
            while (answered := await asking.next()) is not None:
                bookie, answer = answered
                try:
                    found = self._judge(bookie, entry, *answer.result())
                except LedgerStateUnknown as error:  # other ledgers can be read from this bookie
                    errors.append(error)
                    continue
                except (BookieUnavailable, BookieRefused, Unauthorized) as error:
                    self._pool.quarantine.note_failure(bookie, str(error))
                    errors.append(error)
                    continue
                if isinstance(found, StoredEntry):
                    return found, bad, errors
                bad.append(found)
        finally:
            asking.close()
        return None, bad, errors

    def _give_up(self, entry: int, bad: Sequence[BadReplica], errors: Sequence[BookieError]) -> StoredEntry:
        where = f"ledger {self.ledger_id}, entry {entry}"
        if errors and all(isinstance(error, Unauthorized) for error in errors):
            raise errors[0]
        if errors:
            raise BookieUnavailable(f"{where}: " + "; ".join(map(str, errors)))
        if any(replica.reason == DAMAGED for replica in bad):
            bookies = ", ".join(replica.bookie_id for replica in bad)
            raise DigestMismatch(f"{where}: no whole copy of it is left; asked {bookies}")
        raise NoSuchEntry(f"{where}: no bookie of its write set has it")

    def _ask(self, bookie: str, entry: int) -> asyncio.Future[tuple[int, bytes]]:
        connection = self._pool.opened(bookie)
        if connection is not None:
            return connection.read(self.ledger_id, entry)
        return asyncio.ensure_future(self._connect_and_ask(bookie, entry))

    async def _connect_and_ask(self, bookie: str, entry: int) -> tuple[int, bytes]:
        connection = await self._pool.connection(bookie)
        return await connection.read(self.ledger_id, entry)

    def _slow(self, bookie: str, waited_s: float) -> None:
        self._pool.quarantine.note_failure(bookie, f"no answer to a read within {waited_s:g} s; asked another")

    def _judge(self, bookie: str, entry: int, code: int, stored: bytes) -> StoredEntry | BadReplica:
        if code == Code.OK:
            opened = open_entry(stored, self.ledger_id, entry, self._digest)
            return opened or BadReplica(self.ledger_id, entry, bookie, DAMAGED)
        if code in (Code.NO_ENTRY, Code.NO_LEDGER):
            return BadReplica(self.ledger_id, entry, bookie, MISSING)
        where = f"ledger {self.ledger_id}, entry {entry}, bookie {bookie}"
        if code == Code.UNAUTHORIZED:
            raise Unauthorized(f"{where}: {UNAUTHORIZED}")
        if code == Code.UNKNOWN_LEDGER_STATE:
            raise LedgerStateUnknown(read_refusal(bookie, code, f"entry {entry} of ledger {self.ledger_id}"))
        raise BookieRefused(f"{where}: error {code}; see the bookie's log")

    def _report_all(self, bad: Sequence[BadReplica]) -> None:
        for replica in bad:
            self._report(replica)

    # Ranges

    async def _read_range(self, first: int, last: int) -> list[bytes]:
        """Payloads of a range, segment by segment."""
        payloads: list[bytes] = []
        segments = self.metadata.segments
        for number, segment in enumerate(segments):
            end = segments[number + 1].first_entry - 1 if number + 1 < len(segments) else last
            start, stop = max(first, segment.first_entry), min(last, end)
            if start <= stop:
                whole = len(segment.bookies) == self.metadata.write_quorum
                payloads += await (self._read_chunks if whole else self._read_singly)(start, stop)
        return payloads

    async def _read_chunks(self, first: int, last: int) -> list[bytes]:
        """Read by several batch reads at once, from all bookies in turn (E = Wq)."""
        chunks = -(-(last - first + 1) // entries_within(_CHUNK_BYTES, self._mean + _BATCH_ROOM))
        count = -(-(last - first + 1) // chunks)
        starts = range(first, last + 1, count)
        limit = asyncio.Semaphore(_CHUNKS_IN_FLIGHT)

        async def chunk(start: int) -> list[bytes]:
            async with limit:
                return await self._read_chunk(start, min(start + count - 1, last))

        parts = await _gather([chunk(start) for start in starts])
        return [payload for part in parts for payload in part]

    async def _read_chunk(self, first: int, last: int) -> list[bytes]:
        """Read one range from one bookie by batch reads; read what it lacks from the others."""
        payloads: list[bytes] = []
        self._turn += 1
        while first <= last:
            bookies = self.metadata.segment_at(first).bookies
            at = self._turn % len(bookies)
            bookie = self._pool.quarantine.healthy_first(bookies[at:] + bookies[:at])[0]
            part, bad = await self._read_batch(bookie, first, last, self._patience(bookie, bookies))
            if not part:
                part = [(await self.read_entry(first, bad)).payload]
                self._turn += 1
            payloads += part
            first += len(part)
        return payloads

    def _patience(self, bookie: str, members: Sequence[str]) -> float | None:
        """How long to wait for a bookie's answer, in seconds; the whole time-out if no other bookie is better."""
        failed = self._pool.quarantine.failed()
        return (
            self._config.speculative_read_s if any(each not in failed for each in members if each != bookie) else None
        )

    async def _read_batch(
        self, bookie: str, first: int, last: int, patience_s: float | None
    ) -> tuple[list[bytes], list[BadReplica]]:
        """Whole payloads from `first` on in one answer of `bookie`; if there are none, the reason."""
        count = last - first + 1
        try:
            async with TimeLimit(patience_s):
                connection = self._pool.opened(bookie) or await self._pool.connection(bookie)
                code, body = await connection.read_batch(self.ledger_id, first, count, self._config.max_frame)
        except TimeoutError:
            self._slow(bookie, patience_s or 0.0)
            return [], []
        except BookieUnavailable as error:
            self._pool.quarantine.note_failure(bookie, str(error))
            return [], []
        if code == Code.OK:
            payloads = self._open_batch(bookie, first, body)[:count]
            return payloads, [] if payloads else [BadReplica(self.ledger_id, first, bookie, DAMAGED)]
        if code in (Code.NO_ENTRY, Code.NO_LEDGER):
            return [], [BadReplica(self.ledger_id, first, bookie, MISSING)]
        if code == Code.UNKNOWN_LEDGER_STATE:
            return [], []
        self._pool.quarantine.note_failure(
            bookie, f"error {code} to a batch read of ledger {self.ledger_id} from entry {first}"
        )
        return [], []

    def _open_batch(self, bookie: str, first: int, body: bytes) -> list[bytes]:
        try:
            return open_batch(body, self.ledger_id, first, self._digest)
        except BookieRefused as error:  # other bookies are read
            self._pool.quarantine.note_failure(bookie, str(error))
            return []

    async def _read_singly(self, first: int, last: int) -> list[bytes]:
        """Read entry by entry, each from the first bookie of its write set, many at once (E > Wq)."""
        payloads: list[bytes] = []
        count = min(_SINGLE_IN_FLIGHT, entries_within(_SINGLE_BYTES, self._mean))
        for start in range(first, last + 1, count):
            stop = min(start + count - 1, last)
            payloads += await self._read_some(start, stop)
        return payloads

    async def _read_some(self, first: int, last: int) -> list[bytes]:
        metadata = self.metadata
        bookies = metadata.segment_at(first).bookies
        choices = []  # for each residue of the entry id
        for residue in range(len(bookies)):
            members = [bookies[index] for index in write_set(residue, len(bookies), metadata.write_quorum)]
            choices.append(self._pool.quarantine.healthy_first(members)[0])
        patience_s = min(self._patience(choice, bookies) or self._config.read_timeout_s for choice in choices)
        asked = [(entry, choices[entry % len(bookies)]) for entry in range(first, last + 1)]
        connections = await self._pool.connections({bookie for _, bookie in asked}, within_s=patience_s)
        futures: list[asyncio.Future[tuple[int, bytes]] | None] = []
        for entry, bookie in asked:
            connection = connections[bookie]
            if isinstance(connection, BookieUnavailable):
                futures.append(None)
            else:
                futures.append(connection.read(self.ledger_id, entry))
        waiting = [future for future in futures if future is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=patience_s)
        return [
            await self._settle(entry, bookie, future) for (entry, bookie), future in zip(asked, futures, strict=True)
        ]

    async def _settle(self, entry: int, bookie: str, future: asyncio.Future[tuple[int, bytes]] | None) -> bytes:
        """The payload from a bookie's answer, or from the other replicas."""
        if future is None or future.cancel() or future.exception() is not None:
            self._pool.quarantine.note_failure(bookie, "no answer to a read")
            return (await self.read_entry(entry)).payload
        code, stored = future.result()
        try:
            found = self._judge(bookie, entry, code, stored)
        except (BookieRefused, Unauthorized) as error:
            log.warning("read_elsewhere", ledger=self.ledger_id, entry=entry, bookie=bookie, error=error)
            return (await self.read_entry(entry)).payload
        if isinstance(found, StoredEntry):
            return found.payload
        return (await self.read_entry(entry, [found])).payload

    @property
    def _mean(self) -> int:
        """The mean payload bytes of an entry."""
        return mean_size(self.length, self.last_entry)


async def _gather(work: Iterable[Coroutine[Any, Any, list[bytes]]]) -> list[list[bytes]]:
    """All results, in order; the first error cancels the rest."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
