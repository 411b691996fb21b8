"""A client of a cluster's bookies that writes: it creates, recovers and deletes ledgers."""

import asyncio
import random
from collections.abc import Callable, Sequence

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.frames import largest_payload
from mledger.bookie.client.connections.pool import cancelled_itself
from mledger.bookie.client.ledgers.ledger_recovery import LedgerRecovery
from mledger.bookie.client.ledgers.metadata.metadata_batches import MetadataUpdates
from mledger.bookie.client.ledgers.metadata.metadata_updater import MetadataUpdater
from mledger.bookie.client.ledgers.peek import closed_end
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.client.plans.placement import check_quorums, plan_ensemble
from mledger.bookie.client.reading_client import BookKeeperReader, MetadataCheck, allow_any, checked_digest
from mledger.bookie.digest import Digest, make_digest
from mledger.bookie.errors import BookieUnavailable, LedgerConflict, NoSuchLedger, NotEnoughBookies
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import NodeExists, NodeNotFound
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup, ledger_affinity
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import MetadataStore, Operation
from mledger.metastore.write_verification import is_there

log = get_logger(__name__)

_MOST_IDS = 1000  # drawn for one ledger
_MOST_ENSEMBLES = 10  # tried for one ledger

Also = Callable[[int], Sequence[Operation]]


def no_operations(_: int) -> Sequence[Operation]:
    """Add no operations to the creation of a ledger."""
    return ()


class BookKeeper(BookKeeperReader):
    """A reading client that also creates, recovers and deletes ledgers."""

    def __init__(
        self, store: MetadataStore, config: ClientConfig | None = None, *, rng: random.Random | None = None
    ) -> None:
        super().__init__(store, config)
        self._nodes = store
        self._store = LedgerStore(store, self._config.ledgers_root)
        self._updates = MetadataUpdates(store, self._store)
        self._rng = rng or random.Random()
        self._recoveries: dict[int, asyncio.Task[LedgerMetadata]] = {}

    def largest_entry(self, digest_type: DigestType) -> int:
        """The largest payload, in bytes, that a ledger with such digests takes."""
        return largest_payload(self._config.max_frame, make_digest(digest_type, b""))

    async def create_ledger(
        self,
        ensemble_size: int,
        write_quorum: int,
        ack_quorum: int,
        *,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: Sequence[tuple[str, bytes]] = (),
        also: Also = no_operations,
        above: int | None = None,
    ) -> LedgerWriter:
        """Create a ledger on bookies that can be reached and return its writer.

        Args:
            ensemble_size: bookies that the ledger is spread over.
            write_quorum: copies of each entry.
            ack_quorum: copies that must be durable before an entry is acknowledged.
            digest_type: how the entries are protected.
            password: needed to open the ledger.
            custom_metadata: kept in the ledger's metadata; a bookie affinity group in it places the ledger (Q1).
            also: returns, for the ledger id, operations to carry out atomically with the creation (R10).
            above: ids up to this one are skipped (M1).

        Raises:
            InvalidQuorum: the sizes do not fit each other.
            NotEnoughBookies: too few can be reached.
            NotEnoughRacks: they span too few, where racks are enforced.
            StoreUnavailable: the metadata store does not answer.
            LedgerConflict: the id counter is far behind `above`.
            MetadataError: what `also` asks for fails.
        """
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        affinity = ledger_affinity(custom_metadata)
        metadata = LedgerMetadata(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            segments=(Segment(0, await self._reachable_ensemble(ensemble_size, write_quorum, affinity)),),
            digest_type=digest_type,
            password=password,
            ctime=wall_clock_ms(),
            custom_metadata=tuple(custom_metadata),
        )
        ledger_id, version = await self._create_record(metadata, also, above)
        held = MetadataUpdater(self._updates, ledger_id, metadata, version, timeout_s=self._config.metadata_timeout_s)
        writer = LedgerWriter(
            held,
            make_digest(digest_type, password),
            password,
            self._pool,
            self._config,
            rng=self._rng,
            report=self._bad_replicas.note,
            reread=self.metadata,
        )
        await writer.start()
        return writer

    async def open_ledger(
        self,
        ledger_id: int,
        password: bytes | None = b"",
        digest: DigestType | None = None,
        check: MetadataCheck = allow_any,
    ) -> LedgerReader:
        """Recover the ledger if it is not closed, fencing its writer, and return a reader of all of it (Q4).

        `password` None: the one that its metadata has. `check` is given that metadata before anything is fenced; what
        it raises is raised.

        Raises:
            NoSuchLedger: it does not exist, or was deleted.
            Unauthorized: `password` is not the ledger's.
            DigestMismatch: `digest` is not the ledger's.
            RecoveryUndecided: too few bookies answer to say where it ends; try again.
            NotEnoughBookies: its last entries cannot be written to as many as needed.
            LedgerConflict: another client changes it at the same time.
            StoreUnavailable: the metadata store does not answer.
        """
        metadata, version = await self._read_metadata(ledger_id)
        check(metadata)
        guard = checked_digest(ledger_id, metadata, password, digest)
        if metadata.state is not LedgerState.CLOSED:
            master = metadata.password or b"" if password is None else password
            metadata = await self._recover(ledger_id, metadata, version, guard, master)
        return self._reader(ledger_id, metadata, closed_end(metadata), guard)

    async def close_ledger(self, ledger_id: int, check: MetadataCheck = allow_any) -> None:
        """Recover the ledger unless it is closed, with the password that its metadata has: its writer is refused then.

        `check`, and what is raised: as of `open_ledger`.
        """
        await self.open_ledger(ledger_id, None, check=check)

    async def delete_ledger(self, ledger_id: int) -> None:
        """Delete the ledger's metadata; bookies free its space by and by.

        Raises:
            NoSuchLedger: it does not exist, or was deleted already.
            StoreUnavailable: the metadata store does not answer.
        """
        try:
            await self._store.delete(ledger_id)
        except NodeNotFound as error:
            raise NoSuchLedger(f"ledger {ledger_id} does not exist, or was deleted already") from error

    async def close(self) -> None:
        """Cancel recoveries in progress and close the connections to bookies."""
        for task in list(self._recoveries.values()):
            task.cancel()
        await super().close()

    async def _read_metadata(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        try:
            return await super()._read_metadata(ledger_id)
        except NoSuchLedger:  # callers give up entries on this error: a server that lags must not decide it
            if not await is_there(self._nodes, ledger_path(ledger_id, self._config.ledgers_root)):
                raise
        return await super()._read_metadata(ledger_id)

    async def _reachable_ensemble(
        self, size: int, write_quorum: int, affinity: BookieAffinityGroup | None
    ) -> tuple[str, ...]:
        """An ensemble whose bookies all take connections."""
        unreachable: set[str] = set()
        for _ in range(_MOST_ENSEMBLES):
            usable, topology = await self._pool.usable(size, affinity)
            try:
                ensemble = plan_ensemble(
                    size,
                    usable - unreachable,
                    self._pool.quarantine.failed(),
                    self._rng,
                    write_quorum=write_quorum,
                    topology=topology,
                )
            except NotEnoughBookies as error:
                notes = [] if affinity is None else [f"only bookies that its groups allow are counted ({affinity})"]
                notes += [f"registered and unreachable: {sorted(unreachable)}"] if unreachable else []
                raise type(error)("; ".join([str(error), *notes])) from error
            found = await self._pool.connections(ensemble)
            failed = {bookie for bookie, got in found.items() if isinstance(got, BookieUnavailable)}
            if not failed:
                return ensemble
            unreachable |= failed
        raise NotEnoughBookies(f"no ensemble of {size} bookies could be reached: {sorted(unreachable)} did not answer")

    async def _create_record(self, metadata: LedgerMetadata, also: Also, above: int | None) -> tuple[int, int]:
        for _ in range(_MOST_IDS):
            ledger_id = await self._store.next_id()
            if above is not None and ledger_id <= above:
                log.warning("ledger_id_passed_over", ledger=ledger_id, above=above)
                ledger_id = await self._next_id_above(ledger_id, above)
            try:
                return ledger_id, await self._store.create(ledger_id, metadata, also(ledger_id))
            except NodeExists as error:
                if await self._records_exist(ledger_id):
                    log.warning("ledger_id_taken", ledger=ledger_id)
                    continue
                raise error from None
        raise LedgerConflict(
            f"{_MOST_IDS} ledger ids were drawn and none is free: the cluster's id counter is behind; try again"
        )

    async def _next_id_above(self, drawn: int, above: int) -> int:
        ledger_id = await self._store.next_id_above(above)
        if ledger_id is None:
            node = f"{self._store.root}/idgen-long/HOB-{(above >> 32) + 1:010d}"
            raise LedgerConflict(
                f"no ledger is created above ledger {above}: the cluster's id counter is behind, at {drawn}; if there "
                "is no such ledger, `mledger topics drop-ledgers` takes it off the topic's list; if there is, stop all "
                f"clients and create the node {node}, below which ids go on"
            )
        return ledger_id

    async def _records_exist(self, ledger_id: int) -> bool:
        return (await self._store.read_many([ledger_id]))[0] is not None

    async def _recover(
        self, ledger_id: int, metadata: LedgerMetadata, version: int, digest: Digest, password: bytes
    ) -> LedgerMetadata:
        task = self._recoveries.get(ledger_id)
        if task is None:
            held = MetadataUpdater(
                self._updates, ledger_id, metadata, version, timeout_s=self._config.metadata_timeout_s
            )
            recovery = LedgerRecovery(held, digest, password, self._pool, self._config, rng=self._rng)
            task = asyncio.create_task(recovery.run())
            self._recoveries[ledger_id] = task
            task.add_done_callback(lambda done: self._recovered(ledger_id, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled() or cancelled_itself():
                raise
            raise BookieUnavailable(f"ledger {ledger_id}: this client was closed while it recovered it") from None

    def _recovered(self, ledger_id: int, task: asyncio.Task[LedgerMetadata]) -> None:
        self._recoveries.pop(ledger_id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.warning("recovery_failed", ledger=ledger_id, error=error)
