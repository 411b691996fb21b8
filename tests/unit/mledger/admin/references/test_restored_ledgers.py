"""To which ledgers, and to which copies of them, a restore of older records loses the way."""

import pytest

from mledger.admin.references.restored_ledgers import Forgotten, find_forgotten
from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.backup.restore import RestoreAction, RestorePlan, RestoreStep
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo, OffloadContext
from tests.support.aio import run

PATH = "/managed-ledgers/t/n/persistent/x"


def listed(ledger_id: int, *, complete: bool | None = None) -> LedgerInfo:
    """A ledger in the list; `complete`: whether its offload, if one was begun, has ended."""
    context = None if complete is None else OffloadContext(OffloadMessage(complete=complete).SerializeToString())
    return LedgerInfo(ledger_id, 5, 50, 1000, offload=context)


def forgotten(action: RestoreAction, now: list[LedgerInfo], then: list[LedgerInfo]) -> Forgotten:
    """What the restore of a topic's record loses the way to."""
    plan = RestorePlan((RestoreStep(PATH, action, 0),), 0, 0, None)
    backup = [BackupNode(PATH, encode_managed_ledger_info(ManagedLedgerInfo(tuple(then))), 0)] if then else []

    async def main() -> Forgotten:
        async with MemoryStore() as store:
            await store.create(PATH, encode_managed_ledger_info(ManagedLedgerInfo(tuple(now))), parents=True)
            return await find_forgotten(store, lambda: backup, plan)

    return run(main())


def test_the_way_to_what_was_uploaded_since_the_backup_is_lost():
    """Of 1 the bookies may have nothing any more; 2 was there before, 3 is not whole, and 4 is not listed at all."""
    now = [listed(1, complete=True), listed(2, complete=True), listed(3, complete=False), listed(4, complete=True)]
    then = [listed(1, complete=False), listed(2, complete=True), listed(3)]
    assert forgotten(RestoreAction.CHANGE, now, then) == Forgotten({PATH: (4,)}, {PATH: (1,)})


@pytest.mark.parametrize("action", [RestoreAction.CHANGE, RestoreAction.REMOVE])
def test_a_ledger_that_is_listed_no_more_is_named_once(action):
    assert forgotten(action, [listed(1, complete=True)], []) == Forgotten({PATH: (1,)})


def test_a_record_that_does_not_go_back_loses_nothing():
    same = [listed(1, complete=True)]
    assert forgotten(RestoreAction.CHANGE, same, same) == Forgotten()
