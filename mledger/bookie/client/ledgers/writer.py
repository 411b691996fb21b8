"""The handle of a ledger that is being written: appends in order, closes with the last entry (M5, M7, Q1, Q2)."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from functools import partial

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.bad_replicas import BadReplicaSink
from mledger.bookie.client.connections.frames import AddFramer, largest_payload
from mledger.bookie.client.connections.pool import BookiePool
from mledger.bookie.client.ledgers.ensembles.current_ensembles import Reread
from mledger.bookie.client.ledgers.metadata.metadata_updater import MetadataUpdater, check_still_ours
from mledger.bookie.client.ledgers.pending_batches import failed_future
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.ledgers.replication import Replication
from mledger.bookie.client.plans.entry_sizes import checked_size
from mledger.bookie.client.plans.placement import with_ensemble
from mledger.bookie.client.plans.quorum import WriteQuorum
from mledger.bookie.client.plans.recovery import plan_closed
from mledger.bookie.digest import Digest, master_key
from mledger.bookie.errors import BookieUnavailable, LedgerClosed, LedgerConflict, LedgerFenced, NoSuchLedger
from mledger.metastore.errors import MledgerError, StoreUnavailable
from mledger.metastore.records.bookie_affinity import ledger_affinity
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState

_ENDED_ELSEWHERE = (LedgerFenced, LedgerConflict, NoSuchLedger, LedgerClosed, BookieUnavailable)
"""Failures after which the writer does not close the ledger: it is not its own any more, or is left to recovery."""


class LedgerWriter:
    """Writes a new ledger; made by `BookKeeper.create_ledger`. Owned by one event loop.

    After a failure (LedgerFenced, NotEnoughBookies, LedgerConflict, NoSuchLedger, Unauthorized, StoreUnavailable) every
    pending and later append fails with it, and `payloads_from` has what is to be written elsewhere (M4).
    """

    def __init__(
        self,
        held: MetadataUpdater,
        digest: Digest,
        password: bytes,
        pool: BookiePool,
        config: ClientConfig,
        *,
        rng: random.Random,
        report: BadReplicaSink,
        reread: Reread,
    ) -> None:
        metadata = held.metadata
        self.ledger_id = held.ledger_id
        self._place = f"ledger {held.ledger_id}: "
        self.length = 0
        """Payload bytes of all entries appended so far."""
        self._held, self._digest, self._pool, self._config = held, digest, pool, config
        self._report, self._reread = report, reread
        self._framer = AddFramer(self.ledger_id, digest, master_key(password))
        self._largest = largest_payload(config.max_frame, digest)
        self._quorum = WriteQuorum(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
        self._replication = Replication(
            self.ledger_id,
            metadata.ensemble,
            self._quorum,
            self._framer.parts,
            self._commit,
            pool,
            config,
            rng=rng,
            affinity=ledger_affinity(metadata.custom_metadata),
        )
        self._closing: asyncio.Task[LedgerMetadata] | None = None
        self._end: tuple[int, int] | None = None
        """Last entry and length to close with, once no more entries are taken."""

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as last written."""
        return self._held.metadata

    @property
    def last_add_confirmed(self) -> int:
        """The last acknowledged entry (LAC); -1 before the first."""
        return self._quorum.acknowledged_below - 1

    @property
    def closed(self) -> bool:
        """Whether no more entries are taken: closed, abandoned, or failed."""
        return self._closing is not None or self._replication.failure is not None

    async def start(self) -> None:
        """Connect to the ensemble."""
        await self._replication.start()

    def append(self, entries: Sequence[bytes]) -> asyncio.Future[int]:
        """Send `entries` (payloads) as the ledger's next ones, now; appends are pipelined and complete in order.

        The future gives the first entry's id once all of them are acknowledged (M5), or fails as the class says.

        Raises:
            ValueError: no entries. EntryTooLarge: one passes the frame limit. Nothing of the batch is written.
        """
        if not entries:
            raise ValueError("an append of no entries has no entry id: leave it out")
        size = checked_size(entries, self._largest, self._place, "max_frame here and on the bookies")
        failure = self._replication.failure
        if failure is None and self._closing is not None:
            failure = LedgerClosed(f"ledger {self.ledger_id} is closed: write to a new one")
        if failure is not None:
            return failed_future(failure)
        future = self._replication.append(entries, self.length)
        self.length += size
        return future

    async def close(self) -> LedgerMetadata:
        """Wait for pending appends and close the ledger: state CLOSED, last entry and length (compare-and-set).

        After a failure that left the ledger ours (bookies that are away, or that refuse this client) it is closed with
        the last acknowledged entry. A second call has the outcome of the first, but tries again where the metadata
        store had not answered.

        Raises:
            LedgerFenced: another client has recovered it, or does so. LedgerConflict, NoSuchLedger, StoreUnavailable.
            LedgerClosed: it was abandoned.
        """
        if self._closing is None or _store_was_away(self._closing):
            self._closing = asyncio.create_task(self._close())
        return await asyncio.shield(self._closing)

    async def abandon(self) -> None:
        """Write nothing more, to nobody: the ledger stays as it is and another client will recover it."""
        self._replication.stop(LedgerClosed(f"ledger {self.ledger_id} was abandoned by its writer"))

    def give_up(self, failure: MledgerError) -> None:
        """As `abandon`, because adds are not answered in time: bookies that owe an answer are avoided for a while."""
        self._replication.blame(str(failure))
        self._replication.stop(failure)

    def payloads_from(self, entry: int) -> list[bytes]:
        """Payloads from `entry` on of appends that are not complete, in order, to write to another ledger (M4).

        What an append was given after the writer had failed is not among them.
        """
        return self._replication.payloads_from(entry)

    def reader(self) -> LedgerReader:
        """A reader of this ledger over the same connections: its last entry follows the last-add-confirmed."""
        return LedgerReader(
            self.ledger_id, self, self._digest, self._pool, self._config, report=self._report, reread=self._reread
        )

    @property
    def last_entry(self) -> int:
        """The last entry that can be read: the last acknowledged one."""
        return self.last_add_confirmed

    @property
    def readable_length(self) -> int:
        """Payload bytes of the entries that can be read."""
        return self._replication.acknowledged_length(self.length)

    async def _commit(self, first_entry: int, ensemble: tuple[str, ...]) -> None:
        await self._held.update(partial(with_ensemble, first_entry=first_entry, ensemble=ensemble))

    async def _close(self) -> LedgerMetadata:
        if self._end is None:
            replication = self._replication
            with contextlib.suppress(MledgerError):  # kept in `failure`
                await replication.drained()
            if isinstance(replication.failure, _ENDED_ELSEWHERE):
                raise replication.failure
            self._end = self.last_add_confirmed, self.readable_length
            replication.stop(LedgerClosed(f"ledger {self.ledger_id} is closed: write to a new one"))
        last_entry, length = self._end

        def plan(metadata: LedgerMetadata) -> LedgerMetadata | None:
            return None if metadata.state is LedgerState.CLOSED else plan_closed(metadata, last_entry, length)

        def check(ledger_id: int, held: LedgerMetadata, found: LedgerMetadata) -> None:
            if (found.state, found.last_entry, found.length) != (LedgerState.CLOSED, last_entry, length):
                check_still_ours(ledger_id, held, found)

        return await self._held.update(plan, check)


def _store_was_away(closing: asyncio.Task[LedgerMetadata]) -> bool:
    """Whether a close has failed since the metadata store did not answer."""
    return closing.done() and not closing.cancelled() and isinstance(closing.exception(), StoreUnavailable)
