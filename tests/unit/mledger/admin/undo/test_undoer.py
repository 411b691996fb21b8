"""What an undo refuses to delete again, since something has named it meanwhile."""

import pytest

from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, UndoFile
from mledger.admin.undo.undoer import plan_undo_of
from mledger.errors import UndoConflict
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import deletion_path, kept_path, ledger_path
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from tests.support.aio import run

NAME = b"t/n/persistent/x"
TOPIC = f"/managed-ledgers/{NAME.decode()}"
CLOSED = encode_ledger_metadata(
    LedgerMetadata(1, 1, 1, (Segment(0, ("a:3181",)),), state=LedgerState.CLOSED, last_entry=4, length=50)
)
LISTS = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(7, 5, 50, 9), LedgerInfo(8))))
NAMES = encode_managed_cursor_info(ManagedCursorInfo(cursors_ledger_id=7))


async def undone_again(named_by: dict[str, bytes], *, also: str = ""):
    """Plan the undo of an undo that has put back the record of ledger 7, and that of `also`, after a deletion."""
    async with MemoryStore() as store:
        for path, data in {ledger_path(7): CLOSED, **named_by}.items():
            await store.create(path, data, parents=True)
        paths = [ledger_path(7), *filter(None, [also])]
        nodes = await store.get_many(paths)
        records = tuple(ChangedRecord(path, None, NodeState.of(node)) for path, node in zip(paths, nodes, strict=True))
        file = UndoFile("undo", "7", 0, store.url, records, outcome=Outcome.DONE)
        return await plan_undo_of(store, file)


@pytest.mark.parametrize(
    ("path", "data"), [(TOPIC, LISTS), (f"{TOPIC}/sub", NAMES), (kept_path(7), NAME)], ids=["topic", "cursor", "kept"]
)
def test_a_ledger_that_is_named_again_is_not_deleted_by_the_undo_of_an_undo(path, data):
    with pytest.raises(UndoConflict, match=f"{path} names ledger 7"):
        run(undone_again({path: data}))


def test_a_ledger_that_nothing_names_or_that_is_being_deleted_goes_again():
    for named_by in ({}, {deletion_path(7): NAME}):
        plan = run(undone_again(named_by))
        assert [each.path for each in plan.changes] == [ledger_path(7)]


def test_what_the_same_undo_takes_back_names_nothing():
    plan = run(undone_again({kept_path(7): NAME}, also=kept_path(7)))
    assert {each.path for each in plan.changes} == {ledger_path(7), kept_path(7)}
