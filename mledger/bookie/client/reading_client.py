"""A client of a cluster's bookies that only reads: it never writes to the metadata store or fences a ledger (M9, Q3).

It is a module of its own because commands that only look need nothing of what writes ledgers.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.bad_replicas import BadReplica, BadReplicas, BadReplicaSink
from mledger.bookie.client.connections.connection import WaitingSink
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.ledgers.last_confirmed import EndReader
from mledger.bookie.client.ledgers.metadata.metadata_reads import MetadataReads
from mledger.bookie.client.ledgers.peek import (
    Peek,
    PeekedEnd,
    closed_end,
    find_confirmed_end,
    find_unconfirmed_end,
    peeked,
)
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.digest import Digest, make_digest
from mledger.bookie.errors import BookieUnavailable, Code, DigestMismatch, NoSuchLedger, Unauthorized
from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState
from mledger.metastore.runtime.rate_limiter import RateLimiter
from mledger.metastore.store import MetadataReader

if TYPE_CHECKING:
    from mledger.bookie.client.checks.bookie_check import BookieCheck
    from mledger.bookie.client.checks.replica_check import CopiesSink, ReplicaCheck
    from mledger.bookie.client.plans.replicas import LedgerCheck, OtherCopies

Checked = TypeVar("Checked", "LedgerCheck", "OtherCopies")

_MOST_CHECKS = 3  # of one ledger whose metadata changes meanwhile

MetadataCheck = Callable[[LedgerMetadata], None]
"""Raises an error if a ledger with this metadata is not to be read."""


def allow_any(_: LedgerMetadata) -> None:
    """Let any ledger be read."""


class BookKeeperReader:
    """Reads ledgers. Owned by one event loop; close it when done (the store stays open)."""

    def __init__(self, reader: MetadataReader, config: ClientConfig | None = None) -> None:
        self._config = config or ClientConfig()
        self._metadata = reader
        self._pool = BookiePool(reader, self._config)
        self._records = LedgerStoreReader(reader, self._config.ledgers_root)
        self._metadata_reads = MetadataReads(self._records)
        self._bad_replicas = BadReplicas()

    @property
    def bad_replicas(self) -> list[BadReplica]:
        """Missing and damaged copies found since this client was created, the last thousand of them."""
        return self._bad_replicas.last

    @property
    def on_bad_replica(self) -> BadReplicaSink | None:
        """Called with every such copy; the log has the first of each ledger, bookie and reason, and totals."""
        return self._bad_replicas.on_found

    @on_bad_replica.setter
    def on_bad_replica(self, sink: BadReplicaSink | None) -> None:
        self._bad_replicas.on_found = sink

    @property
    def on_waiting(self) -> WaitingSink | None:
        """Called each second while a bookie's answer is awaited, with the bookie and the seconds waited."""
        return self._pool.on_waiting

    @on_waiting.setter
    def on_waiting(self, sink: WaitingSink | None) -> None:
        self._pool.on_waiting = sink

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        """The ledger's metadata.

        Raises:
            NoSuchLedger: it does not exist, or was deleted.
            RecordError: its record does not parse.
            StoreUnavailable: the metadata store does not answer.
        """
        return (await self._read_metadata(ledger_id))[0]

    async def open_ledger_no_recovery(
        self, ledger_id: int, password: bytes = b"", digest: DigestType | None = None
    ) -> LedgerReader:
        """A reader to the ledger's end, or while it is not closed to its last-add-confirmed now (Q3).

        Raises:
            NoSuchLedger: it does not exist, or was deleted.
            Unauthorized: `password` is not the ledger's.
            DigestMismatch: `digest` is not the ledger's.
            BookieUnavailable: too few bookies answer to say where it ends.
        """
        metadata = await self.metadata(ledger_id)
        guard = checked_digest(ledger_id, metadata, password, digest)
        if metadata.state is LedgerState.CLOSED:
            return self._reader(ledger_id, metadata, closed_end(metadata), guard)
        end = await find_confirmed_end(metadata, EndReader(ledger_id, guard, self._pool, Lane.NORMAL))
        return self._reader(ledger_id, metadata, end, guard)

    async def peek(
        self,
        ledger_id: int,
        password: bytes | None = b"",
        digest: DigestType | None = None,
        check: MetadataCheck = allow_any,
    ) -> Peek:
        """The ledger as it is now, including its unconfirmed tail, without fencing or writing anything (Q3).

        `password` None: the one that its metadata has. `check` is given that metadata; what it raises is raised.

        Raises:
            BookieError: as of `open_ledger_no_recovery`.
        """
        metadata = await self.metadata(ledger_id)
        check(metadata)
        guard = checked_digest(ledger_id, metadata, password, digest)
        if metadata.state is LedgerState.CLOSED:
            end = closed_end(metadata)
        else:
            end = await find_unconfirmed_end(metadata, EndReader(ledger_id, guard, self._pool, Lane.NORMAL))
        return peeked(ledger_id, metadata, end, self._reader(ledger_id, metadata, end, guard))

    async def list_ledgers(self) -> AsyncIterator[list[int]]:
        """Yield the ids of all ledgers in ascending order, in pages; raises rather than returning only a part."""
        async for page in self._records.list():
            yield page

    async def bookies(self) -> list[BookieRegistration]:
        """The bookies registered now."""
        return await self._pool.registrations(fresh=True)

    def bookie_check(self) -> "BookieCheck":
        """A check of bookies over this client's connections."""
        from mledger.bookie.client.checks.bookie_check import BookieCheck  # few commands check

        return BookieCheck(self._metadata, self._pool, self._config.ledgers_root, self._config.silence_timeout_s)

    async def check_ledger(
        self, ledger_id: int, rate_limiter: RateLimiter | None = None, on_copies: "CopiesSink | None" = None
    ) -> "LedgerCheck":
        """Read every copy of every entry of the ledger and check its digest; fence and write nothing.

        Of a ledger that is not closed, the entries up to its last-add-confirmed are checked. The ledger's own password
        is used if its metadata has it. Bad copies are checked again if the metadata changed meanwhile.

        Raises:
            NoSuchLedger: it was deleted.
            BookieUnavailable: the end of one that is not closed cannot be found.
        """
        from mledger.bookie.client.checks.replica_check import ReplicaCheck, ignore_copies  # few commands check

        check = ReplicaCheck(self._pool, rate_limiter or RateLimiter(), on_copies or ignore_copies)
        metadata, version = await self._read_metadata(ledger_id)
        for _ in range(_MOST_CHECKS):
            found = await _by_digest(metadata, partial(self._check_by, check, ledger_id, metadata))
            if not found.bad:
                return found
            before = version
            metadata, version = await self._read_metadata(ledger_id)
            if version == before:
                return found
        return found

    async def check_other_bookie(
        self, ledger_id: int, metadata: LedgerMetadata, bookie: str, other: str
    ) -> "OtherCopies":
        """Read from `other` what `bookie` should have of a closed ledger, and check its digest; fence nothing.

        Raises:
            BookieUnavailable: `other` does not answer for all of it.
        """
        from mledger.bookie.client.checks.replica_check import ReplicaCheck  # few commands check

        check = ReplicaCheck(self._pool, RateLimiter())
        found = await _by_digest(metadata, lambda digest: check.check_other(ledger_id, metadata, digest, bookie, other))
        if found.away:
            run = found.away[0]
            raise BookieUnavailable(
                f"ledger {ledger_id}, entries {run.first} to {run.last}, bookie {other}: {run.reason}"
            )
        return found

    async def has_copy(self, ledger_id: int, entry: int, bookie: str) -> bool:
        """Whether a bookie answers a plain read of an entry with a copy. BookieUnavailable."""
        connection = self._pool.opened(bookie) or await self._pool.connection(bookie)
        return (await connection.read(ledger_id, entry))[0] == Code.OK

    async def _check_by(
        self, check: "ReplicaCheck", ledger_id: int, metadata: LedgerMetadata, digest: Digest
    ) -> "LedgerCheck":
        """Check every copy once."""
        end = closed_end(metadata)
        if metadata.state is not LedgerState.CLOSED:
            end = await find_confirmed_end(metadata, EndReader(ledger_id, digest, self._pool, Lane.NORMAL))
        return await check.check(ledger_id, metadata, digest, end.last_entry, end.length, end.warnings)

    async def close(self) -> None:
        """Close the connections to bookies."""
        self._bad_replicas.close()
        await self._pool.close()

    async def _read_metadata(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        found = await self._metadata_reads.read(ledger_id)
        if found is None:
            raise NoSuchLedger(f"ledger {ledger_id} does not exist, or was deleted")
        return found

    def _reader(self, ledger_id: int, metadata: LedgerMetadata, end: PeekedEnd, digest: Digest) -> LedgerReader:
        return LedgerReader(
            ledger_id,
            end.bounds(metadata),
            digest,
            self._pool,
            self._config,
            report=self._bad_replicas.note,
            reread=self.metadata,
        )


def checked_digest(
    ledger_id: int, metadata: LedgerMetadata, password: bytes | None, digest: DigestType | None
) -> Digest:
    """The ledger's digest, after checking password and digest type against its metadata (where it has them).

    `password` None: the one that the metadata has.
    """
    if password is None:
        password = metadata.password or b""
    if metadata.password is not None and metadata.password != password:
        raise Unauthorized(f"ledger {ledger_id}: the password is not the ledger's")
    kept = metadata.digest_type
    if kept is not None and digest is not None and kept is not digest:
        raise DigestMismatch(f"ledger {ledger_id} has the digest type {kept.name}, not {digest.name}")
    return make_digest(kept or digest or DigestType.CRC32C, password)


async def _by_digest(metadata: LedgerMetadata, check: Callable[[Digest], Awaitable[Checked]]) -> Checked:
    """What `check` finds by the digest of the ledger. If its record names none, that is the one that fits copies."""
    password = metadata.password or b""
    found = await check(make_digest(metadata.digest_type or DigestType.CRC32C, password))
    if metadata.digest_type is None and found.bad and not found.whole:
        found = await check(make_digest(DigestType.CRC32, password))
    return found
