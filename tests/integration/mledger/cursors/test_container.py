"""Cursors closed, opened again or deleted while their topic stays open (C3, R2, R3)."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.metastore.errors import StoreUnavailable
from tests.support.aio import run
from tests.support.topics import KEEP, assert_nothing_orphaned, fill


def test_a_closed_cursor_is_opened_again_where_it_was(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 6)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge([positions[0], positions[2]])
            await cursor.close()
            again = await opened.open_cursor("sub")
            assert again is not cursor
            assert (again.mark_delete, again.individually_deleted) == (positions[0], cursor.individually_deleted)
            await again.acknowledge([positions[1]])
            assert (again.mark_delete, again.backlog) == (positions[2], 3)
            with pytest.raises(mledger.ManagedLedgerClosed):
                await cursor.acknowledge([positions[3]])

    run(main())


def test_a_cursor_whose_state_stayed_in_its_ledger_is_opened_again(topic_url, topic):
    async def main():
        config = replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 8)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[1::2])
            await cursor.close()
            again = await opened.open_cursor("sub")
            assert (again.individually_deleted, again.backlog) == (cursor.individually_deleted, 4)
            await again.acknowledge(positions[::2])
            assert again.backlog == 0
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_opening_waits_for_a_close_in_progress(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4)
            cursor = await opened.open_cursor("sub")
            acknowledged = cursor.acknowledge(positions[:3])
            closing = asyncio.ensure_future(cursor.close())
            await asyncio.sleep(0)  # the close has begun
            again = await opened.open_cursor("sub")
            assert again.mark_delete == positions[2]
            await asyncio.gather(acknowledged, closing)

    run(main())


def test_a_failed_close_is_an_error_for_the_next_caller_too(topic_url, topic, monkeypatch):
    async def main():
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4)
            cursor = await opened.open_cursor("sub")
            multi = cluster.metadata.multi

            async def away(operations):
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(cluster.metadata, "multi", away)
            acknowledged = cursor.acknowledge(positions[:2])
            with pytest.raises(StoreUnavailable):
                await cursor.close()
            with pytest.raises(StoreUnavailable):
                await acknowledged
            monkeypatch.setattr(cluster.metadata, "multi", multi)
            with pytest.raises(StoreUnavailable):
                await cursor.close()
            with pytest.raises(StoreUnavailable):
                await opened.close()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            assert (await (await cluster.open_topic(topic)).open_cursor("sub")).backlog == 4

    run(main())


def test_a_failed_close_of_a_topic_is_an_error_for_the_next_caller_too_and_reported_once(topic_url, topic, monkeypatch):
    async def main():
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:  # its own close repeats no error
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4)
            cursor = await opened.open_cursor("sub")
            multi = cluster.metadata.multi

            async def away(operations):
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(cluster.metadata, "multi", away)
            acknowledged = cursor.acknowledge(positions[:2])
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    await opened.close()
            with pytest.raises(StoreUnavailable):
                await acknowledged
            monkeypatch.setattr(cluster.metadata, "multi", multi)
            again = await cluster.open_topic(topic)
            assert (await again.open_cursor("sub")).backlog == 4

    run(main())


def test_closing_the_cluster_reports_the_outcome_of_a_close_whose_caller_was_cancelled(topic_url, topic, monkeypatch):
    async def main():
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4)
            cursor = await opened.open_cursor("sub")

            async def away(operations):
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(cluster.metadata, "multi", away)
            acknowledged = cursor.acknowledge(positions[:2])
            closing = asyncio.ensure_future(opened.close())
            await asyncio.sleep(0)  # the close has begun
            closing.cancel()
            with pytest.raises(StoreUnavailable):
                await cluster.close()
            with pytest.raises(StoreUnavailable):
                await acknowledged

    run(main())


def test_a_closed_cursor_can_be_deleted(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 2)
            await (await opened.open_cursor("sub")).close()
            await opened.delete_cursor("sub")
            assert opened.cursors == []
            fresh = await opened.open_cursor("sub", exclusive=True)
            assert fresh.backlog == 2
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_topic_with_a_closed_cursor_is_truncated(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 25)
            closed = await opened.open_cursor("closed")
            await opened.open_cursor("open")
            await closed.close()
            await opened.truncate()
            assert len(opened.ledgers) == 1
            again = [await opened.open_cursor(name) for name in ("closed", "open")]
            assert [cursor.backlog for cursor in again] == [0, 0]

    run(main())


def test_a_new_cursor_has_properties_of_its_position_and_one_that_is_there_keeps_its_own(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub", position_properties={"a": 1})
            again = await opened.open_cursor("sub", position_properties={"b": 2})
            assert again.properties == {"a": 1}
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.open_topic(topic)
            assert (await opened.open_cursor("sub", create=False)).properties == {"a": 1}

    run(main())
