"""Deleting a topic leaves nothing of it and no orphan (M8); `test_long_ledger_lists` deletes in pieces (M11)."""

import pytest

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import NoSuchLedger
from mledger.ledgers.orphans.pending_records import kept_record, read_kept
from mledger.metastore.errors import NodeNotFound, RecordError
from mledger.metastore.records.codec import encode_managed_cursor_info
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import cursor_path, ledger_path, managed_ledger_path
from mledger.metastore.records.values import ManagedCursorInfo
from mledger.metastore.store import Delete
from mledger.metastore.url import open_store
from mledger.topics import deletion
from tests.support.aio import run
from tests.support.compacted_topics import exists, make_ledger
from tests.support.topics import (
    KEEP,
    assert_nothing_orphaned,
    everything,
    fill,
    ledgers_naming,
    payloads,
)


@pytest.mark.parametrize("state", ["open here", "open elsewhere", "closed", "terminated"])
def test_a_deleted_topic_leaves_nothing(topic_url, topic, state):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
        ):
            opened = await (elsewhere if state == "open elsewhere" else cluster).create_topic(topic)
            positions = await fill(opened, 25)
            for name in ("one", "two"):
                cursor = await opened.open_cursor(name)
                await cursor.acknowledge(positions[3:5])
            if state == "terminated":
                await opened.terminate()
            if state == "closed":
                await opened.close()
            await cluster.delete_topic(topic, take_over=True)
            with pytest.raises(NodeNotFound):
                await cluster.metadata.get(managed_ledger_path(opened.name))
            assert await ledgers_naming(topic_url, opened.name) == set()
            await assert_nothing_orphaned(topic_url, opened.name)
            with pytest.raises(mledger.TopicNotFound):
                await cluster.open_topic(topic)
            assert topic not in await cluster.topics("tests/ns")
            if state == "open elsewhere":
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await opened.append(payloads(100))
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await cursor.acknowledge([positions[7]])

    run(main())


def test_a_live_owner_acknowledges_nothing_more_once_its_topic_is_deleted(topic_url, topic):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
        ):
            opened = await elsewhere.create_topic(topic)
            await opened.add(b"before")
            await cluster.delete_topic(topic, take_over=True)
            with pytest.raises(mledger.ManagedLedgerFenced):
                await opened.add(b"after")
            await assert_nothing_orphaned(topic_url, opened.name)

    run(main())


@pytest.mark.parametrize("anew", [False, True], ids=["taken over", "deleted and created anew"])
def test_an_owner_deletes_nothing_that_another_one_has_had_since(topic_url, topic, anew):
    """The other one has closed it: nothing but the topic's record tells of it."""

    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
        ):
            await cluster.create_topic(topic)
            if anew:
                await elsewhere.delete_topic(topic, take_over=True)
            newer = await (elsewhere.create_topic(topic) if anew else elsewhere.open_topic(topic, take_over=True))
            position = await newer.add(b"0")
            await newer.close()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await cluster.delete_topic(topic)
            opened = await elsewhere.open_topic(topic)
            assert (await opened.read_entry(position)).payload == b"0"
            await opened.close()
            await cluster.delete_topic(topic)  # it does not count as its own any more

    run(main())


@pytest.mark.parametrize("named", ["a data ledger", "another cursor's ledger"])
def test_a_topic_of_which_a_damaged_cursor_names_a_ledger_again_is_deleted(topic_url, topic, named):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 25)
            await cursor.acknowledge([positions[3]])
            ledger_id = cursor.cursor_ledger if named == "another cursor's ledger" else positions[12].ledger_id
            await opened.abandon()
            damaged = encode_managed_cursor_info(ManagedCursorInfo(ledger_id, positions[1]))
            await cluster.store.create(cursor_path(opened.name, "damaged"), damaged)
            await cluster.delete_topic(topic)
            await assert_nothing_orphaned(topic_url, opened.name)

    run(main())


def test_an_interrupted_deletion_leaves_cursor_ledgers_that_are_kept(topic_url, topic):
    def stop(step):
        if step == "delete topic":
            raise StopHere

    class StopHere(Exception):
        pass

    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            await open_store(topic_url) as store,
        ):
            opened = await cluster.create_topic(topic)
            await fill(opened, 5)
            await opened.close()
            bookkeeper = BookKeeper(store)
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append([b"a state of another version"])
            await writer.close()
            kept = kept_record(writer.ledger_id, opened.name)
            await store.create(kept.path, kept.data)
            with pytest.raises(StopHere):
                await cluster.delete_topic(topic, on_step=stop)
            await (await cluster.open_topic(topic)).initialized()
            assert [each for each in await read_kept(store) if each.managed_ledger == opened.name] != []
            assert (await bookkeeper.metadata(writer.ledger_id)).last_entry == 0
            await cluster.delete_topic(topic)
            assert [each for each in await read_kept(store) if each.managed_ledger == opened.name] == []
            with pytest.raises(NoSuchLedger):
                await bookkeeper.metadata(writer.ledger_id)
            await bookkeeper.close()

    run(main())


def test_a_cursor_that_a_live_owner_creates_meanwhile_is_a_conflict_with_that_owner(topic_url, topic, monkeypatch):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
        ):
            opened = await elsewhere.create_topic(topic)
            await fill(opened, 5)
            multi = cluster.metadata.multi

            async def multi_after_creation(operations):
                if any(
                    isinstance(each, Delete) and each.path == managed_ledger_path(opened.name) for each in operations
                ):
                    await opened.open_cursor("new")
                return await multi(operations)

            with monkeypatch.context() as patched:
                patched.setattr(cluster.metadata, "multi", multi_after_creation)
                with pytest.raises(mledger.ManagedLedgerFenced, match="was changed by an owner while"):
                    await cluster.delete_topic(topic, take_over=True)
            await opened.abandon()
            await cluster.delete_topic(topic, take_over=True)
            await assert_nothing_orphaned(topic_url, opened.name)

    run(main())


def test_a_topic_that_was_created_again_during_its_deletion_stays(topic_url, topic, monkeypatch):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
        ):
            await (await cluster.create_topic(topic)).close()
            look = deletion.giving_up_kept

            async def create_again(store, name):
                monkeypatch.setattr(deletion, "giving_up_kept", look)
                await elsewhere.delete_topic(topic)
                await fill(await elsewhere.create_topic(topic), 9)  # its record has the version of the one before
                return await look(store, name)

            monkeypatch.setattr(deletion, "giving_up_kept", create_again)
            with pytest.raises(mledger.ManagedLedgerFenced, match="created again"):
                await cluster.delete_topic(topic)
            assert await everything(await elsewhere.open_topic(topic)) == payloads(9)

    run(main())


def test_what_a_live_owner_compacts_to_meanwhile_is_not_left(topic_url, topic, monkeypatch):
    """The entry of a cursor ledger names it, and no record that the deletion checks is changed by that."""

    async def main():
        custom = {"component": "compacted-ledger", "pulsar_compactedTopic": topic}
        former, newer = [await make_ledger(topic_url, **custom) for _ in range(2)]
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
        ):
            opened = await elsewhere.create_topic(topic)
            positions = await fill(opened, 2)
            compaction = await opened.open_cursor("__compaction")
            await compaction.acknowledge_cumulative(positions[0], {"CompactedTopicLedger": former})
            look = deletion.giving_up_kept

            async def compact(store, name):
                await compaction.acknowledge_cumulative(positions[1], {"CompactedTopicLedger": newer})
                return await look(store, name)

            with monkeypatch.context() as patched:
                patched.setattr(deletion, "giving_up_kept", compact)
                with pytest.raises(mledger.ManagedLedgerFenced, match="was changed by an owner while"):
                    await cluster.delete_topic(topic, take_over=True)
            await opened.abandon()
            await cluster.delete_topic(topic, take_over=True)
            assert not await exists(topic_url, newer)
            await assert_nothing_orphaned(topic_url, opened.name)

    run(main())


async def compacted(cluster, topic):
    """A topic with compaction's cursor, and its cursor ledger, which is open."""
    opened = await cluster.create_topic(topic)
    compaction = await opened.open_cursor("__compaction")
    await compaction.acknowledge_cumulative((await fill(opened, 2))[0], {})
    return opened, compaction.cursor_ledger


def test_a_deletion_that_is_refused_closes_no_cursor_ledger_of_a_live_owner(topic_url, topic):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
        ):
            opened, cursor_ledger = await compacted(elsewhere, topic)
            damaged = cursor_path(opened.name, "damaged")
            await cluster.metadata.create(damaged, b"\xff\xff")
            with pytest.raises(RecordError, match="damaged"):
                await cluster.delete_topic(topic, take_over=True)
            assert (await cluster.bookkeeper.metadata(cursor_ledger)).state is LedgerState.OPEN
            await cluster.delete_topic(topic, take_over=True, unreadable_cursors=True)
            await opened.abandon()

    run(main())


def test_a_cursor_ledger_that_cannot_be_closed_is_logged(topic_url, topic, caplog):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as elsewhere,
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
        ):
            opened, cursor_ledger = await compacted(elsewhere, topic)
            path = ledger_path(cursor_ledger)
            await cluster.metadata.put(path, b"\xff\xff", (await cluster.metadata.get(path)).version)
            await cluster.delete_topic(topic, take_over=True)
            await opened.abandon()
            logged = [each for each in caplog.messages if "event=writer_not_fenced" in each]
            assert [f"ledger={cursor_ledger}" in each for each in logged] == [True]

    run(main())
