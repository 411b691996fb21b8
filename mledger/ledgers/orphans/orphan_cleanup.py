"""Cleans up ledgers that crashes left unlisted (R10), in one round for all waiting topics of a process.

- A replay deletes a recorded ledger only if the managed ledger that the record names does not list
  it, neither as a data ledger nor in a cursor's record.
- A pending record may also be that of a compacted ledger, which is listed if the recovered state of
  compaction's cursor names it. Until that is recovered, no ledger with a pending record is deleted.
- A replay claims a deletion record first and reads the lists again after that. A client that lists
  the ledger again either removed the record before the claim, or sees the claim and leaves the
  ledger alone.
- A replay turns a pending record into a deletion record first, in one multi that checks the topic's
  version. The multi that lists a ledger removes its pending record, so only one of the two
  succeeds: a former owner whose replay was delayed cannot delete a ledger that the current owner
  lists.
- A ledger whose own metadata names another owner than the record stays; the record goes.
- Any process may clean up the records of managed ledgers that no longer exist; other records are
  left to their owners. A damaged record has no owner and stays (M12).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from msgspec import Struct

from mledger.bookie.client.client import BookKeeper
from mledger.ledgers.orphans.foreign_ledgers import delete_own_ledger
from mledger.ledgers.orphans.pending_records import (
    PendingRecord,
    claim_deletion,
    deletion_record,
    owned_ledgers,
    read_records,
    remove_record,
)
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.paths import deletion_path, managed_ledger_path, pending_path
from mledger.metastore.store import Check, Delete, MetadataStore
from mledger.metastore.write_verification import multi_own

AT_ONCE = 100
ATTEMPTS = 3

StepHook = Callable[[str], None]


def ignore_steps(step: str) -> None:
    """A StepHook that does nothing."""


class Claimant(Struct, frozen=True):
    """An owner that requests a replay, after its first write of the list has fenced earlier owners.

    `in_hand` always has the ledgers that it has created but not yet listed, or is deleting.
    `compacted` gives the compacted ledgers that are named, None while that is not known.
    """

    record: TopicRecord
    in_hand: Collection[int]
    on_step: StepHook = ignore_steps
    compacted: Callable[[], Collection[int] | None] = tuple


class OrphanCleanup:
    """Replays for the topics of one process, one round at a time."""

    def __init__(self, bookkeeper: BookKeeper, store: MetadataStore) -> None:
        self._bookkeeper = bookkeeper
        self._store = store
        self._waiting: list[tuple[Claimant, asyncio.Future[None]]] = []
        self._round: asyncio.Task[None] | None = None

    async def replay(self, claimant: Claimant) -> None:
        """Clean up what a crash left of this managed ledger; raises the error that prevents it."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((claimant, done))
        if self._round is None:
            self._round = loop.create_task(self._run())
        await done

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                await self._replay([each for each in waiting if not each[1].done()])
        finally:
            self._round = None

    async def _replay(self, waiting: list[tuple[Claimant, "asyncio.Future[None]"]]) -> None:
        owners = {claimant.record.name: claimant for claimant, _ in waiting}
        gone = {claimant.record.name: done for claimant, done in waiting}
        error: Exception | None = None
        try:
            await replay(self._bookkeeper, self._store, owners, given_up=lambda name: gone[name].cancelled())
        except Exception as failure:
            error = failure
        for _, done in waiting:
            if done.done():
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)


async def replay(
    bookkeeper: BookKeeper,
    store: MetadataStore,
    owners: Mapping[str, Claimant],
    *,
    given_up: Callable[[str], bool] = lambda _: False,
    on_step: StepHook = ignore_steps,
) -> list[int]:
    """Clean up after crashes of the managed ledgers `owners` and of those that no longer exist.

    Returns the ids of the deleted ledgers. `given_up` says whether one of `owners` has stopped
    meanwhile; then nothing more of it is changed. `on_step` is called for records without an owner
    here. Raises errors of reading records or lists, and, after all were tried, the first error of a
    deletion.
    """
    return await _Leftovers(bookkeeper, store, owners, given_up, on_step).finish()


class _Leftovers:
    """One round: reads the records, then deletes or keeps their ledgers."""

    def __init__(
        self,
        bookkeeper: BookKeeper,
        store: MetadataStore,
        owners: Mapping[str, Claimant],
        given_up: Callable[[str], bool],
        on_step: StepHook,
    ) -> None:
        self._bookkeeper, self._store = bookkeeper, store
        self._owners, self._given_up, self._on_step = owners, given_up, on_step
        self._in_hand: dict[str, frozenset[int]] = {}
        self._lists: dict[str, set[int] | None] = {}
        self._claimed: list[PendingRecord] = []
        self._deleted: list[int] = []

    async def finish(self) -> list[int]:
        records = await read_records(self._store)
        self._in_hand = {name: frozenset(owner.in_hand) for name, owner in self._owners.items()}
        # read after the records and before the lists, so the lists show what is listed in between
        await self._read_lists(records)
        errors: list[Exception] = []
        for start in range(0, len(records), AT_ONCE):  # an undo cannot list claimed ledgers again: claim few
            errors += await self._finish_some(records[start : start + AT_ONCE])
        if errors:
            raise errors[0]
        return sorted(self._deleted)

    async def _finish_some(self, records: Sequence[PendingRecord]) -> list[Exception]:
        self._claimed = []
        errors = await _for_each(records, self._claim)
        if self._claimed:
            await self._store.sync()
            await self._read_lists(self._claimed)
            errors += await _for_each(self._claimed, self._delete)
        return errors

    async def _read_lists(self, records: Sequence[PendingRecord]) -> None:
        names = sorted({record.managed_ledger for record in records})
        lists = await asyncio.gather(*(_owned_or_none(self._store, name, ours=name in self._owners) for name in names))
        self._lists.update(zip(names, lists, strict=True))

    def _is_listed(self, record: PendingRecord) -> bool | None:
        """Whether the ledger is listed; None if this replay cannot decide that."""
        listed, name = self._lists[record.managed_ledger], record.managed_ledger
        ours = name in self._owners
        if listed is None or (ours and (self._given_up(name) or record.ledger_id in self._in_hand[name])):
            return None
        if record.ledger_id in listed or not ours:
            return record.ledger_id in listed
        compacted = self._owners[name].compacted()
        if compacted is None:
            return None if record.path == pending_path(record.ledger_id) else False
        return record.ledger_id in compacted

    def _step(self, record: PendingRecord, name: str) -> None:
        owner = self._owners.get(record.managed_ledger)
        (self._on_step if owner is None else owner.on_step)(name)

    async def _claim(self, record: PendingRecord) -> None:
        """Claim the ledger's deletion, so that nobody lists it again, unless it is listed."""
        listed = self._is_listed(record)
        if listed:
            await _remove_leftover(self._store, record, self._owners[record.managed_ledger])
        elif listed is not None:
            self._step(record, "finish deletion")
            is_pending = record.path != deletion_path(record.ledger_id)
            if is_pending and not await _doom(self._store, record, self._owners.get(record.managed_ledger)):
                return
            if await claim_deletion(self._store, record.ledger_id, record.managed_ledger):
                self._step(record, "leftover claimed")
                self._claimed.append(record)

    async def _delete(self, record: PendingRecord) -> None:
        """Delete a claimed ledger and its record; if it was listed before the claim, only the record."""
        listed = self._is_listed(record)
        if listed is None:
            return
        if not listed:
            if await delete_own_ledger(self._bookkeeper, record.ledger_id, record.managed_ledger):
                self._deleted.append(record.ledger_id)
            self._step(record, "leftover deleted, still recorded")
        await remove_record(self._store, deletion_path(record.ledger_id))


async def _remove_leftover(store: MetadataStore, record: PendingRecord, owner: Claimant) -> None:
    """Remove the record of a listed ledger, unless another owner, who may have created it, has the topic.

    The record also stays while this owner removes the ledger from its list, since it relies on a
    record that exists already.
    """
    for _ in range(ATTEMPTS):
        version = owner.record.version
        if record.ledger_id in owner.in_hand:
            return
        try:
            await multi_own(store, [Delete(record.path), Check(owner.record.path, version)])
            return
        except NodeNotFound:
            return
        except BadVersion:
            if owner.record.version == version:
                return


async def _for_each(
    records: Sequence[PendingRecord], act: Callable[[PendingRecord], Awaitable[None]]
) -> list[Exception]:
    """Act on all records concurrently; returns the errors."""
    results = await asyncio.gather(*map(act, records), return_exceptions=True)
    return [result for result in results if isinstance(result, Exception)]


async def _doom(store: MetadataStore, record: PendingRecord, owner: Claimant | None) -> bool:
    """Turn a pending record into a deletion record; False if the ledger is listed or the topic was lost."""
    for _ in range(ATTEMPTS):
        version = None if owner is None else owner.record.version
        checks = [] if owner is None else [Check(owner.record.path, owner.record.version)]
        try:
            await multi_own(
                store, [deletion_record(record.ledger_id, record.managed_ledger), Delete(record.path), *checks]
            )
        except (NodeNotFound, NodeExists):
            return False
        except BadVersion:
            if owner is None or owner.record.version == version:
                return False
        else:
            return True
    return False


async def _owned_or_none(store: MetadataStore, name: str, *, ours: bool) -> set[int] | None:
    """The ledgers that `name` lists; None if its own owner must decide, or a record cannot be read."""
    if not name:  # the record is damaged
        return None
    try:
        if not ours:
            return None if await store.exists(managed_ledger_path(name)) else set()
        return await owned_ledgers(store, name)
    except NodeNotFound:
        return set()
    except RecordError:
        return None
