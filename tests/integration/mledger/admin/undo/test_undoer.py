"""Undoes what no single request can hold, on a real ZooKeeper: in pieces, continued after an interruption (M11)."""

import itertools

import pytest
from msgspec.structs import replace

from mledger.admin.undo.topic_identities import read_identities
from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, UndoFile
from mledger.admin.undo.undoer import plan_undo_of, undo
from mledger.config import ManagedLedgerConfig
from mledger.errors import UndoConflict
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.codec import (
    decode_managed_ledger_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.store import Create, Delete, Put
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.ledgers import client
from tests.support.owners.cut_off import CutOff
from tests.support.topics import managed_ledger_of

MANY = 8_000  # with their data more than fits one request
AT_ONCE = 1_000
LATER_MS = 4_000_000_000_000
_firsts = itertools.count(800_000_000, 100_000)


def cut_off_at(number):
    """Raises before the piece with this number, counted from 1, is sent."""
    pieces = itertools.count(1)

    def on_step(step):
        if step == "undo" and next(pieces) == number:
            raise CutOff

    return on_step


async def write(store, operations):
    for start in range(0, len(operations), AT_ONCE):
        await store.multi(operations[start : start + AT_ONCE])


async def deleted_topic(store, topic):
    """The undo file of the deletion of a topic with many cursors; the id of the one of its two ledgers that exists."""
    name = managed_ledger_of(topic)
    first = next(_firsts)
    await LedgerStore(store).create(first + 1, LedgerMetadata(1, 1, 1, (Segment(0, ("bookie:1",)),)))
    path = f"/managed-ledgers/{name}"
    info = ManagedLedgerInfo((LedgerInfo(first, 10, 100, 5), LedgerInfo(first + 1, 10, 100, 5)))
    cursor = encode_managed_cursor_info(
        ManagedCursorInfo(mark_delete=Position(first + 1, 2), cursor_properties=(("owner", "x" * 60),))
    )
    records = [ChangedRecord(path, NodeState(encode_managed_ledger_info(info), 3))]
    records += [ChangedRecord(f"{path}/sub-{at:05}", NodeState(cursor, 1)) for at in range(MANY)]
    file = UndoFile("topics delete", topic, 0, "zk://x", tuple(records), (name,), outcome=Outcome.DONE)
    return file, path, cursor, first + 1


def test_a_deleted_topic_of_many_cursors_is_restored_even_after_an_interruption(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            file, path, cursor, there = await deleted_topic(store, topic)
            plan = await plan_undo_of(store, file)
            with pytest.raises(CutOff):
                await undo(plan, store, bookkeeper, ManagedLedgerConfig(), cut_off_at(10))
            begun = decode_managed_ledger_info((await store.get(path)).data, path).value
            assert begun.ledgers == ()
            assert 0 < len(await store.children(path)) < MANY
            plan = await plan_undo_of(store, file)
            await undo(plan, store, bookkeeper, ManagedLedgerConfig())
            restored = decode_managed_ledger_info((await store.get(path)).data, path).value
            assert [each.ledger_id for each in restored.ledgers] == [there]
            nodes = await store.get_many([f"{path}/{child}" for child in await store.children(path)])
            assert [node.data for node in nodes] == [cursor] * MANY

    run(main())


def test_an_owner_in_between_ends_it_and_is_reported(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            file, path, *_ = await deleted_topic(store, topic)
            plan = await plan_undo_of(store, file)
            with pytest.raises(CutOff):
                await undo(plan, store, bookkeeper, ManagedLedgerConfig(), cut_off_at(3))
            plan = await plan_undo_of(store, file)
            node = await store.get(path)
            await store.put(path, node.data, node.version)  # like an owner that opens it
            with pytest.raises(UndoConflict, match=f"nothing was written: {path} was changed"):
                await undo(plan, store, bookkeeper, ManagedLedgerConfig())

    run(main())


def test_many_moved_cursors_are_restored(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            name = managed_ledger_of(topic)
            path = f"/managed-ledgers/{name}"
            await store.create(path, encode_managed_ledger_info(ManagedLedgerInfo()), parents=True)
            old, new = (
                encode_managed_cursor_info(
                    ManagedCursorInfo(mark_delete=Position(1, at), cursor_properties=(("owner", "x" * 60),))
                )
                for at in (2, 5)
            )
            paths = [f"{path}/sub-{at:05}" for at in range(MANY)]
            await write(store, [Create(each, old) for each in paths])
            await write(store, [Put(each, new, 0) for each in paths])
            records = tuple(ChangedRecord(each, NodeState(old, 0), NodeState(new, 1)) for each in paths)
            topics = await read_identities(store, (name,), paths)
            file = UndoFile("test", topic, 0, "zk://x", records, (name,), outcome=Outcome.DONE, topics=topics)
            plan = await plan_undo_of(store, file)
            with pytest.raises(CutOff):
                await undo(plan, store, bookkeeper, ManagedLedgerConfig(), cut_off_at(5))
            await undo(await plan_undo_of(store, file), store, bookkeeper, ManagedLedgerConfig())
            nodes = await store.get_many(paths)
            assert {(node.data, node.version) for node in nodes} == {(old, 2)}
            await write(store, [Delete(each, 2) for each in paths])

    run(main())


async def with_deleted_cursor(store, topic):
    """A topic of one ledger at version 1, and the undo file of the deletion of its cursor, made long after that."""
    name = managed_ledger_of(topic)
    path, cursor = f"/managed-ledgers/{name}", encode_managed_cursor_info(ManagedCursorInfo(mark_delete=Position(1, 2)))
    data = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(next(_firsts), 10, 100, 5),)))
    await store.create(path, data, parents=True)
    await store.put(path, data, 0)
    deleted = (ChangedRecord(f"{path}/one", NodeState(cursor, 1)),)
    topics = await read_identities(store, (name,), [f"{path}/one"])
    file = UndoFile("cursors delete", topic, LATER_MS, "zk://x", deleted, (name,), outcome=Outcome.DONE, topics=topics)
    return file, path


async def create_anew(store, path, first):
    """Create the topic's record once more, at the same version as before; `first` is its only ledger."""
    created_ms = (await store.get(path)).stat.created_ms
    while True:
        await store.delete(path)
        await store.create(path)
        if (await store.get(path)).stat.created_ms != created_ms:
            break
    data = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(first, 10, 100, 5),)))
    await store.put(path, data, 0)
    return data


def test_a_topic_that_was_created_anew_gets_no_cursor_of_the_one_before(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store:
            file, path = await with_deleted_cursor(store, topic)
            await create_anew(store, path, next(_firsts))
            with pytest.raises(UndoConflict, match="a topic that was deleted since"):
                await plan_undo_of(store, file)

    run(main())


def test_a_topic_that_a_restore_of_the_metadata_created_anew_gets_its_cursors_back(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            file, path = await with_deleted_cursor(store, topic)
            (ledger,) = file.topics[0].ledgers
            await create_anew(store, path, ledger)
            await undo(await plan_undo_of(store, file), store, bookkeeper, ManagedLedgerConfig())
            assert await store.children(path) == ["one"]

    run(main())


def test_a_file_of_a_clock_that_is_far_behind_restores_the_cursors_of_its_topic(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            file, path = await with_deleted_cursor(store, topic)
            file = replace(file, made_at_ms=0)
            await undo(await plan_undo_of(store, file), store, bookkeeper, ManagedLedgerConfig())
            assert await store.children(path) == ["one"]

    run(main())


def test_a_topic_that_is_created_anew_once_an_undo_is_planned_keeps_its_list(topic_url, topic):
    """The undo writes the record unchanged, and its version is the same."""

    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            file, path = await with_deleted_cursor(store, topic)
            plan = await plan_undo_of(store, file)
            data = await create_anew(store, path, next(_firsts))
            with pytest.raises(UndoConflict, match="was changed meanwhile"):
                await undo(plan, store, bookkeeper, ManagedLedgerConfig())
            assert (await store.get(path)).data == data
            assert await store.children(path) == []

    run(main())
