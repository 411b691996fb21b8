"""Cursors deleted while others open or delete them, and during reads (C7, C10, Q11)."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.broker.topics.delayed.bucket_format import bucket_name
from mledger.cursors import container
from mledger.metastore.errors import RecordError, StoreUnavailable
from mledger.metastore.records.paths import deletion_path, owner_path
from mledger.metastore.store import Delete, Put
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.compacted_topics import exists, make_ledger
from tests.support.metadata.held_answers import held_answers
from tests.support.topics import CONFIG, KEEP, assert_nothing_orphaned, fill, hold_write, managed_ledger_of


def test_a_cursor_opened_while_it_is_deleted_is_created_again(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:3])
            _, again = await asyncio.gather(opened.delete_cursor("sub"), opened.open_cursor("sub"))
            assert opened.state is mledger.TopicState.OPEN
            assert again is opened.open_cursors["sub"]
            assert again.backlog == 9
            await again.acknowledge(positions[:1])
            assert again.durable_mark_delete == positions[0]
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_of_two_concurrent_deletions_one_finds_no_cursor(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            first, second = await asyncio.gather(
                opened.delete_cursor("sub"), opened.delete_cursor("sub"), return_exceptions=True
            )
            assert first is None
            assert isinstance(second, mledger.CursorNotFound)
            assert opened.state is mledger.TopicState.OPEN

    run(main())


def test_a_deletion_that_was_not_answered_is_settled_though_nobody_asks(topic_url, topic):
    async def main():
        config = replace(CONFIG, metadata_operations_timeout_s=1)
        with held_answers(topic_url) as held:
            async with mledger.open_cluster(held.url, config=config, session_timeout=60) as cluster:
                opened = await cluster.create_topic(topic, on_step=held.on_step)
                kept, consumer = await opened.open_cursor("kept"), await opened.open_cursor("consumer")
                positions = await fill(opened, 35)
                await consumer.clear_backlog()
                await kept.acknowledge(positions[:1])
                async with held.direct() as store, store.watch(kept.path) as changes:
                    held.hold("delete cursor")
                    deleting = asyncio.ensure_future(opened.delete_cursor("kept"))
                    await anext(changes)  # carried out
                    with pytest.raises(StoreUnavailable):
                        await deleting
                held.release()
                while "kept" in opened.cursors or opened.ledgers[0].ledger_id != positions[-1].ledger_id:
                    await asyncio.sleep(0.05)
                name = opened.name
            await assert_nothing_orphaned(held.direct_url, name)

    run(main())


@pytest.mark.parametrize("then", ["delete_cursor", "open_cursor"])
def test_after_a_cancelled_deletion_a_cursor_is_used_once_its_last_write_has_ended(topic_url, topic, monkeypatch, then):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            begun, release = hold_write(monkeypatch, cluster.metadata, Put, cursor.path)
            acknowledged = cursor.acknowledge(positions[:1])
            await begun.wait()
            deleting = asyncio.ensure_future(opened.delete_cursor("sub"))
            await asyncio.sleep(0)
            deleting.cancel()
            await asyncio.wait([deleting])
            ended = asyncio.ensure_future(cursor.closed())
            await asyncio.sleep(0)
            assert not ended.done()
            again = asyncio.ensure_future(getattr(opened, then)("sub"))
            release.set()
            await asyncio.gather(acknowledged, ended, again)
            if then == "open_cursor":
                await opened.open_cursors["sub"].acknowledge(positions[1:2])
            assert opened.state is mledger.TopicState.OPEN
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_a_deletion_that_ends_while_its_topic_does_keeps_no_owner_node(topic_url, topic, monkeypatch, end):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            first, other = await opened.open_cursor("first"), await opened.open_cursor("other")
            begun, release = hold_write(monkeypatch, cluster.metadata, Delete, other.path)
            abandon = first.abandon

            async def abandon_late():
                release.set()
                await deleting
                await abandon()

            monkeypatch.setattr(first, "abandon", abandon_late)
            deleting = asyncio.ensure_future(opened.delete_cursor("other"))
            await begun.wait()
            await getattr(opened, end)()
            assert await cluster.metadata.exists(owner_path(opened.name)) is None
            assert opened.cursors == ["first"]

    run(main())


def test_a_topic_is_truncated_though_a_cursor_is_deleted_meanwhile(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            clear = cursor.clear_backlog

            async def clear_late(through):
                await opened.delete_cursor("sub")
                await clear(through)

            monkeypatch.setattr(cursor, "clear_backlog", clear_late)
            assert len((await opened.truncate()).deletions) == 2
            assert opened.cursors == []

    run(main())


def test_a_parked_read_ends_if_the_deletion_of_its_cursor_fails(topic_url, topic, monkeypatch):
    async def main():
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            cursor, multi = await opened.open_cursor("sub"), cluster.metadata.multi

            async def unsent(operations):
                if any(isinstance(operation, Delete) and operation.path == cursor.path for operation in operations):
                    raise StoreUnavailable("no server could be reached", cursor.path)
                return await multi(operations)

            parked = asyncio.ensure_future(cursor.read_or_wait(1))
            await asyncio.wait([parked], timeout=0.1)  # past its second check
            monkeypatch.setattr(cluster.metadata, "multi", unsent)
            with pytest.raises(StoreUnavailable):
                await opened.delete_cursor("sub")
            monkeypatch.setattr(cluster.metadata, "multi", multi)
            with pytest.raises(mledger.ManagedLedgerClosed):
                await parked

    run(main())


def test_a_deletion_after_one_that_failed_takes_the_ledgers_that_its_list_lacks(topic_url, topic, monkeypatch):
    async def main():
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            cursor, multi = await opened.open_cursor("sub"), cluster.metadata.multi
            ledger_id = await cursor.attach_ledger(bucket_name(1, 2), {}, [b"index"])

            async def unsent(operations):
                if any(isinstance(operation, Delete) and operation.path == cursor.path for operation in operations):
                    raise StoreUnavailable("no server could be reached", cursor.path)
                return await multi(operations)

            monkeypatch.setattr(cluster.metadata, "multi", unsent)
            with pytest.raises(StoreUnavailable):
                await opened.delete_cursor("sub")
            monkeypatch.setattr(cluster.metadata, "multi", multi)
            await opened.delete_cursor("sub", attached=[])
            await opened.close()
        assert not await exists(topic_url, ledger_id)

    run(main())


def test_a_cursor_recovered_after_its_topic_was_fenced_is_not_returned(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 3)
            await (await opened.open_cursor("sub")).acknowledge_batch(positions[1], (0b10,))
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            find, reached, go_on = mledger.cursors.container.find_state, asyncio.Event(), asyncio.Event()

            async def held_up(*asked):
                if not reached.is_set():  # the other owner's is not
                    reached.set()
                    await go_on.wait()
                return await find(*asked)

            monkeypatch.setattr("mledger.cursors.container.find_state", held_up)
            opened = await cluster.open_topic(topic)
            opening = asyncio.ensure_future(opened.open_cursor("sub"))
            await reached.wait()
            async with mledger.open_cluster(topic_url, config=KEEP) as other:
                await other.open_topic(topic, take_over=True)
            with pytest.raises(mledger.ManagedLedgerFenced):
                await fill(opened, 1)
            go_on.set()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await opening

    run(main())


def test_a_ledger_that_is_being_deleted_already_does_not_stop_the_owner(topic_url, topic):
    async def main():
        ledger_id = await make_ledger(topic_url, component="compacted-ledger", pulsar_compactedTopic=topic)
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("__compaction")
            await cluster.metadata.create(deletion_path(ledger_id), opened.name.encode())  # by its owner
            await opened.delete_cursor("__compaction", attached=[ledger_id])
            await opened.add(b"entry")
            await opened.close()
            assert not await exists(topic_url, ledger_id)
        await assert_nothing_orphaned(topic_url, managed_ledger_of(topic))

    run(main())


def test_a_cursor_whose_unreadable_record_an_operator_deleted_can_be_created_again(topic_url, topic, monkeypatch):
    """Though a deletion of it here, which refuses what it cannot read (M12), came just before."""
    monkeypatch.setattr(container, "RETRY_DELAYS_S", (0.1,))

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as store:
            opened = await cluster.create_topic(topic)
            path = (await opened.open_cursor("sub")).path
            await opened.close()
            await store.put(path, b"\xff\xff", (await store.get(path)).version)
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            with pytest.raises(RecordError):
                await opened.delete_cursor("sub")
            await store.delete(path)
            while "sub" in opened.cursors:
                await asyncio.sleep(0.05)
            assert (await opened.open_cursor("sub")).backlog == 0

    run(main())


def test_a_deletion_that_waits_for_a_recovery_learns_that_an_operator_was_first(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            path, get = (await opened.open_cursor("sub")).path, cluster.metadata.get
            await opened.close()
            await cluster.metadata.put(path, b"\xff\xff", (await get(path)).version)
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def held(wanted):
                begun.set()
                await go_on.wait()
                return await get(wanted)

            monkeypatch.setattr(cluster.metadata, "get", held)
            opening = asyncio.ensure_future(opened.open_cursor("sub"))
            await begun.wait()
            deleting = asyncio.ensure_future(opened.delete_cursor("sub"))
            await asyncio.sleep(0)  # it waits for the recovery
            await cluster.metadata.delete(path)
            go_on.set()
            for waiting in (opening, deleting):
                with pytest.raises(mledger.CursorNotFound):
                    await waiting
            assert (await opened.open_cursor("sub")).backlog == 0

    run(main())
