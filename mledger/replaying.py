"""Finishes what crashes left between two owners' lists (R10): one round for all topics of a process that ask meanwhile.

- A replay deletes a recorded ledger only if the managed ledger that the record names lists it nowhere: neither as data
  ledger nor in a cursor's record.
- A pending record is turned into one of deletion first, in one multi that checks the topic's version. Whoever lists a
  ledger removes its pending record in the same multi, so of the two only one can happen: a former owner whose replay
  was held up cannot delete what the present one lists.
- Records of managed ledgers that no longer exist are anyone's; those of others are left to their owners.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from bookie.client.client import BookKeeper
from bookie.errors import NoSuchLedger
from metastore.errors import BadVersion, NodeExists, NodeNotFound, RecordError
from metastore.own_writes import multi_own
from metastore.paths import deletion_path, managed_ledger_path
from metastore.store import Check, Delete, MetadataStore
from mledger.ledger_records import LedgerRecord, deletion_record, owned_ledgers, read_records, remove_record
from mledger.topic_record import TopicRecord

AT_ONCE = 100
ATTEMPTS = 3

StepHook = Callable[[str], None]


def ignore_steps(step: str) -> None:
    """A StepHook for whom nobody waits."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """An owner that asks for a replay, after its first write of the list: no earlier owner can list anything then.

    `in_hand` are, at every moment, the ledgers that it has created and not listed yet, or deletes just now.
    """

    record: TopicRecord
    in_hand: Collection[int]
    on_step: StepHook = ignore_steps


class Replayer:
    """Replays for the topics of one process, a round at a time."""

    def __init__(self, bookkeeper: BookKeeper, store: MetadataStore) -> None:
        self._bookkeeper = bookkeeper
        self._store = store
        self._waiting: list[tuple[Claimant, asyncio.Future[None]]] = []
        self._round: asyncio.Task[None] | None = None

    async def replay(self, claimant: Claimant) -> None:
        """Finish what a crash left of this managed ledger; raises what kept that from being done."""
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
    """Finish what crashes left of the managed ledgers `owners`, and of ones that no longer exist; ledgers deleted.

    `given_up` tells of one of `owners` whether it has stopped meanwhile: then nothing more of it is touched. `on_step`
    is for the others' records. Raises what kept records or lists from being read, or a ledger from being deleted, after
    all were tried.
    """
    records = await read_records(store)
    in_hand = {name: frozenset(owner.in_hand) for name, owner in owners.items()}
    # taken after the records and before the lists: what is listed in between is seen there
    names = sorted({record.managed_ledger for record in records})
    lists = await asyncio.gather(*(_owned_or_none(store, name, ours=name in owners) for name in names))
    owned = dict(zip(names, lists, strict=True))
    deleted: list[int] = []
    errors: list[Exception] = []
    waiting = deque(records)

    async def work() -> None:
        while waiting:
            record = waiting.popleft()
            listed, name = owned[record.managed_ledger], record.managed_ledger
            owner = owners.get(name)
            if listed is None or (owner is not None and (given_up(name) or record.ledger_id in in_hand[name])):
                continue
            try:
                if record.ledger_id in listed:
                    await remove_record(store, record.path)
                elif await _finish(bookkeeper, store, record, owner, on_step):
                    deleted.append(record.ledger_id)
            except Exception as error:
                errors.append(error)

    await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(records)))))
    if errors:
        raise errors[0]
    return sorted(deleted)


async def _finish(
    bookkeeper: BookKeeper, store: MetadataStore, record: LedgerRecord, owner: Claimant | None, on_step: StepHook
) -> bool:
    """Delete a ledger that is listed nowhere and its record; whether there was one to delete."""
    on_step = on_step if owner is None else owner.on_step
    on_step("finish deletion")
    if record.path != deletion_path(record.ledger_id):
        if not await _claim(store, record, owner):
            return False
        on_step("leftover claimed")
    existed = False
    with contextlib.suppress(NoSuchLedger):
        await bookkeeper.delete_ledger(record.ledger_id)
        existed = True
    on_step("leftover deleted, still recorded")
    await remove_record(store, deletion_path(record.ledger_id))
    return existed


async def _claim(store: MetadataStore, record: LedgerRecord, owner: Claimant | None) -> bool:
    """Make a pending record one of deletion; False if the ledger was listed meanwhile, or the topic is another's."""
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
    """What `name` lists; nothing if it is gone; None where another owner has to look, or a record cannot be read."""
    try:
        if not ours:
            return None if await store.exists(managed_ledger_path(name)) else set()
        return await owned_ledgers(store, name)
    except NodeNotFound:
        return set()
    except RecordError:
        return None
