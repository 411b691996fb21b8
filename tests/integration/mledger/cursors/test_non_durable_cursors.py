"""Cursors in memory: they start where told, hold no ledger, and leave nothing behind (C9)."""

import pytest

import mledger
from tests.support.aio import run
from tests.support.topics import CONFIG, KEEP, assert_nothing_orphaned, fill, payloads


def numbers(entries):
    """The numbers of entries that `fill` appended."""
    return [int(entry.payload.removeprefix(b"entry-")) for entry in entries]


def test_a_cursor_in_memory_starts_where_told(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            past = mledger.Position(positions[-1].ledger_id, 100)
            for initial, first in (("earliest", 0), (positions[11], 12), ("latest", 25), (past, 25)):
                cursor = await opened.open_cursor(f"from-{first}", durable=False, initial=initial)
                assert numbers(await cursor.read(100)) == list(range(first, 25))
                assert cursor.backlog == 25 - first
                await cursor.close()
            cursor = await opened.open_cursor("reader", durable=False, initial="latest")
            await fill(opened, 1, 25)
            assert numbers(await cursor.read_or_wait(100)) == [25]

    run(main())


def test_it_acknowledges_in_memory_and_leaves_nothing_behind(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("reader", durable=False)
            assert (cursor.durable, cursor.path, cursor.cursor_ledger) == (False, "", -1)
            acknowledged = cursor.acknowledge([positions[0], positions[4]])
            assert acknowledged.done()
            await cursor.acknowledge_cumulative(positions[11])
            assert cursor.mark_delete == cursor.durable_mark_delete == positions[11]
            await cursor.reset("earliest")
            assert cursor.backlog == 25
            assert opened.cursors == []
            assert await cluster.metadata.children(f"/managed-ledgers/{opened.name}") == []
            name = opened.name
            await opened.close()
            assert cursor.status is mledger.CursorStatus.CLOSED
            with pytest.raises(mledger.ManagedLedgerClosed):
                await cursor.read(1)
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_it_is_shared_by_name_until_its_last_user_closes_it(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 5)
            first = await opened.open_cursor("reader", durable=False)
            second = await opened.open_cursor("reader", durable=False, initial="latest")
            assert numbers(await second.read(1)) == [0]
            await first.close()
            await first.close()  # takes the handle of nobody else
            assert numbers(await second.read(2)) == [1, 2]
            assert set(opened.non_durable_cursors) == {"reader"}
            await second.close()
            await second.close()
            assert opened.non_durable_cursors == {}
            assert (first.status, second.status) == (mledger.CursorStatus.CLOSED,) * 2
            again = await opened.open_cursor("reader", durable=False)
            assert numbers(await again.read(2)) == [0, 1]
            with pytest.raises(mledger.CursorNotFound, match="in memory"):
                await opened.open_cursor("other", durable=False, create=False)

    run(main())


def test_a_name_is_durable_or_not(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            await opened.open_cursor("reader", durable=False)
            with pytest.raises(mledger.CursorExists, match="durable"):
                await opened.open_cursor("sub", durable=False)
            with pytest.raises(mledger.CursorExists, match="not durable"):
                await opened.open_cursor("reader")
            assert opened.cursors == ["sub"]

    run(main())


def test_a_lagging_one_does_not_hold_back_trimming_and_moves_on(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            durable = await opened.open_cursor("sub")
            reader = await opened.open_cursor("reader", durable=False)
            positions = await fill(opened, 35)
            reader.acknowledge([positions[3], positions[24]])
            await durable.acknowledge_cumulative(positions[21])
            await opened.trim()
            assert [info.ledger_id for info in opened.ledgers] == sorted({p.ledger_id for p in positions[20:]})
            assert reader.mark_delete == mledger.Position(positions[20].ledger_id, -1)
            assert reader.backlog == 14
            assert numbers(await reader.read(100)) == [n for n in range(20, 35) if n != 24]

    run(main())


def test_without_durable_cursors_consumed_and_unconsumed_ledgers_are_trimmed(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            reader = await opened.open_cursor("reader", durable=False)
            await fill(opened, 35)
            await opened.trim()
            assert len(opened.ledgers) == 1
            assert numbers(await reader.read(100)) == list(range(30, 35))

    run(main())


def test_a_duplicate_begins_with_the_acknowledgements_and_goes_its_own_way(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 15)
            await cursor.acknowledge([*positions[:4], positions[7], positions[12]])
            await cursor.read(100)
            duplicate = opened.duplicate_cursor(cursor, "sub-analysis")
            assert numbers(await duplicate.read(100)) == [4, 5, 6, 8, 9, 10, 11, 13, 14]
            await duplicate.clear_backlog()
            assert (duplicate.backlog, cursor.backlog) == (0, 9)
            with pytest.raises(mledger.CursorExists):
                opened.duplicate_cursor(cursor, "sub-analysis")
            await duplicate.close()

    run(main())


def test_it_ends_when_another_owner_takes_the_topic(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 3)
            cursor = await opened.open_cursor("reader", durable=False)
            async with mledger.open_cluster(topic_url, config=KEEP) as elsewhere:
                await elsewhere.open_topic(topic, take_over=True)
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await opened.append(payloads(1))
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await cursor.read(1)
                assert opened.non_durable_cursors == {}

    run(main())
