"""A cursor on real bookies: reads, moves, concurrent changes, and what is kept (C6 to C8, C10)."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

import mledger
from mledger.bookie.errors import BookieUnavailable
from mledger.cursors.persistence.store import CursorStore
from mledger.events import ResetSinceConsumed
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import BatchDeletion
from tests.support.aio import run
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, recount


def test_reading_skips_acknowledged_entries(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            gone = {0, 1, 9, 10, 13, 24}
            await cursor.acknowledge([positions[at] for at in gone])
            entries = await cursor.read(100)
            assert [entry.position for entry in entries] == [p for at, p in enumerate(positions) if at not in gone]
            assert await cursor.read(100) == []
            cursor.rewind()
            assert [entry.position for entry in await cursor.read(3)] == [positions[at] for at in (2, 3, 4)]

    run(main())


def test_a_read_respects_its_limits(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 15)
            cursor = await opened.open_cursor("sub")
            assert len(await cursor.read(4)) == 4
            assert len(await cursor.read(100, max_bytes=1)) == 1
            assert len(await cursor.read(100, max_bytes=36)) <= 4
            assert (await cursor.read(100, max_position=positions[11]))[-1].position == positions[11]
            assert await cursor.read_or_wait(100, max_position=positions[11]) == []
            with pytest.raises(ValueError, match="give 1 or more"):
                await cursor.read_or_wait(0)

    run(main())


def test_a_parked_read_is_woken_by_the_next_entry(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            reading = asyncio.ensure_future(cursor.read_or_wait(10))
            await asyncio.sleep(0)
            position = await opened.add(b"woken")
            assert [(entry.position, entry.payload) for entry in await reading] == [(position, b"woken")]
            parked = asyncio.ensure_future(cursor.read_or_wait(10))
            await asyncio.sleep(0)
            await opened.close()
            with pytest.raises(mledger.ManagedLedgerClosed):
                await parked

    run(main())


def test_skip_counts_deleted_entries_or_not(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            counting, passing = await opened.open_cursor("counting"), await opened.open_cursor("passing")
            for cursor in (counting, passing):
                await cursor.acknowledge([positions[1], positions[2], positions[12]])
            await counting.skip(5, include_deleted=True)
            await passing.skip(5)
            assert counting.mark_delete == positions[4]
            assert passing.mark_delete == positions[6]
            await passing.skip(100)
            assert (passing.mark_delete, passing.backlog) == (positions[-1], 0)

    run(main())


def test_reset_goes_to_a_position_to_either_end_and_to_a_time(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge_cumulative(positions[20])
            await cursor.reset(positions[12])
            assert (cursor.read_position, cursor.backlog) == (positions[12], 13)
            assert (await cursor.read(1))[0].position == positions[12]
            await cursor.reset("latest")
            assert cursor.backlog == 0
            await cursor.reset("earliest")
            assert cursor.backlog == 25
            at = await cursor.reset_to_time(17, lambda payload: int(payload.rpartition(b"-")[2]))
            assert at == cursor.read_position == positions[17]
            await opened.abandon()
            again = await cluster.open_topic(topic)
            assert (await again.open_cursor("sub")).read_position == positions[17]

    run(main())


@pytest.mark.parametrize("entry_id", [-1, -2, -(2**63)])
@pytest.mark.parametrize("force", [False, True])
def test_a_reset_to_before_the_first_entry_of_a_ledger_reads_that_entry_next(topic_url, topic, entry_id, force):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            await cursor.reset(mledger.Position(positions[10].ledger_id, entry_id), force=force)
            assert cursor.backlog == 15
            assert [entry.position for entry in await cursor.read(100)] == positions[10:]

    run(main())


def test_reset_to_a_batch_index_keeps_earlier_indexes_deleted(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.clear_backlog()
            await cursor.reset(positions[3], batch=BatchDeletion(positions[3], (0b1100,)))
            assert (cursor.read_position, cursor.backlog) == (positions[3], 2)
            assert cursor.batch_deleted(positions[3]) == (0b1100,)

    run(main())


def test_clear_backlog_and_new_entries(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 15)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[3:5])
            await cursor.clear_backlog()
            assert (cursor.backlog, cursor.holes) == (0, [])
            await fill(opened, 4)
            assert cursor.backlog == await recount(opened, cursor) == 4
            assert len(await cursor.read(100)) == 4

    run(main())


def test_positions_that_do_not_exist_are_refused(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge_cumulative(positions[2])
            beyond = Position(positions[0].ledger_id, 99)
            for attempt in (
                lambda: cursor.acknowledge([beyond]),
                lambda: cursor.acknowledge_cumulative(beyond),
                lambda: cursor.acknowledge_cumulative(positions[0]),
            ):
                with pytest.raises(mledger.InvalidPosition):
                    attempt()
            assert (cursor.mark_delete, cursor.backlog) == (positions[2], 2)

    run(main())


def test_acknowledgements_moves_and_properties_of_a_cursor_work_at_the_same_time(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=replace(KEEP, metadata_max_entries_per_ledger=2)) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 60)
            cursors = [await opened.open_cursor(f"sub-{number}") for number in range(8)]
            for full in range(9, 59, 10):
                await asyncio.gather(
                    *(cursor.acknowledge_cumulative(positions[full]) for cursor in cursors),
                    opened.trim(),
                    *(cursor.acknowledge([positions[full + 1]]) for cursor in cursors),
                    *(cursor.set_cursor_properties({"full": str(full)}) for cursor in cursors),
                    opened.trim(),
                )
            assert opened.state is mledger.TopicState.OPEN
            await opened.abandon()
            again = await cluster.open_topic(topic)
            for number in range(8):
                found = await again.open_cursor(f"sub-{number}")
                assert (found.mark_delete, found.backlog) == (positions[50], 9)
                assert found.cursor_properties == {"full": "49"}
            name = again.name
            await again.initialized()
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_cursor_changes_while_it_leaves_a_consumed_ledger(topic_url, topic):
    async def main():
        changes = []

        def change_too(event):
            if isinstance(event, ResetSinceConsumed):  # emitted just before the move is written
                cursor = opened.open_cursors[event.cursor]
                asyncio.get_running_loop().call_soon(
                    lambda: changes.append(cursor.set_cursor_properties({"at": str(event.new)}))
                )

        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursors = [await opened.open_cursor(name) for name in "abcdefgh"]
            await fill(opened, 5)
            for cursor in cursors:
                await cursor.clear_backlog()
            await opened.close()
            opened = await cluster.open_topic(topic, events=change_too)
            await opened.initialized()
            assert len(changes) == 8
            await asyncio.gather(*changes)
            start = mledger.Position(opened.ledgers[-1].ledger_id, -1)
            for cursor in opened.open_cursors.values():
                assert (cursor.durable_mark_delete, cursor.cursor_properties) == (start, {"at": str(start)})
            assert opened.state is mledger.TopicState.OPEN

    run(main())


def test_a_cursor_deleted_while_it_is_moved_and_acknowledged_fences_nobody(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("stays")
            cursors = [await opened.open_cursor(name) for name in "abcdefgh"]
            positions = await fill(opened, 11)
            await asyncio.gather(
                *(cursor.acknowledge_cumulative(positions[9]) for cursor in cursors),
                opened.trim(),
                *(opened.delete_cursor(cursor.name) for cursor in cursors[:4]),
                *(cursor.acknowledge([positions[10]]) for cursor in cursors),
                opened.trim(),
                *(opened.delete_cursor(cursor.name) for cursor in cursors[4:]),
                return_exceptions=True,
            )
            assert opened.state is mledger.TopicState.OPEN
            assert opened.cursors == ["stays"]
            await opened.add(b"on")
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_deleted_cursor_leaves_nothing(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:2])
            await opened.delete_cursor("sub")
            assert opened.cursors == []
            with pytest.raises(mledger.ManagedLedgerClosed):
                cursor.acknowledge(positions[2:])
            with pytest.raises(mledger.CursorNotFound, match="sub"):
                await opened.open_cursor("sub", create=False)
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_properties_of_topic_and_cursor_survive(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, properties={"a": "1"})
            positions = await fill(opened, 3)
            cursor = await opened.open_cursor("s/p ä", cursor_properties={"x": "y"})
            await cursor.acknowledge_cumulative(positions[0], {"long": 5})
            await cursor.set_cursor_properties({"x": "z", "n": "m"})
            await opened.set_properties({"b": "2"})
            await opened.abandon()
            again = await cluster.open_topic(topic)
            found = await again.open_cursor("s/p ä", create=False)
            assert again.properties == {"b": "2"}
            assert (found.properties, found.cursor_properties) == ({"long": 5}, {"x": "z", "n": "m"})

    run(main())


async def lose_a_ledger(opened, cursor, positions):
    cursor.lose(positions[12].ledger_id, 0, 9, "its ledger does not exist")
    await cursor.flush()


PASSING = {
    "skip": lambda _, cursor, __: cursor.skip(4),
    "skip all": lambda _, cursor, __: cursor.skip(4, include_deleted=True),
    "clear": lambda _, cursor, __: cursor.clear_backlog(),
    "reset": lambda _, cursor, positions: cursor.reset(positions[1]),
    "reset to latest": lambda _, cursor, __: cursor.reset("latest"),
    "truncate": lambda opened, _, __: opened.truncate(),
    "lost ledger": lose_a_ledger,
}
PROPERTIES = {"sub": {"pulsar.replicated.subscription": 1}, "__compaction": {"CompactedTopicLedger": 7}}


@pytest.mark.parametrize("how", PASSING)
def test_properties_of_the_position_stay_if_nothing_was_consumed_up_to_it(topic_url, topic, how):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursors = [await opened.open_cursor(name) for name in PROPERTIES]
            for cursor in cursors:
                await cursor.acknowledge_cumulative(positions[3], PROPERTIES[cursor.name])
            for cursor in cursors:
                await PASSING[how](opened, cursor, positions)
                assert cursor.properties == PROPERTIES[cursor.name]
            await opened.abandon()
            opened = await cluster.open_topic(topic)
            for name, properties in PROPERTIES.items():
                assert (await opened.open_cursor(name)).properties == properties

    run(main())


def test_the_cursor_of_compaction_reads_again_from_a_reset_and_stays_where_its_ledger_ends(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("__compaction")
            await cursor.acknowledge_cumulative(positions[5], {"CompactedTopicLedger": 7})
            await cursor.acknowledge([positions[7]])
            await cursor.reset(positions[2])
            assert (cursor.mark_delete, cursor.holes, cursor.read_position) == (positions[5], [], positions[2])
            await cursor.acknowledge_cumulative(positions[6])
            assert cursor.properties == {"CompactedTopicLedger": 7}

    run(main())


def test_a_reset_that_is_not_durable_leaves_the_cursor_where_it_was(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge_cumulative(positions[3], {"long": 5})
            await cursor.acknowledge([positions[5]])
            await cursor.read(1)

            async def write(_, state):
                raise BookieUnavailable("no answer")

            with monkeypatch.context() as failing:
                failing.setattr(CursorStore, "write", write)
                with pytest.raises(BookieUnavailable):
                    await cursor.reset("earliest")
            assert (cursor.mark_delete, cursor.backlog, cursor.properties) == (positions[3], 4, {"long": 5})
            assert [entry.position for entry in await cursor.read(2)] == [positions[6], positions[7]]
            await cursor.flush()
            await opened.abandon()
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert (again.mark_delete, again.backlog) == (positions[3], 4)

    run(main())


def test_an_entry_appended_while_the_backlog_is_cleared_is_read(topic_url, topic):
    async def main():
        throttled = replace(KEEP, throttle_mark_delete=0.001)
        async with mledger.open_cluster(topic_url, config=throttled) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:1])  # the next flush has to wait
            clearing = asyncio.ensure_future(cursor.clear_backlog())
            await opened.add(b"meanwhile")
            assert not clearing.done()
            await cursor.flush()
            await clearing
            assert cursor.backlog == 1
            assert [entry.payload for entry in await cursor.read(10)] == [b"meanwhile"]

    run(main())


def test_positions_with_integers_of_numpy_are_durable(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            of_table = [mledger.Position(*map(np.int64, position)) for position in positions]
            cursor = await opened.open_cursor("sub", initial=of_table[0])
            await cursor.acknowledge_cumulative(of_table[1])
            await cursor.acknowledge(of_table[3:4])
            await cursor.acknowledge(of_table[5:7])
            other = await opened.open_cursor("other")
            await other.reset(of_table[4])
            await opened.abandon()
            again = await cluster.open_topic(topic)
            found = [await again.open_cursor(name) for name in ("sub", "other")]
            assert [[cursor.is_deleted(each) for each in positions] for cursor in found] == [
                [number in (0, 1, 3, 5, 6) for number in range(9)],
                [number < 4 for number in range(9)],
            ]

    run(main())
