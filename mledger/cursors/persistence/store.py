"""Stores one cursor's states, in its cursor ledger or in its znode (C3, C4, R8).

- A state is one entry of the cursor ledger, which is created at the first change. The znode names
  that ledger and is written only for a new cursor ledger and at a clean close.
- A new cursor ledger is created at the limits of entries, of bytes and of age, and after a write
  error. The multi that names the new one records the old one for deletion.
- If no new cursor ledger can be created, or the metadata store does not answer, writes continue to
  one that is only due, and the switch is postponed. If no cursor ledger can be written, the znode
  holds the state, within the limits of a clean close.
- Every write of the znode checks the topic's record: a fenced owner cannot move a cursor (M7).
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.errors import BookieError, LedgerConflict, LedgerFenced
from mledger.config import ManagedLedgerConfig
from mledger.cursors.acks.ack_records import encoded_state, znode_record
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.persistence.attached_ledgers import CursorAttachments
from mledger.cursors.persistence.write_turns import WriteTurns
from mledger.errors import AckStateTooLarge, CursorNotFound, ManagedLedgerFenced
from mledger.events import CursorLedgerSwitched, Event
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.orphans.pending_records import kept_record
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.errors import MetadataError, NodeNotFound, StoreUnavailable
from mledger.metastore.records.codec import encode_managed_cursor_info
from mledger.metastore.records.paths import cursor_path, deletion_path, is_possible_ledger, kept_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo
from mledger.metastore.store import Create, Delete, MetadataStore, Operation, Put, SessionState
from mledger.metastore.write_verification import changed_since, is_there

SWITCH_POSTPONED_S = 10.0
SWITCH_BYTES = 256 << 20
"""A state of many holes takes some MiB, and one is written each second: bookies would keep them all for hours."""


class CursorState(Struct, frozen=True):
    """A cursor's state to make durable; `acks` must not change while this is in use."""

    acks: AckState
    properties: tuple[tuple[str, int], ...] = ()
    cursor_properties: tuple[tuple[str, str], ...] = ()

    @property
    def mark_delete(self) -> Position:
        """The mark-delete position."""
        return self.acks.mark_delete


class CursorContext(Struct, frozen=True):
    """The context shared by a topic's cursors. `delete_later` deletes a recorded ledger in the background."""

    record: TopicRecord
    store: MetadataStore
    factory: LedgerFactory
    emit: Callable[[Event], None]
    delete_later: Callable[[int], None]
    now_ms: Callable[[], int]
    turns: WriteTurns

    @property
    def config(self) -> ManagedLedgerConfig:
        """The topic's settings."""
        return self.factory.config


class _Attempt(Struct, frozen=True):
    """A znode write of unknown outcome."""

    znode: ManagedCursorInfo
    data: bytes
    writer: LedgerWriter | None


class CursorStore:
    """Writes the states of one cursor, one write at a time, so that its writes do not conflict."""

    def __init__(
        self,
        name: str,
        path: str,
        context: CursorContext,
        znode: ManagedCursorInfo,
        version: int,
        *,
        keep_ledger: bool = False,
        foreign_ledger: bool = False,
    ) -> None:
        """`keep_ledger`: keep the cursor ledger that `znode` names when a new one replaces it (R4, M12).

        `foreign_ledger`: that one is another topic's, and none of this cursor's to delete or to record.
        """
        self.name = name
        self.path = path
        self._context = context
        self._znode = znode
        self._version = version
        self._writer: LedgerWriter | None = None
        self._written = self._bytes = 0
        self._created_at = 0.0
        self._postponed_until = 0.0
        self._uncertain: _Attempt | None = None
        self._removed = False
        self.attached = CursorAttachments(context.factory, context.delete_later)
        self._kept = znode.cursors_ledger_id if keep_ledger else NO_CURSOR_LEDGER
        self._foreign = znode.cursors_ledger_id if foreign_ledger else NO_CURSOR_LEDGER
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    def new(cls, name: str, context: CursorContext, state: CursorState) -> "CursorStore":
        """The store of a new cursor; `create` then creates its znode with `state` (R1)."""
        acks = state.acks
        znode = znode_record(acks, state.properties, state.cursor_properties, context.now_ms())
        if znode is None:
            raise AckStateTooLarge(f"cursor {name} cannot be created: its properties do not fit into its record")
        return cls(name, cursor_path(context.record.name, name), context, znode, 0)

    async def create(self) -> None:
        """Create a new cursor's znode. Raises StoreUnavailable if the outcome is unknown."""
        await self._context.record.check_same()
        self._context.factory.on_step("create cursor")
        await self._context.record.guarded(Create(self.path, encode_managed_cursor_info(self._znode)))

    async def was_created(self) -> bool:
        """Whether a `create` whose response was lost succeeded (M7).

        Raises ManagedLedgerFenced if another owner created the record.
        """
        self._context.record.check()
        if not await is_there(self._context.store, self.path):
            return False
        node = await self._context.store.get(self.path)
        if node.version != 0 or node.data != encode_managed_cursor_info(self._znode):
            raise self._context.record.fence(f"the record of cursor {self.name} was written by another owner")
        return True

    @property
    def ledger_id(self) -> int:
        """The cursor ledger that the znode names, -1 for none."""
        return self._znode.cursors_ledger_id

    @property
    def is_writing(self) -> bool:
        """Whether a cursor ledger is open for writing."""
        return self._writer is not None

    async def write(self, state: CursorState) -> None:
        """Make `state` durable as an entry, or in a new cursor ledger, or in the znode (C3, C4).

        Raises AckStateTooLarge, ManagedLedgerFenced, and the errors of writing ledger and znode.
        """
        async with self._one_at_a_time:
            await self._write(state)

    async def _write(self, state: CursorState) -> None:
        await self._begin()
        await self._context.turns.next()
        data = self._encode(state)
        due = self._is_due()
        if not due and await self._append(data):
            return
        try:
            writer = await self._new_ledger(data)
        except (BookieError, StoreUnavailable) as error:
            if due and await self._append(data):  # a ledger that is due still accepts entries
                self._postponed_until = asyncio.get_running_loop().time() + SWITCH_POSTPONED_S
            elif isinstance(error, StoreUnavailable) or not await self._write_to_znode(state):
                raise
            return
        self._context.factory.on_step("name cursor ledger")
        await self._put(self._naming(writer.ledger_id, state), writer)
        self._context.factory.on_step("cursor ledger named")

    async def _append(self, data: bytes) -> bool:
        """Append a state to the open cursor ledger; False if there is none, or it accepts no more entries."""
        if self._writer is None:
            return False
        counters = self._context.factory.counters
        try:
            await self._writer.append([data])
        except (LedgerFenced, LedgerConflict):
            counters.states_in_ledgers_failed += 1
            await self._context.record.verify()
            return False
        except BookieError:
            counters.states_in_ledgers_failed += 1
            return False
        self._written += 1
        self._bytes += len(data)
        counters.states_in_ledgers += 1
        return True

    async def write_to_znode(self, state: CursorState) -> bool:
        """Make `state` durable in the znode and release the cursor ledger (C3).

        Returns False, with nothing done, if the state exceeds the limits of the znode.
        """
        async with self._one_at_a_time:
            return await self._write_to_znode(state)

    async def _write_to_znode(self, state: CursorState) -> bool:
        await self._begin()
        znode = znode_record(
            state.acks,
            state.properties,
            state.cursor_properties,
            self._context.now_ms(),
            max_ranges=self._context.config.max_unacked_ranges_to_persist_in_metadata_store,
        )
        if znode is None:
            return False
        await self._put(replace(znode, unknown=self._znode.unknown), None)
        return True

    async def write_properties(self, properties: tuple[tuple[str, str], ...]) -> None:
        """Make the cursor's own properties durable in its znode; the state stays where it is."""
        async with self._one_at_a_time:
            await self._write_properties(properties)

    async def _write_properties(self, properties: tuple[tuple[str, str], ...]) -> None:
        await self._begin()
        if properties != self._znode.cursor_properties:
            znode = replace(self._znode, cursor_properties=properties, last_active=self._context.now_ms())
            await self._put(znode, self._writer)

    async def close(self, state: CursorState, *, changed: bool) -> None:
        """Close cleanly (C3): write the state to the znode, or as a last entry to the cursor ledger."""
        async with self._one_at_a_time:
            unchanged_in_znode = not changed and self.ledger_id == NO_CURSOR_LEDGER and self._uncertain is None
            if not unchanged_in_znode and not await self._write_to_znode(state) and changed:
                await self._write_properties(state.cursor_properties)  # entries of a cursor ledger do not store them
                await self._write(state)
            if self._writer is not None:
                writer, self._writer = self._writer, None
                await writer.close()

    async def remove(self, attached: Collection[int] = (), compacted: Collection[int] = ()) -> None:
        """Delete the znode, then the cursor ledger and the ledgers `attached` that it names (M8, C7).

        So are those of `compacted` that compaction wrote for this topic.

        Raises:
            ManagedLedgerFenced: another owner has written the topic's record or the cursor's.
            CursorNotFound: the record is gone.
            StoreUnavailable: the metadata store does not answer, or what became of the deletion is unknown.
        """
        async with self._one_at_a_time:
            await self._begin()
            old = self.ledger_id
            await self._context.record.check_same()
            self._context.factory.on_step("delete cursor")
            compacted = await self._context.factory.own_compacted(compacted)
            attached = sorted({*attached, *compacted, *self.attached.owned(self._znode.cursor_properties)})
            unrecorded = await self._unrecorded(attached)
            deletions = (*await self._deletions(old), *map(self._context.factory.deletion, unrecorded))
            await self._context.record.guarded(Delete(self.path, self._version), deletions)
            self._context.factory.on_step("cursor deleted")
            self._removed = True
            await self.abandon()
            self._delete_old(old)
            self.attached.forget()
            for ledger_id in attached:
                self._context.delete_later(ledger_id)

    async def idle(self) -> None:
        """Wait until no write is under way."""
        async with self._one_at_a_time:
            return

    async def abandon(self) -> None:
        """Release the cursor ledger without writing anything."""
        if self._uncertain is not None and self._uncertain.writer is not None:
            await self._uncertain.writer.abandon()
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await writer.abandon()

    async def _begin(self) -> None:
        """Raise if the cursor is fenced or deleted; find out the outcome of the last write."""
        self._context.record.check()
        if self._removed:
            raise CursorNotFound(f"cursor {self.name} of {self._context.record.name} was deleted")
        await self._settle_uncertain()

    def _is_due(self) -> bool:
        config, now = self._context.config, asyncio.get_running_loop().time()
        if now < self._postponed_until or self._context.store.session_state is not SessionState.CONNECTED:
            return False
        age = now - self._created_at
        too_old = 0 < config.ledger_rollover_timeout_s <= age
        is_full = self._written >= config.metadata_max_entries_per_ledger or self._bytes >= SWITCH_BYTES
        return is_full or too_old

    async def _new_ledger(self, data: bytes) -> LedgerWriter:
        """Create a cursor ledger with the state as its first entry; no record names it yet."""
        writer = await self._context.factory.create_cursor_ledger(self.name)
        try:
            await writer.append([data])
        except BaseException:
            await self._discard(writer)
            raise
        return writer

    def _naming(self, ledger_id: int, state: CursorState) -> ManagedCursorInfo:
        """The znode that names the cursor ledger with the state, and has mark-delete as a snapshot (R4)."""
        return replace(
            self._znode,
            cursors_ledger_id=ledger_id,
            mark_delete=state.mark_delete,
            ranges=(),
            batch_deletions=(),
            properties=state.properties,
            cursor_properties=state.cursor_properties,
            last_active=self._context.now_ms(),
            last_checkpoint=None,
        )

    def _encode(self, state: CursorState) -> bytes:
        limit = self._context.factory.largest_entry
        try:
            return encoded_state(state.acks, state.properties, limit=limit)
        except AckStateTooLarge as error:
            raise AckStateTooLarge(f"cursor {self.name} of {self._context.record.name}: {error}") from None

    async def _put(self, znode: ManagedCursorInfo, writer: LedgerWriter | None) -> None:
        """Write the znode; `writer` is the cursor ledger open afterwards, the current one or a new one."""
        data = encode_managed_cursor_info(znode)
        operations: list[Operation] = []
        try:
            if znode.cursors_ledger_id != self.ledger_id:
                operations += await self._deletions(self.ledger_id)
                if writer is not None:
                    operations.append(self._context.factory.listed(writer.ledger_id))
            if znode.cursor_properties != self._znode.cursor_properties:
                operations += self.attached.operations(znode.cursor_properties)
            await self._context.record.check_same()
            self._context.factory.on_step("write cursor record")
            await self._context.record.guarded(Put(self.path, data, self._version), operations)
        except ManagedLedgerFenced:
            if writer is not self._writer and writer is not None:
                # if the session ended, the record may name it, and ledgers may have another session
                await (writer.abandon() if self._context.record.session_ended else self._discard(writer))
            raise
        except BaseException as error:  # a cancelled caller does not undo a sent write
            if isinstance(error, StoreUnavailable):
                self._context.factory.counters.states_in_records_failed += 1
            self._uncertain = _Attempt(znode, data, writer)
            raise
        await self._adopt(znode, writer)

    async def _adopt(self, znode: ManagedCursorInfo, writer: LedgerWriter | None) -> None:
        old = self.ledger_id
        self._znode, self._version = znode, self._version + 1
        self._context.factory.counters.states_in_records += 1
        self.attached.written(znode.cursor_properties)
        if znode.cursors_ledger_id == old:
            return
        await self.abandon()
        self._writer = writer
        if writer is not None:
            self._written, self._bytes, self._created_at = 1, 0, asyncio.get_running_loop().time()
            self._context.factory.settled(writer.ledger_id)
        self._context.emit(CursorLedgerSwitched(self._context.record.name, self.name, old, znode.cursors_ledger_id))
        self._delete_old(old)

    async def _settle_uncertain(self) -> None:
        """Find out whether the last znode write was carried out, and continue from there (M7, C4)."""
        attempt = self._uncertain
        if attempt is None:
            return
        try:
            node = await changed_since(self._context.store, self.path, self._version)
        except NodeNotFound:
            raise self._context.record.fence(f"the record of cursor {self.name} was deleted") from None
        if node is None:
            self._uncertain = None
            if attempt.writer is not None and attempt.writer is not self._writer:
                await self._discard(attempt.writer)
        elif node.version == self._version + 1 and node.data == attempt.data:
            self._uncertain = None
            await self._adopt(attempt.znode, attempt.writer)
        else:
            raise self._context.record.fence(f"the record of cursor {self.name} was written by another owner")

    async def _deletions(self, ledger_id: int) -> Sequence[Operation]:
        """The operations to include in the update after which the znode no longer names the ledger."""
        if ledger_id == self._foreign or not is_possible_ledger(ledger_id):
            return ()
        if ledger_id != self._kept:
            return (self._context.factory.deletion(ledger_id),)
        recorded = await self._context.store.exists(kept_path(ledger_id)) is not None
        return () if recorded else (kept_record(ledger_id, self._context.record.name),)

    async def _unrecorded(self, ledger_ids: Sequence[int]) -> list[int]:
        """Those without a deletion record: compaction's subscription deletes the ledger before the last by itself."""
        records = await self._context.store.get_many([deletion_path(each) for each in ledger_ids])
        return [each for each, record in zip(ledger_ids, records, strict=True) if record is None]

    def _delete_old(self, ledger_id: int) -> None:
        if ledger_id not in (self._kept, self._foreign) and is_possible_ledger(ledger_id):
            self._context.delete_later(ledger_id)

    async def _discard(self, writer: LedgerWriter) -> None:
        """Delete an unused ledger; if that fails, its pending record stays and a replay deletes it."""
        with contextlib.suppress(BookieError, MetadataError):
            await self._context.factory.discard(writer)
