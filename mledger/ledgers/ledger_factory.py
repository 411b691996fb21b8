"""Creates and deletes a managed ledger's ledgers, each under a record that survives a crash (R10)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cached_property, partial

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.errors import NoSuchLedger
from mledger.config import ManagedLedgerConfig
from mledger.counters import NamespaceCounters
from mledger.ledgers.orphans.foreign_ledgers import check_own, delete_own_ledger, is_component_of
from mledger.ledgers.orphans.orphan_cleanup import StepHook, ignore_steps
from mledger.ledgers.orphans.pending_records import (
    claim_deletion,
    deletion_record,
    listed,
    pending_record,
    remove_record,
)
from mledger.ledgers.orphans.references import COMPACTED
from mledger.ledgers.topic_record import RETRY_DELAYS_S
from mledger.metastore.errors import NodeExists, NodeNotFound, RecordError, SessionExpired, StoreUnavailable
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup, placement_metadata
from mledger.metastore.records.ledger_metadata import DigestType
from mledger.metastore.records.paths import deletion_path, encode_name, pending_path
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import Create, Delete, MetadataStore, Operation
from mledger.metastore.write_verification import multi_own

__all__ = ["CustomMetadata", "LedgerFactory", "StepHook", "ignore_steps"]

log = get_logger(__name__)

CustomMetadata = Sequence[tuple[str, bytes]]


class LedgerFactory:
    """Creates, opens and deletes the ledgers of one managed ledger and its cursors with its settings.

    `on_step` is called with a name before each step that another owner could observe; tests stop
    the process there.
    """

    def __init__(
        self,
        bookkeeper: BookKeeper,
        store: MetadataStore,
        managed_ledger: str,
        config: ManagedLedgerConfig,
        on_step: StepHook = ignore_steps,
        counters: NamespaceCounters | None = None,
        affinity: BookieAffinityGroup | None = None,
    ) -> None:
        """Ledgers are placed by `affinity`, None: by the client's settings (Q1)."""
        self._bookkeeper = bookkeeper
        self._store = store
        self._name = managed_ledger
        self._placement = () if affinity is None else (placement_metadata(affinity),)
        self.config = config
        self.in_hand: set[int] = set()
        """Ledgers that are created but not yet listed, or being deleted: a replay skips them."""
        self.on_step = on_step
        self.counters = counters or NamespaceCounters()

    @cached_property
    def largest_entry(self) -> int:
        """The largest payload of an entry, in bytes: maxMessageSize, or the frame limit if that is smaller."""
        return min(self.config.max_message_size, self._bookkeeper.largest_entry(self.config.digest_type))

    async def create_data_ledger(self, above: int | None) -> LedgerWriter:
        """Create a data ledger with an id above `above` (M1), pending until `listed` is carried out.

        Raises NotEnoughBookies.
        """
        return await self._create(self._own(), above)

    async def create_cursor_ledger(self, cursor: str) -> LedgerWriter:
        """Create a cursor ledger for `cursor`, pending until `listed` is carried out.

        Raises NotEnoughBookies.
        """
        return await self._create(self._own(("pulsar/cursor", encode_name(cursor).encode())), None)

    async def create_attached_ledger(
        self, custom: CustomMetadata, digest_type: DigestType | None = None, password: bytes | None = None
    ) -> LedgerWriter:
        """Create a ledger of another component of Pulsar, pending until `listed` is carried out.

        Digest and password are those of the settings unless given. Raises NotEnoughBookies.
        """
        return await self._create(custom, None, digest_type, password)

    def _own(self, *extra: tuple[str, bytes]) -> CustomMetadata:
        managed_ledger = ("pulsar/managed-ledger", self._name.encode())
        return ("application", b"pulsar"), ("component", b"managed-ledger"), managed_ledger, *extra

    async def _create(
        self,
        custom: CustomMetadata,
        above: int | None,
        digest_type: DigestType | None = None,
        password: bytes | None = None,
    ) -> LedgerWriter:
        tried: list[int] = []

        def record(ledger_id: int) -> Sequence[Operation]:
            tried.append(ledger_id)
            self.in_hand.add(ledger_id)
            return (pending_record(ledger_id, self._name),)

        self.on_step("create ledger")
        try:
            create = partial(
                self._bookkeeper.create_ledger,
                self.config.ensemble_size,
                self.config.write_quorum_size,
                self.config.ack_quorum_size,
                digest_type=self.config.digest_type if digest_type is None else digest_type,
                password=self.config.password if password is None else password,
                custom_metadata=(*custom, *self._placement),
                also=record,
                above=above,
            )
            writer = await self._try_create(create)
        except BaseException:
            self.in_hand.difference_update(tried)
            raise
        self.in_hand.difference_update(ledger_id for ledger_id in tried if ledger_id != writer.ledger_id)
        self.on_step("ledger created, not listed")
        return writer

    async def _try_create(self, create: Callable[[], Awaitable[LedgerWriter]]) -> LedgerWriter:
        """Create a ledger, with retries after a lost connection; a replay deletes what an attempt left."""
        timeout = self.config.metadata_operations_timeout_s
        try:
            async with TimeLimit(timeout):
                return await _create_with_retries(create)
        except TimeoutError:
            raise StoreUnavailable(
                f"{self._name}: no ledger could be created within {timeout} s "
                "(managedLedgerMetadataOperationsTimeoutSeconds); check that the metadata store and the bookies are up"
            ) from None

    def listed(self, ledger_id: int) -> Delete:
        """The operation to include in the multi that lists the ledger; call `settled` afterwards."""
        return listed(ledger_id)

    def settled(self, ledger_id: int) -> None:
        """Note that the ledger is listed or discarded: a replay treats it like any other."""
        self.in_hand.discard(ledger_id)

    def deletion(self, ledger_id: int) -> Create:
        """The operation to include in the multi that unlists the ledger; call `delete` afterwards."""
        return deletion_record(ledger_id, self._name)

    async def delete(self, ledger_id: int) -> None:
        """Delete a ledger that is no longer listed, then its deletion record.

        A ledger without a deletion record is left alone: it was listed again (`mledger undo`) or is
        deleted already. So is one that says of itself that it is another topic's.
        """
        self.on_step("delete ledger")
        self.in_hand.add(ledger_id)
        try:
            if not await claim_deletion(self._store, ledger_id, self._name):
                return
            await delete_own_ledger(self._bookkeeper, ledger_id, self._name)
            self.on_step("ledger deleted, still recorded")
            await remove_record(self._store, deletion_path(ledger_id))
        finally:
            self.in_hand.discard(ledger_id)

    async def doubt(self, ledger_id: int) -> None:
        """Record a named ledger as pending, as it may be named no more soon; call `settle_doubt` afterwards."""
        self.in_hand.add(ledger_id)
        with contextlib.suppress(NodeExists):  # an earlier attempt recorded it
            await multi_own(self._store, [pending_record(ledger_id, self._name)])

    async def settle_doubt(self, ledger_id: int, *, listed: bool) -> None:
        """Remove a ledger's pending record if something names the ledger, else delete the ledger."""
        if listed:
            await remove_record(self._store, pending_path(ledger_id))
        else:
            with contextlib.suppress(NodeNotFound, NodeExists):  # an earlier attempt recorded it for deletion
                await multi_own(self._store, [self.deletion(ledger_id), Delete(pending_path(ledger_id))])
            await self.delete(ledger_id)
        self.settled(ledger_id)

    async def own_compacted(self, ledger_ids: Iterable[int]) -> list[int]:
        """Those of the ledgers that exist and that compaction wrote for this topic, by their own metadata.

        One whose metadata does not parse may be anybody's: it is logged and not among them.

        Raises:
            StoreUnavailable: the metadata store does not answer.
        """
        found: list[int] = []
        for ledger_id in sorted(ledger_ids):
            try:
                if is_component_of(await self._bookkeeper.metadata(ledger_id), COMPACTED, self._name):
                    found.append(ledger_id)
            except NoSuchLedger:
                continue
            except RecordError as error:
                log.warning("compacted_ledger_left", topic=self._name, ledger=ledger_id, error=error)
        return found

    async def discard(self, writer: LedgerWriter) -> None:
        """Delete a ledger that was created but is not listed, then its record (C4).

        A write whose response was lost may have listed the ledger after all; then it stays, since
        the next owner may use it. That write removed the pending record, and only the client that
        turns the pending record into a deletion record may delete the ledger. The deletion record
        may also be that of an owner that has unlisted the ledger since, so it is claimed first:
        until then the ledger may be listed again (`mledger undo`).
        """
        ledger_id = writer.ledger_id
        await writer.abandon()
        with contextlib.suppress(NodeNotFound, NodeExists):  # it is listed, or a replay has claimed it
            await multi_own(self._store, [deletion_record(ledger_id, self._name), Delete(pending_path(ledger_id))])
            if await claim_deletion(self._store, ledger_id, self._name):
                with contextlib.suppress(NoSuchLedger):
                    await self._bookkeeper.delete_ledger(ledger_id)
                await remove_record(self._store, deletion_path(ledger_id))
        self.settled(ledger_id)

    async def open(self, ledger_id: int) -> LedgerReader:
        """Open with recovery, which fences the writer and determines the end of the ledger.

        Raises NoSuchLedger and the retriable errors of R5.
        """
        return await self._bookkeeper.open_ledger(ledger_id, self.config.password)

    async def open_state(self, ledger_id: int) -> LedgerReader:
        """Open a cursor ledger as `open` does; one that says of itself that it is another topic's is not fenced.

        Raises ForeignLedger, and what `open` raises.
        """
        check = partial(check_own, self._name, ledger_id)
        return await self._bookkeeper.open_ledger(ledger_id, self.config.password, check=check)

    async def sync(self) -> None:
        """Make later reads of the metadata store see all earlier writes. Raises StoreUnavailable."""
        await self._store.sync()

    async def open_to_read(self, ledger_id: int) -> LedgerReader:
        """Open without recovery to read confirmed entries; an open ledger stays open.

        Raises NoSuchLedger and retriable errors.
        """
        return await self._bookkeeper.open_ledger_no_recovery(ledger_id, self.config.password)


async def _create_with_retries(create: Callable[[], Awaitable[LedgerWriter]]) -> LedgerWriter:
    for delay in (*RETRY_DELAYS_S, None):
        try:
            return await create()
        except SessionExpired:
            raise
        except StoreUnavailable:
            if delay is None:
                raise
            await asyncio.sleep(delay)
    raise AssertionError("unreachable")
