"""To which ledgers, and to which copies of them, a restore of older records loses the way."""

from collections.abc import Collection

import pytest

from mledger.admin.references.restored_ledgers import Forgotten, find_forgotten, ledgers_to_keep, plan_without_records
from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.backup.restore import RestoreAction, RestorePlan, RestoreStep
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import DELETIONS, PENDING, deletion_path, kept_path, ledger_path, pending_path
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo, OffloadContext
from tests.support.aio import run

PATH = "/managed-ledgers/t/n/persistent/x"


def listed(ledger_id: int, *, complete: bool | None = None, deleted: bool = False) -> LedgerInfo:
    """A ledger in the list; `complete`: whether its offload, if one was begun, has ended."""
    message = OffloadMessage(complete=bool(complete), bookkeeperDeleted=deleted)
    context = None if complete is None else OffloadContext(message.SerializeToString())
    return LedgerInfo(ledger_id, 5, 50, 1000, offload=context)


def forgotten(
    action: RestoreAction,
    now: list[LedgerInfo],
    then: list[LedgerInfo],
    *,
    there: Collection[int] = range(1, 9),
    others: Collection[RestoreStep] = (),
) -> Forgotten:
    """What the restore of a topic's record loses the way to, where the cluster has the ledgers `there`."""
    plan = RestorePlan((RestoreStep(PATH, action, 0), *others), 0, 0, None)
    backup = [BackupNode(PATH, encode_managed_ledger_info(ManagedLedgerInfo(tuple(then))), 0)] if then else []

    async def main() -> Forgotten:
        async with MemoryStore() as store:
            if action is not RestoreAction.CREATE:
                await store.create(PATH, encode_managed_ledger_info(ManagedLedgerInfo(tuple(now))), parents=True)
            for ledger_id in there:
                await store.create(ledger_path(ledger_id), parents=True)
            return await find_forgotten(store, lambda: backup, plan)

    return run(main())


def test_the_way_to_what_was_uploaded_since_the_backup_is_lost():
    """Of 1 the bookies may have nothing any more; 2 was there before, 3 is not whole, and 4 is not listed at all."""
    now = [listed(1, complete=True), listed(2, complete=True), listed(3, complete=False), listed(4, complete=True)]
    then = [listed(1, complete=False), listed(2, complete=True), listed(3)]
    assert forgotten(RestoreAction.CHANGE, now, then) == Forgotten({PATH: (4,)}, {PATH: (1,)})


@pytest.mark.parametrize("action", [RestoreAction.CHANGE, RestoreAction.REMOVE])
def test_a_ledger_that_is_listed_no_more_is_named_once(action):
    found = forgotten(action, [listed(1, complete=True)], [])
    assert found == Forgotten({PATH: (1,)})
    assert ledgers_to_keep(found) == [(1, "t/n/persistent/x")]  # its topic may be created anew


def test_a_record_that_does_not_go_back_loses_nothing():
    same = [listed(1, complete=True)]
    assert forgotten(RestoreAction.CHANGE, same, same) == Forgotten()


@pytest.mark.parametrize("action", [RestoreAction.CHANGE, RestoreAction.CREATE])
def test_readers_will_stop_at_ledgers_that_neither_the_cluster_nor_the_backup_has(action):
    """1 was trimmed since, 2 comes back with its topic, 3 is removed, and 4 is in tiered storage only."""
    then = [listed(1), listed(2), listed(3), listed(4, complete=True, deleted=True), listed(5)]
    others = (
        RestoreStep(ledger_path(2), RestoreAction.CREATE),
        RestoreStep(ledger_path(3), RestoreAction.REMOVE, 0),
    )
    found = forgotten(action, [listed(5)], then, there=(3, 5), others=others)
    assert found == Forgotten(missing={PATH: (1, 3)})


def test_no_record_comes_back_by_which_a_ledger_that_is_kept_would_be_deleted():
    """1 was pending when the backup was made, and is listed since; 2 is kept since an earlier restore."""
    folders = (PENDING, DELETIONS)
    doomed = [RestoreStep(path, RestoreAction.CREATE) for path in (pending_path(1), deletion_path(1), pending_path(2))]
    others = [RestoreStep(path, RestoreAction.CREATE) for path in (*folders, pending_path(3), deletion_path(4))]

    async def main() -> RestorePlan:
        async with MemoryStore() as store:
            await store.create(kept_path(2), b"t/n/persistent/x", parents=True)
            return await plan_without_records(store, RestorePlan((*doomed, *others), 0, 1, None), [(1, "t/n/x")])

    assert run(main()) == RestorePlan(tuple(others), 0, 4, None)
