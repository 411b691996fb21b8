"""Undoes an interrupted deletion while another process finishes it: every ledger that is listed again exists (R10)."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

import mledger
from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, UndoFile
from mledger.admin.undo.undoer import plan_undo_of, undo
from mledger.config import ManagedLedgerConfig
from mledger.errors import UndoConflict
from mledger.ledgers.orphans.orphan_cleanup import replay
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.url import open_store
from mledger.topics.deletion import delete_managed_ledger
from tests.support.aio import run
from tests.support.ledgers import client
from tests.support.owners.cut_off import CutOff
from tests.support.topics import (
    CONFIG,
    KEEP,
    assert_nothing_orphaned,
    everything,
    fill,
    ledgers_naming,
    managed_ledger_of,
    payloads,
)

SETTINGS = ManagedLedgerConfig()


@pytest.fixture(params=["one store", "two stores"])
def cluster_url(request, topic_url):
    """A cluster; also one whose ledgers have a metadata store of their own."""
    if request.param == "one store":
        return topic_url
    return f"{request.getfixturevalue('rocksdb_url')}?ledgers={topic_url}/ledgers"


class Held:
    """A call that waits before it is made, until `release`."""

    def __init__(self, holder, name):
        self._call = getattr(holder, name)
        self._come, self._go = asyncio.Event(), asyncio.Event()
        setattr(holder, name, self._held)

    async def _held(self, *arguments):
        self._come.set()
        await self._go.wait()
        return await self._call(*arguments)

    async def wait_for(self, task):
        """Wait until `task` is about to make the call."""
        come = asyncio.ensure_future(self._come.wait())
        await asyncio.wait([come, task], return_when=asyncio.FIRST_COMPLETED)
        assert come.done(), "it ended without making the call"

    def release(self):
        self._go.set()


async def states(store, name):
    """The records of a topic and its cursors, as in an undo file."""
    topic = managed_ledger_path(name)
    paths = [topic, *(f"{topic}/{each}" for each in await store.children(topic))]
    nodes = await store.get_many(paths)
    return {path: NodeState.of(node) for path, node in zip(paths, nodes, strict=True)}


async def changed(store, name, before):
    """The undo file of what changed the records of `before`."""
    after = [NodeState.of(node) for node in await store.get_many(list(before))]
    records = tuple(ChangedRecord(path, state, left) for (path, state), left in zip(before.items(), after, strict=True))
    lost = ("25 entries",)
    return UndoFile("test", name, 0, "zk://x", records, (name,), lost=lost, outcome=Outcome.DONE)


async def cut_off_deletion(url, topic):
    """Delete a topic of 25 entries in three ledgers up to the removal of its record. Returns the undo file."""
    async with mledger.open_cluster(url, config=KEEP) as cluster:
        await fill(await cluster.create_topic(topic), 25)
    name = managed_ledger_of(topic)

    def cut_off(step):
        if step == "topic deleted":
            raise CutOff

    async with await open_store(url) as store, client(url) as bookkeeper:
        before = await states(store, name)
        with pytest.raises(CutOff):
            await delete_managed_ledger(store, bookkeeper, name, cut_off)
        return await changed(store, name, before)


@asynccontextmanager
async def another_process(url):
    """Another session with the metadata store, and another client of the bookies."""
    async with await open_store(url) as store, client(url) as bookkeeper:
        yield store, bookkeeper


async def listed(store, name):
    path = managed_ledger_path(name)
    return [each.ledger_id for each in decode_managed_ledger_info((await store.get(path)).data, path).value.ledgers]


async def entries_of(url, topic):
    async with mledger.open_cluster(url, config=KEEP) as cluster:
        return await everything(await cluster.open_topic(topic))


def test_ledgers_that_undo_lists_before_a_replay_claims_them_stay(cluster_url, topic):
    async def main():
        file = await cut_off_deletion(cluster_url, topic)
        async with (
            another_process(cluster_url) as (store, bookkeeper),
            another_process(cluster_url) as (others_store, others_bookkeeper),
        ):
            held = Held(others_store, "put")
            replaying = asyncio.ensure_future(replay(others_bookkeeper, others_store, {}))
            await held.wait_for(replaying)
            await undo(await plan_undo_of(store, file), store, bookkeeper, SETTINGS)
            held.release()
            await replaying
        assert await entries_of(cluster_url, topic) == payloads(25)
        await assert_nothing_orphaned(cluster_url, managed_ledger_of(topic))

    run(main())


def test_undo_lists_no_ledger_that_a_replay_is_deleting_and_names_it(cluster_url, topic):
    async def main():
        name = managed_ledger_of(topic)
        file = await cut_off_deletion(cluster_url, topic)
        async with (
            another_process(cluster_url) as (store, bookkeeper),
            another_process(cluster_url) as (others_store, others_bookkeeper),
        ):
            held = Held(others_bookkeeper, "delete_ledger")
            replaying = asyncio.ensure_future(replay(others_bookkeeper, others_store, {}))
            await held.wait_for(replaying)
            there = sorted(await ledgers_naming(cluster_url, name))
            with pytest.raises(UndoConflict, match=rf"{there[0]}, {there[1]}.* are gone or being deleted"):
                await plan_undo_of(store, file)
            await undo(await plan_undo_of(store, file, accept_loss=True), store, bookkeeper, SETTINGS)
            assert await listed(store, name) == []
            held.release()
            await replaying
        assert await entries_of(cluster_url, topic) == []
        await assert_nothing_orphaned(cluster_url, name)

    run(main())


def test_after_a_claim_between_plan_and_undo_the_undo_plans_again(cluster_url, topic):
    async def main():
        name = managed_ledger_of(topic)
        file = await cut_off_deletion(cluster_url, topic)
        async with (
            another_process(cluster_url) as (store, bookkeeper),
            another_process(cluster_url) as (others_store, others_bookkeeper),
        ):
            plan = await plan_undo_of(store, file)
            held = Held(others_bookkeeper, "delete_ledger")
            replaying = asyncio.ensure_future(replay(others_bookkeeper, others_store, {}))
            await held.wait_for(replaying)
            with pytest.raises(UndoConflict, match=r"nothing was written: /mledger/deletions/.* was changed meanwhile"):
                await undo(plan, store, bookkeeper, SETTINGS)
            assert await store.exists(managed_ledger_path(name)) is None
            held.release()
            await replaying
        await assert_nothing_orphaned(cluster_url, name)

    run(main())


def test_a_claim_whose_maker_died_is_finished_by_the_next_replay(topic_url, topic):
    async def main():
        file = await cut_off_deletion(topic_url, topic)

        def die(step):
            if step == "leftover deleted, still recorded":
                raise CutOff

        async with another_process(topic_url) as (store, bookkeeper):
            with pytest.raises(CutOff):
                await replay(bookkeeper, store, {}, on_step=die)
            with pytest.raises(UndoConflict, match="are gone or being deleted"):
                await plan_undo_of(store, file)
            await replay(bookkeeper, store, {})
        await assert_nothing_orphaned(topic_url, managed_ledger_of(topic))

    run(main())


def test_the_former_owner_s_trim_leaves_alone_what_undo_lists_again(topic_url, topic):
    async def main():
        name = managed_ledger_of(topic)
        async with mledger.open_cluster(topic_url, config=replace(CONFIG, retention_time_ms=0)) as cluster:
            opened = await cluster.create_topic(topic, trim=False)
            await fill(opened, 25)
            await opened.initialized()
            async with another_process(topic_url) as (store, bookkeeper):
                before = await states(store, name)
                held = Held(opened._factory, "delete")
                trimming = asyncio.ensure_future(opened.trim())
                await held.wait_for(trimming)
                file = await changed(store, name, before)
                await undo(await plan_undo_of(store, file), store, bookkeeper, SETTINGS)
                held.release()
                await asyncio.wait([trimming])
            await opened.abandon()
        assert await entries_of(topic_url, topic) == payloads(25)

    run(main())


def test_a_ledger_deleted_while_it_is_listed_again_is_reported(topic_url, topic):
    async def main():
        file = await cut_off_deletion(topic_url, topic)
        async with another_process(topic_url) as (store, bookkeeper):
            plan = await plan_undo_of(store, file)
            first = min(plan.restorations[0].names_again)
            held = Held(store, "sync")
            undoing = asyncio.ensure_future(undo(plan, store, bookkeeper, SETTINGS))
            await held.wait_for(undoing)
            await bookkeeper.delete_ledger(first)  # like a process that asks nobody
            held.release()
            with pytest.raises(UndoConflict, match=f"deleted meanwhile: {first}; `mledger topics repair`"):
                await undoing

    run(main())


async def redo_of(store, name, file):
    """The undo file of an undo of `file`, which has restored all of its records."""
    now = await states(store, name)
    records = tuple(ChangedRecord(each.path, each.after, now[each.path]) for each in file.records)
    return UndoFile("undo", name, 0, "zk://x", records, (name,), lost=file.lost, outcome=Outcome.DONE)


def test_an_undo_of_the_undo_of_a_deletion_deletes_the_ledgers_that_were_listed_again(cluster_url, topic):
    async def main():
        file = await cut_off_deletion(cluster_url, topic)
        name = managed_ledger_of(topic)
        async with another_process(cluster_url) as (store, bookkeeper):
            await undo(await plan_undo_of(store, file), store, bookkeeper, SETTINGS)
            assert len(await listed(store, name)) == 3
            await undo(await plan_undo_of(store, await redo_of(store, name, file)), store, bookkeeper, SETTINGS)
        await assert_nothing_orphaned(cluster_url, name)

    run(main())


def test_one_that_is_interrupted_leaves_records_of_them_that_any_owner_finishes(cluster_url, topic):
    async def main():
        file = await cut_off_deletion(cluster_url, topic)
        name = managed_ledger_of(topic)

        def cut_off(step):
            if step == "undone":
                raise CutOff

        async with another_process(cluster_url) as (store, bookkeeper):
            await undo(await plan_undo_of(store, file), store, bookkeeper, SETTINGS)
            plan = await plan_undo_of(store, await redo_of(store, name, file))
            with pytest.raises(CutOff):
                await undo(plan, store, bookkeeper, SETTINGS, cut_off)
            assert len(await ledgers_naming(cluster_url, name)) == 3
            await replay(bookkeeper, store, {})
        await assert_nothing_orphaned(cluster_url, name)

    run(main())
