"""Calls cancelled during a write that is carried out all the same (M7)."""

import asyncio

import pytest

import mledger
from mledger.admin.undo.restorations import CursorLedger, Restoration, UndoAction, UndoPlan
from mledger.admin.undo.undoer import undo
from mledger.bookie.client import BookKeeper
from mledger.metastore.records.codec import decode_managed_cursor_info, encode_position_info
from mledger.metastore.records.paths import cursor_path, managed_ledger_path, owner_path
from mledger.metastore.records.values import BatchDeletion, ManagedCursorInfo, PositionInfo
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.metadata.held_answers import held_answers
from tests.support.topics import CONFIG, KEEP, assert_nothing_orphaned, everything, fill, payloads


@pytest.fixture
def held(topic_url):
    """A link to the cluster's ZooKeeper that can hold answers back."""
    with held_answers(topic_url) as held:
        yield held


def test_a_cursor_whose_close_was_cancelled_keeps_the_ledger_that_its_record_names(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=held.on_step)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            path = cursor.path

            async def close():
                cursor.acknowledge_batch(positions[4], (0b10,))  # a state that no znode holds
                await cursor.close()

            await held.carried_out_unheard(close(), path, "write cursor record")
            async with held.direct() as store:
                named = decode_managed_cursor_info((await store.get(path)).data).value.cursors_ledger_id
            assert named >= 0
            again = await opened.open_cursor("sub")
            assert again.batch_deleted(positions[4]) == (0b10,)
            await again.acknowledge(positions[:2])
            assert again.mark_delete == positions[1]
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_a_cancelled_update_of_the_topic_does_not_fence_its_cursors(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=held.on_step)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            await held.carried_out_unheard(
                opened.set_properties({"a": "b"}), managed_ledger_path(opened.name), "set properties"
            )
            await cursor.acknowledge(positions[:2])
            assert opened.state is mledger.TopicState.OPEN
            assert opened.properties == {"a": "b"}
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_a_cancelled_trim_is_finished_by_the_next(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic, on_step=held.on_step)
            cursor = await opened.open_cursor("sub", initial="earliest")
            await opened.initialized()
            positions = await fill(opened, 35)

            async def consume_and_trim():
                async with opened.trim_lock:
                    trimmed = asyncio.ensure_future(opened.trim())
                    await asyncio.sleep(0)  # it is queued before the trim that consumption starts
                    await cursor.acknowledge(positions[:25])
                await trimmed

            await held.carried_out_unheard(consume_and_trim(), managed_ledger_path(opened.name), "drop ledgers")
            await opened.trim()
            assert opened.state is mledger.TopicState.OPEN
            assert [ledger.ledger_id for ledger in opened.ledgers] == sorted({at.ledger_id for at in positions[20:]})
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_a_cursor_is_reset_to_no_ledger_that_a_cancelled_trim_has_dropped(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic, trim=False, on_step=held.on_step)
            positions = await fill(opened, 35)
            cursor = await opened.open_cursor("sub", initial=positions[24])
            await opened.initialized()
            await held.carried_out_unheard(opened.trim(), managed_ledger_path(opened.name), "drop ledgers")
            await cursor.reset(positions[12])
            assert (cursor.read_position, cursor.backlog) == (positions[20], 15)
            await opened.trim()
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_a_topic_whose_termination_was_cancelled_accepts_no_entries_once_it_is_terminated(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=held.on_step)
            positions = await fill(opened, 9)
            await held.carried_out_unheard(opened.terminate(), managed_ledger_path(opened.name), "terminate")
            with pytest.raises(mledger.TopicTerminated):
                await opened.append([b"late"])
            assert await opened.terminate() == positions[-1]
            assert opened.state is mledger.TopicState.TERMINATED
            assert await everything(opened) == payloads(9)
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_a_cursor_whose_deletion_was_cancelled_can_be_deleted_again(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=held.on_step)
            positions = await fill(opened, 9)
            cursor, other = await opened.open_cursor("sub"), await opened.open_cursor("other")
            await cursor.acknowledge(positions[3:5])
            path = cursor_path(opened.name, "sub")
            await held.carried_out_unheard(opened.delete_cursor("sub"), path, "delete cursor")
            await opened.delete_cursor("sub")
            assert opened.cursors == ["other"]
            await other.acknowledge(positions[:1])
            again = await opened.open_cursor("sub")
            assert again.backlog == 9
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_an_interrupted_undo_keeps_the_cursor_ledger_that_a_record_names_again(held, topic):
    async def main():
        async with mledger.open_cluster(held.direct_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            await opened.open_cursor("sub")
            name, path = opened.name, cursor_path(opened.name, "sub")
        left = BatchDeletion(positions[4], (0b10,))
        state = encode_position_info(PositionInfo(positions[1], batch_deletions=(left,)))
        async with await open_store(held.url) as store:
            version = (await store.get(path)).version
            named = CursorLedger(ManagedCursorInfo(mark_delete=positions[1]), state)
            change = Restoration(path, UndoAction.SET, version=version, cursor_ledger=named, managed_ledger=name)
            bookkeeper = BookKeeper(store)
            undoing = undo(UndoPlan((change,), ()), store, bookkeeper, KEEP, held.on_step)
            await held.carried_out_unheard(undoing, path, "undo")
            await bookkeeper.close()
        async with mledger.open_cluster(held.direct_url, config=KEEP) as cluster:
            cursor = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert (cursor.mark_delete, cursor.batch_deleted(positions[4])) == (positions[1], (0b10,))
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_a_session_lost_while_a_cursor_ledger_is_named_deletes_nothing_in_the_ledgers_own_store(held, topic):
    async def main():
        async with mledger.open_cluster(f"{held.url}?ledgers={held.direct_url}/ledgers", config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=held.on_step)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            async with held.direct() as store, store.watch(cursor.path) as changes:
                held.hold("write cursor record")
                acknowledged = cursor.acknowledge_batch(positions[4], (0b10,))
                await anext(changes)  # carried out, but nobody learned of it
            await held.lose_session(owner_path(opened.name))
            await acknowledged  # discovered in the next session
            assert opened.state is mledger.TopicState.OPEN
            assert cursor.batch_deleted(positions[4]) == (0b10,)
            await opened.abandon()
        async with mledger.open_cluster(held.direct_url, config=KEEP) as cluster:
            again = await cluster.open_topic(topic)
            assert (await again.open_cursor("sub")).batch_deleted(positions[4]) == (0b10,)

    run(main())


def test_a_fenced_owner_leaves_the_cursor_ledger_of_its_unanswered_write_to_the_next(held, topic):
    """The next owner continued from that ledger and then changed the cursor's record."""

    async def main():
        async with (
            mledger.open_cluster(held.url, config=KEEP, session_timeout=5) as first,
            mledger.open_cluster(held.direct_url, config=KEEP) as second,
        ):
            opened = await first.create_topic(topic, on_step=held.on_step)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            async with held.direct() as store, store.watch(cursor.path) as changes:
                held.hold("write cursor record")
                acknowledged = asyncio.ensure_future(cursor.acknowledge(positions[1:8:2]))
                await anext(changes)
            again = await second.open_topic(topic, take_over=True)
            await (await again.open_cursor("sub")).set_cursor_properties({"a": "b"})
            await again.abandon()
            held.cut()
            held.release()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await acknowledged
            again = await second.open_topic(topic, take_over=True)
            assert (await again.open_cursor("sub")).backlog == 5
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())
