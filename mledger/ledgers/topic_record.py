"""A topic's record at its owner: every write is a compare-and-set; a conflict means another owner (M7).

- If another owner's write came first, the store rejects ours: this owner is fenced, permanently.
- After a lost connection the record is read back: our own bytes at the next version are our own
  write. If no answer was lost, another owner has written the same bytes.
- Cursor records are written in one multi with a check of this record's version: an owner that lost
  the topic has also lost its cursors.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from msgspec import Struct

from mledger.errors import ManagedLedgerFenced, TopicNotFound
from mledger.ledgers.orphans.pending_records import fits_one_write, write_ahead
from mledger.metastore.errors import (
    BadVersion,
    MetadataError,
    NodeExists,
    NodeNotFound,
    NodeTooLarge,
    SessionExpired,
    StoreUnavailable,
)
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import DELETIONS, managed_ledger_path
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import Check, Create, Delete, MetadataStore, Operation, Put, SessionState, Stat
from mledger.metastore.write_verification import changed_since, data_at, put_own

RETRY_DELAYS_S = (0.1, 0.3, 1.0, 3.0)
_NEW_VERSION = 0

CONFLICTS = (BadVersion, NodeNotFound, NodeExists)


async def commit(
    store: MetadataStore,
    first: Put | Create | Delete,
    others: Sequence[Operation] = (),
    timeout_s: float | None = None,
    before: Callable[[bool], Awaitable[None]] | None = None,
) -> None:
    """Carry out `first` and `others` atomically within `timeout_s`.

    `before` is awaited before each attempt with whether the response to an earlier attempt was
    lost.

    A lost connection is retried a bounded number of times. A conflict may be with our own earlier
    attempt, so the node of `first` is read back to decide (M7). Raises the conflict (BadVersion,
    NodeNotFound, NodeExists), or StoreUnavailable if the outcome is unknown.
    """
    async with _answered_within(timeout_s, f"a write of {first.path}", first.path):
        await _commit(store, first, others, before)


@contextlib.asynccontextmanager
async def _answered_within(timeout_s: float | None, what: str, path: str) -> AsyncIterator[None]:
    """Raise StoreUnavailable if the body takes longer than `timeout_s`."""
    try:
        async with TimeLimit(timeout_s):
            yield
    except TimeoutError:
        raise StoreUnavailable(
            f"{what} was not answered within {timeout_s:g} s "
            "(managedLedgerMetadataOperationsTimeoutSeconds); check that the metadata store is up",
            path,
        ) from None


async def _commit(
    store: MetadataStore,
    first: Put | Create | Delete,
    others: Sequence[Operation],
    before: Callable[[bool], Awaitable[None]] | None,
) -> None:
    uncertain = False
    for delay in (*RETRY_DELAYS_S, None):
        try:
            if before is not None:
                await before(uncertain)
            await store.multi([first, *others])
            return
        except CONFLICTS:
            if uncertain and await _was_ours(store, first):
                return
            raise
        except SessionExpired:
            raise
        except StoreUnavailable:
            if delay is None:
                raise
            uncertain = True
            await asyncio.sleep(delay)


async def _was_ours(store: MetadataStore, first: Put | Create | Delete) -> bool:
    """Whether an attempt whose answer was lost has carried out `first`."""
    try:
        node = await store.get(first.path)
    except NodeNotFound:
        return isinstance(first, Delete)
    if isinstance(first, Put):
        return node.version == first.version + 1 and node.data == first.data
    return isinstance(first, Create) and node.version == 0 and node.data == first.data


async def fence_owner(store: MetadataStore, path: str, version: int) -> int:
    """Rewrite the topic's record at `path` and `version` unchanged, to fence its owner; the new version.

    Raises NodeNotFound, and BadVersion if the record, or a lagging server's view of it, is at
    another version.
    """
    return await put_own(store, path, await data_at(store, path, version, "it was changed since"), version)


class RecordChange(Struct, frozen=True):
    """The record to write, and the other operations of the same multi.

    `deletions` record the ledgers that it no longer lists for deletion; if they exceed one write,
    they are written ahead of it (M11).
    """

    info: ManagedLedgerInfo
    also: tuple[Operation, ...] = ()
    deletions: tuple[Create, ...] = ()


class TopicRecord:
    """The record of one managed ledger at its owner."""

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        info: ManagedLedgerInfo,
        version: int,
        *,
        created_ms: int | None = None,
        compression: str = "NONE",
        timeout_s: float | None = None,
    ) -> None:
        self._store = store
        self._created_ms = created_ms
        self._doubts = self._doubts_settled = 0
        self._timeout_s = timeout_s
        self._compression = compression
        self._lock = asyncio.Lock()
        self._uncertain: tuple[ManagedLedgerInfo, bytes] | None = None
        self._listeners: list[Callable[[ManagedLedgerFenced], None]] = []
        self._settled: list[Callable[[], None]] = []
        self.name = name
        self.path = managed_ledger_path(name)
        self.info = info
        self.version = version
        self.fenced: ManagedLedgerFenced | None = None
        self.session_ended = False
        """Whether the end of the session fenced the topic: the outcome of a write under way is unknown."""

    @classmethod
    async def read(cls, store: MetadataStore, name: str, *, timeout_s: float | None = None) -> "TopicRecord":
        """Read the record; later writes take at most `timeout_s` and keep its compression.

        Raises TopicNotFound, RecordError.
        """
        path = managed_ledger_path(name)
        try:
            node = await store.get(path)
        except NodeNotFound:
            raise TopicNotFound(f"there is no managed ledger {name}; create the topic first") from None
        decoded = decode_managed_ledger_info(node.data, path)
        return cls(
            store,
            name,
            decoded.value,
            node.version,
            created_ms=node.stat.created_ms,
            compression=decoded.compression,
            timeout_s=timeout_s,
        )

    def on_fenced(self, listener: Callable[[ManagedLedgerFenced], None]) -> None:
        """Call `listener` once, when this owner is fenced."""
        self._listeners.append(listener)

    def on_settled(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a write of unknown outcome turns out to have succeeded."""
        self._settled.append(listener)

    def fence(self, why: str) -> ManagedLedgerFenced:
        """Fence this owner because of `why`; returns the error to raise."""
        if self.fenced is None:
            self.fenced = ManagedLedgerFenced(f"{self.name}: {why}; this owner has stopped, open the topic again")
            for listener in self._listeners:
                listener(self.fenced)
        return self.fenced

    def end_session(self) -> ManagedLedgerFenced:
        """Fence this owner: its node is gone with the session, and another may own the topic already."""
        self.session_ended = True
        return self.fence("its session with the metadata store has ended")

    def check(self) -> None:
        """Raise ManagedLedgerFenced if this owner is fenced."""
        if self.fenced is not None:
            raise self.fenced

    def doubt(self) -> None:
        """Check the node before the next write: a deleted and recreated topic may have our version."""
        self._doubts += 1

    async def check_same(self) -> None:
        """Check that the node is the same one: the version does not reveal a recreated topic.

        Call it before a write without an earlier `verify`. Raises ManagedLedgerFenced; writes
        nothing.
        """
        self.check()
        async with _answered_within(self._timeout_s, f"a read of {self.path}", self.path):
            stat = await self._store.exists(self.path)
        if stat is not None:  # else the write fails
            self._check_created(stat)

    async def verify(self) -> None:
        """Raise ManagedLedgerFenced unless the record is still at our version; writes nothing."""
        async with self._lock:
            self.check()
            await self._settle_uncertain()
            stat = await self._store.exists(self.path)
            if stat is None:
                raise self.fence("its record was deleted")
            self._check_created(stat)
            if stat.version != self.version:
                raise self.fence(
                    f"its record is at version {stat.version}, not at {self.version}: another owner wrote it"
                )

    async def remove_new(self) -> None:
        """Delete the record if it is the one that was read and nobody has written it yet; errors are left aside."""
        with contextlib.suppress(MetadataError):
            stat = await self._store.exists(self.path)
            if stat is not None and stat.created_ms == self._created_ms:
                await self._store.delete(self.path, _NEW_VERSION)

    async def _before_write(self, lost: bool) -> None:
        """After a lost response, or if the session may be a new one, check first that the node is the same."""
        if lost:
            self.doubt()
        doubts = self._doubts
        if doubts == self._doubts_settled and self._store.session_state is SessionState.CONNECTED:
            return
        await self._store.sync()
        await self.check_same()
        self._doubts_settled = doubts

    def _check_created(self, stat: Stat) -> None:
        if self._created_ms not in (None, stat.created_ms):
            raise self.fence("its record was deleted and the topic was created again")

    async def update(self, change: Callable[[ManagedLedgerInfo], RecordChange]) -> ManagedLedgerInfo:
        """Write the record as `change` changes it; returns the record as written.

        Raises ManagedLedgerFenced if another owner wrote first, and StoreUnavailable if the outcome
        is unknown: the next update finds it out first.
        """
        async with self._lock:
            self.check()
            await self._settle_uncertain()
            changed = change(self.info)
            info = changed.info
            data = encode_managed_ledger_info(info, compression=self._compression)
            self._uncertain = (info, data)
            try:
                await self._write(data, changed)
            except SessionExpired:
                raise self.end_session() from None
            except NodeTooLarge:
                self._uncertain = None  # it was not sent
                raise
            except CONFLICTS as conflict:
                self._uncertain = None
                raise self.fence(
                    f"the write of {conflict.path or self.path} was rejected: another owner wrote first"
                ) from None
            self._uncertain = None
            self.info, self.version = info, self.version + 1
            return info

    async def _write(self, data: bytes, changed: RecordChange) -> None:
        put = Put(self.path, data, self.version)
        if fits_one_write(data, changed.deletions):
            try:
                await self._commit(put, [*changed.also, *changed.deletions])
                return
            except NodeExists as conflict:  # an earlier owner may have died between this record and its list
                if conflict.path not in {each.path for each in changed.deletions}:
                    raise
        await write_ahead(self._store, [(each,) for each in changed.deletions], Check(self.path, self.version))
        await self._commit(put, changed.also)

    async def _commit(self, first: Put | Create | Delete, others: Sequence[Operation]) -> None:
        await commit(self._store, first, others, self._timeout_s, self._before_write)

    async def guarded(self, first: Put | Create | Delete, others: Sequence[Operation] = ()) -> None:
        """Carry out `first` (on a cursor's record) and `others` if this record is still ours.

        A deletion record of this topic that is there already is what was wanted: a damaged cursor may name a ledger of
        another one, which has given it up.

        Raises ManagedLedgerFenced if another owner wrote this record or the one of `first`, and
        StoreUnavailable.
        """
        while True:
            self.check()
            version = self.version
            try:
                return await self._commit(first, [*others, Check(self.path, version)])
            except SessionExpired:
                raise self.end_session() from None
            except CONFLICTS as conflict:
                if recorded := await self._recorded_already(conflict, others):
                    others = [each for each in others if each is not recorded]
                    continue
                async with self._lock:  # our own update may be under way, or of unknown outcome
                    if conflict.path == self.path and self.fenced is None:
                        await self._settle_uncertain()
                        if version != self.version:
                            continue
                where = conflict.path or first.path
                raise self.fence(f"the write of {where} was rejected: another owner wrote first") from None

    async def _recorded_already(self, conflict: MetadataError, others: Sequence[Operation]) -> Create | None:
        """Which deletion record of `others` an earlier write has made, if that is the conflict."""
        for each in others:
            if isinstance(each, Create) and each.path == conflict.path and each.path.startswith(f"{DELETIONS}/"):
                (found,) = await self._store.get_many([each.path])
                return each if found is not None and found.data == each.data else None
        return None

    async def _settle_uncertain(self) -> None:
        if self._uncertain is None:
            return
        info, data = self._uncertain
        self.doubt()  # if the topic was recreated, version and data do not reveal the outcome of our write
        try:
            node = await changed_since(self._store, self.path, self.version)
        except NodeNotFound:
            raise self.fence("its record was deleted") from None
        if node is not None:
            self._check_created(node.stat)
        if node is None:
            self._uncertain = None
        elif node.version == self.version + 1 and node.data == data:
            self._uncertain = None
            self.info, self.version = info, node.version
            for listener in self._settled:
                listener()
        else:
            raise self.fence("its record was written by another owner")
