"""A topic is deleted and created again while its owner was not notified, or had lost its session (M7)."""

import asyncio

import pytest

import mledger
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import managed_ledger_path, owner_path
from mledger.topics import deletion
from tests.support.aio import run
from tests.support.metadata.held_answers import held_answers
from tests.support.topics import CONFIG, KEEP, assert_nothing_orphaned, everything, fill, payloads


@pytest.fixture
def held(topic_url):
    """A link to the cluster's ZooKeeper that can be cut."""
    with held_answers(topic_url) as held:
        yield held


@pytest.mark.parametrize("writes", ["entries", "a cursor's state", "properties"])
def test_an_owner_whose_session_was_lost_does_not_change_a_topic_recreated_at_its_version(
    held, topic_url, topic, writes
):
    async def write(opened, cursor, positions):
        if writes == "entries":
            await fill(opened, 25, 50)  # past the ledger's end: the list would be written
        elif writes == "properties":
            await opened.set_properties({"of": "the first"})
        else:
            await cursor.acknowledge(positions[:2])

    async def main():
        async with mledger.open_cluster(held.url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 3)
            cursor = await opened.open_cursor("sub")
            await held.lose_session(owner_path(opened.name), back=False)
            async with mledger.open_cluster(topic_url, config=KEEP) as other:
                await other.delete_topic(topic)
                made_again = await other.create_topic(topic)
                await fill(made_again, 5, 100)
                await made_again.open_cursor("sub")
            held.release()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await write(opened, cursor, positions)
            assert opened.state is mledger.TopicState.FENCED
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            found = await cluster.open_topic(topic)
            assert await everything(found) == payloads(5, 100)
            assert (await found.open_cursor("sub")).backlog == 5
            assert found.properties == {}

    run(main())


@pytest.mark.parametrize("writes", ["a cursor's state", "a new cursor", "properties"])
def test_an_owner_that_was_not_notified_does_not_change_a_topic_recreated_at_its_version(topic_url, topic, writes):
    async def write(opened, cursor, positions):
        if writes == "properties":
            await opened.set_properties({"of": "the first"})
        elif writes == "a new cursor":
            await opened.open_cursor("another")
        else:
            await cursor.acknowledge(positions[:2])

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 3)
            cursor = await opened.open_cursor("sub")
            async with mledger.open_cluster(topic_url, config=KEEP) as other:
                await other.delete_topic(topic, take_over=True)
                made_again = await other.create_topic(topic)
                await fill(made_again, 5, 100)
                await made_again.open_cursor("sub")
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await write(opened, cursor, positions)
                assert opened.state is mledger.TopicState.FENCED
                await fill(made_again, 15, 105)
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            found = await cluster.open_topic(topic)
            assert await everything(found) == payloads(20, 100)
            assert (await found.open_cursor("sub")).backlog == 20
            assert (found.properties, found.cursors) == ({}, ["sub"])

    run(main())


def test_a_trim_checks_that_the_topic_is_still_the_same(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.initialized()
            async with opened.trim_lock:
                await fill(opened, 15)
                async with mledger.open_cluster(topic_url, config=KEEP) as other:
                    await other.delete_topic(topic, take_over=True)
                    made_again = await other.create_topic(topic)
                    await fill(made_again, 15, 100)
            with pytest.raises(mledger.ManagedLedgerFenced):
                await opened.trim()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            assert await everything(await cluster.open_topic(topic)) == payloads(15, 100)

    run(main())


def test_a_close_does_not_wait_until_the_owner_node_is_created_again(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            exists, asked = cluster.metadata.exists, asyncio.Event()

            async def away(path):
                if path == managed_ledger_path(opened.name):
                    asked.set()
                    raise StoreUnavailable("no server could be reached", path)
                return await exists(path)

            monkeypatch.setattr(cluster.metadata, "exists", away)
            opened.session_renewed()
            await asked.wait()
            await opened.close()
            assert opened.state is mledger.TopicState.CLOSED

    run(main())


def test_an_opening_does_not_write_over_a_topic_recreated_at_the_version_that_it_had_read(
    topic_url, topic, monkeypatch
):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await fill(await cluster.create_topic(topic), 3)
            await cluster.abandon()
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as slow,
            mledger.open_cluster(topic_url, config=KEEP) as other,
        ):
            create, read, go_on = slow.bookkeeper.create_ledger, asyncio.Event(), asyncio.Event()

            async def create_late(*args, **settings):
                read.set()
                await go_on.wait()
                return await create(*args, **settings)

            monkeypatch.setattr(slow.bookkeeper, "create_ledger", create_late)
            opening = asyncio.ensure_future(slow.open_topic(topic))
            await read.wait()  # it has read the list of the first topic, and recovered its ledger
            await other.delete_topic(topic, take_over=True)
            made_again = await other.create_topic(topic)
            await fill(made_again, 5, 100)
            go_on.set()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await opening
            await fill(made_again, 20, 105)  # past the ledger's end: the list is written
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            found = await cluster.open_topic(topic)
            assert await everything(found) == payloads(25, 100)
            name = found.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_deletion_in_pieces_leaves_the_cursors_of_a_topic_recreated_meanwhile(topic_url, topic, monkeypatch):
    monkeypatch.setattr(deletion, "CURSORS_AT_ONCE", 1)
    find, read, go_on = deletion.find_attached, asyncio.Event(), asyncio.Event()

    async def find_late(*args):
        read.set()
        await go_on.wait()
        return await find(*args)

    async def create(cluster):
        opened = await cluster.create_topic(topic)
        positions = await fill(opened, 3)
        return positions, [await opened.open_cursor(name) for name in ("one", "two")]

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await create(cluster)
            await cluster.abandon()
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as slow,
            mledger.open_cluster(topic_url, config=KEEP) as other,
        ):
            monkeypatch.setattr(deletion, "find_attached", find_late)
            deleting = asyncio.ensure_future(slow.delete_topic(topic))
            await read.wait()
            monkeypatch.setattr(deletion, "find_attached", find)
            await other.delete_topic(topic)
            positions, cursors = await create(other)
            go_on.set()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await deleting
            for cursor in cursors:
                await cursor.acknowledge(positions[:2])
                assert cursor.backlog == 1

    run(main())


def test_a_deletion_does_not_take_a_former_topic_for_the_one_that_there_is(topic_url, topic, monkeypatch):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as late,
            mledger.open_cluster(topic_url, config=KEEP) as other,
        ):
            opened = await other.create_topic(topic)
            path, store, synced = managed_ledger_path(opened.name), late.store, asyncio.Event()
            get, exists, sync, former = store.get, store.exists, store.sync, await late.store.get(path)

            async def late_get(wanted):
                return former if wanted == path and not synced.is_set() else await get(wanted)

            async def late_exists(wanted):
                return former.stat if wanted == path and not synced.is_set() else await exists(wanted)

            async def catch_up():
                synced.set()
                await sync()

            for name, function in (("get", late_get), ("exists", late_exists), ("sync", catch_up)):
                monkeypatch.setattr(store, name, function)
            await other.delete_topic(topic)
            made_again = await other.create_topic(topic)
            await fill(made_again, 5)
            await late.delete_topic(topic, take_over=True)
            with pytest.raises(mledger.ManagedLedgerFenced):
                await made_again.close()
        await assert_nothing_orphaned(topic_url, opened.name)

    run(main())
