"""The topic's record in its owner's hands: lost answers are read back, and another owner fences for good (M7)."""

import time
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from mledger.errors import ManagedLedgerFenced, TopicNotFound
from mledger.ledgers import topic_record
from mledger.ledgers.topic_record import RecordChange, TopicRecord, fence_owner
from mledger.metastore.errors import NodeNotFound, StoreUnavailable
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.store import Create, Put
from mledger.metastore.url import open_store
from tests.support.aio import run

NAME = "t/n/persistent/topic"
PATH = f"/managed-ledgers/{NAME}"
CURSOR = f"{PATH}/sub"


class LossyMulti:
    """A store that loses its connection so many times around a multi, before or after the multi is carried out."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.lose_before = self.lose_after = 0
        self.first_is_carried_out = False

    async def multi(self, operations):
        if self.lose_before:
            self.lose_before -= 1
            if self.first_is_carried_out:
                self.first_is_carried_out = False
                await self._store.multi(operations)
            raise StoreUnavailable("no connection", PATH)
        result = await self._store.multi(operations)
        if self.lose_after:
            self.lose_after -= 1
            raise StoreUnavailable("the answer was lost", PATH)
        return result

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    monkeypatch.setattr(topic_record, "RETRY_DELAYS_S", (0.0, 0.0))


@asynccontextmanager
async def held_record():
    async with await open_store("memory:") as memory:
        store = LossyMulti(memory)
        await store.create(PATH, b"", parents=True)
        await store.create(CURSOR, b"a")
        await store.create("/mledger/deletions", parents=True)
        yield store, await TopicRecord.read(store, NAME)


def adding(ledger_id, *also):
    def change(info: ManagedLedgerInfo) -> RecordChange:
        return RecordChange(replace(info, ledgers=(*info.ledgers, LedgerInfo(ledger_id))), also)

    return change


async def stored(store) -> list[int]:
    return [ledger.ledger_id for ledger in (await TopicRecord.read(store, NAME)).info.ledgers]


def test_a_missing_record_means_no_topic():
    async def main():
        async with await open_store("memory:") as store:
            with pytest.raises(TopicNotFound, match=NAME):
                await TopicRecord.read(store, NAME)

    run(main())


@pytest.mark.parametrize("when", ["lose_before", "lose_after"])
def test_a_lost_answer_is_retried_and_our_own_write_recognised(when):
    async def main():
        async with held_record() as (store, record):
            setattr(store, when, 1)
            await record.update(adding(5))
            await record.update(adding(6))
            assert await stored(store) == [5, 6]
            assert record.fenced is None

    run(main())


@pytest.mark.parametrize(("carried_out", "expected"), [(False, [6]), (True, [5, 6])])
def test_the_next_write_settles_one_of_unknown_outcome(carried_out, expected):
    async def main():
        async with held_record() as (store, record):
            store.lose_before, store.first_is_carried_out = 3, carried_out
            with pytest.raises(StoreUnavailable):
                await record.update(adding(5))
            await record.update(adding(6))
            assert await stored(store) == expected

    run(main())


async def make_again(store):
    """Delete the topic and create it again with a record at version 0, as another owner does."""
    stat = await store.exists(PATH)
    while time.time_ns() // 1_000_000 <= stat.created_ms:
        pass
    await store.delete(CURSOR)
    await store.delete(PATH)
    await store.create(PATH, b"")


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_recreated_topic_s_record_does_not_settle_a_write_of_unknown_outcome(carried_out):
    async def main():
        async with held_record() as (store, record):
            store.lose_before = 3
            with pytest.raises(StoreUnavailable):
                await record.update(adding(5))
            await make_again(store)
            if carried_out:  # at the next version, with the same ledgers
                await (await TopicRecord.read(store, NAME)).update(adding(5))
            before = await store.get(PATH)
            with pytest.raises(ManagedLedgerFenced, match="created again"):
                await record.update(adding(6))
            assert await store.get(PATH) == before

    run(main())


def test_a_retried_write_checks_whether_the_topic_was_recreated():
    async def main():
        async with held_record() as (store, record):

            async def lost(operations):
                del store.multi
                await make_again(store)
                raise StoreUnavailable("no connection", PATH)

            store.multi = lost
            with pytest.raises(ManagedLedgerFenced, match="created again"):
                await record.update(adding(5))
            assert await stored(store) == []

    run(main())


def test_another_owner_s_write_fences_for_good_and_is_reported_once():
    async def main():
        async with held_record() as (store, record):
            told = []
            record.on_fenced(told.append)
            other = await TopicRecord.read(store, NAME)
            await other.update(adding(7))
            for _ in range(2):
                with pytest.raises(ManagedLedgerFenced, match=NAME):
                    await record.update(adding(5))
            with pytest.raises(ManagedLedgerFenced):
                await record.guarded(Put(CURSOR, b"b", 0))
            assert len(told) == 1
            assert await stored(store) == [7]
            assert (await store.get(CURSOR)).data == b"a"

    run(main())


def test_a_record_rewritten_unchanged_fences_an_owner_that_rewrites_it_unchanged():
    async def main():
        async with held_record() as (store, record):
            await fence_owner(store, PATH, record.version)
            with pytest.raises(ManagedLedgerFenced, match=NAME):
                await record.update(RecordChange)

    run(main())


def test_another_owner_s_write_of_the_same_bytes_to_a_cursor_fences():
    async def main():
        async with held_record() as (store, record):
            other = await TopicRecord.read(store, NAME)
            await other.update(adding(7))
            await other.guarded(Put(CURSOR, b"b", 0))
            with pytest.raises(ManagedLedgerFenced, match=NAME):
                await record.guarded(Put(CURSOR, b"b", 0))

    run(main())


def test_a_cursor_s_write_requires_the_topic_and_its_own_version():
    async def main():
        async with held_record() as (store, record):
            await record.guarded(Put(CURSOR, b"b", 0))
            await record.update(adding(5))
            await record.guarded(Put(CURSOR, b"c", 1))
            assert (await store.get(CURSOR)).data == b"c"
            other = await TopicRecord.read(store, NAME)
            await other.update(adding(7))
            with pytest.raises(ManagedLedgerFenced):
                await record.guarded(Put(CURSOR, b"d", 2))
            with pytest.raises(ManagedLedgerFenced):
                await other.guarded(Put(CURSOR, b"e", 1))

    run(main())


def test_a_cursor_s_write_meets_an_update_of_our_own():
    async def main():
        async with held_record() as (store, record):
            stale = record.version
            await record.update(adding(5))
            record.version, after = stale, record.version

            async def catch_up(operations, multi=store._store.multi):
                record.version = after  # the update's answer arrives during the cursor's write
                return await multi(operations)

            store.multi = catch_up
            await record.guarded(Put(CURSOR, b"b", 0))
            assert (await store.get(CURSOR)).data == b"b"
            assert record.fenced is None

    run(main())


def test_a_lost_answer_to_the_creation_of_a_cursor_is_recognised():
    async def main():
        async with held_record() as (store, record):
            store.lose_after = 1
            await record.guarded(Create(f"{PATH}/other", b"x"))
            assert (await store.get(f"{PATH}/other")).data == b"x"

    run(main())


def test_a_multi_with_a_failing_part_changes_nothing():
    async def main():
        async with held_record() as (store, record):
            await store.create("/mledger/deletions/9")
            with pytest.raises(ManagedLedgerFenced):
                await record.update(adding(5, Create("/mledger/deletions/9")))
            assert await stored(store) == []

    run(main())


def test_verify_notices_a_later_owner_and_a_deleted_topic():
    async def main():
        async with held_record() as (store, record):
            await record.verify()
            other = await TopicRecord.read(store, NAME)
            await other.update(adding(7))
            with pytest.raises(ManagedLedgerFenced, match="version"):
                await record.verify()
            await store.delete(CURSOR)
            await store.delete(PATH)
            with pytest.raises(ManagedLedgerFenced, match="deleted"):
                await other.verify()
            with pytest.raises(NodeNotFound):
                await store.get(PATH)

    run(main())
