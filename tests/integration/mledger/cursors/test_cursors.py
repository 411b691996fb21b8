"""A cursor on real bookies: reading, moving, all at once, what is lost and what is kept (C6 to C8, C10, C11)."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.events import LostEntriesSkipped, ResetSinceConsumed
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import Segment
from mledger.metastore.records.paths import ledger_path, managed_ledger_path
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import BatchDeletion, OffloadContext
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import KEEP, Events, assert_nothing_orphaned, fill, payloads, recount


def test_reading_passes_what_is_acknowledged(topic_url, topic):
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


def test_a_read_keeps_to_its_limits(topic_url, topic):
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


def test_a_cursor_is_acknowledged_moved_and_given_properties_all_at_once(topic_url, topic):
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
            if isinstance(event, ResetSinceConsumed):  # told just before the move is written
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


@pytest.mark.parametrize("auto_skip", [False, True])
def test_a_lost_ledger_is_named_or_skipped(topic_url, topic, auto_skip):
    async def main():
        config = replace(KEEP, auto_skip_non_recoverable_data=auto_skip)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            lost = positions[10].ledger_id
            async with await open_store(topic_url) as store:
                other = BookKeeper(store)
                await other.delete_ledger(lost)
                await other.close()
            assert len(await cursor.read(100)) == 10 or auto_skip
            if auto_skip:
                cursor.rewind()
                read = await cursor.read(100)
                assert [entry.payload for entry in read + await cursor.read(100)] == payloads(10) + payloads(5, 20)
                assert (cursor.backlog, await recount(opened, cursor)) == (15, 15)
            else:
                with pytest.raises(NoSuchLedger, match=f"ledger {lost} .*autoSkipNonRecoverableData"):
                    await cursor.read(100)

    run(main())


async def lose_entries(url, ledger_id, first, behind):
    """Have the metadata look for entries of a ledger on bookies that never had them."""
    async with await open_store(url) as store:
        node = await store.get(ledger_path(ledger_id))
        metadata = decode_ledger_metadata(node.data, "")
        there = metadata.segments[0].bookies
        elsewhere = [bookie for bookie in await store.children("/ledgers/available") if bookie not in there]
        others = tuple(bookie for bookie in elsewhere if ":" in bookie)[: len(there)]
        assert len(others) == len(there)
        segments = (metadata.segments[0], Segment(first, others), Segment(behind, there))
        await store.put(
            ledger_path(ledger_id), encode_ledger_metadata(replace(metadata, segments=segments)), node.version
        )


@pytest.mark.parametrize("auto_skip", [False, True])
def test_lost_entries_are_named_or_skipped(topic_url, topic, auto_skip):
    async def main():
        events = Events()
        config = replace(KEEP, ensemble_size=2, write_quorum_size=2, auto_skip_non_recoverable_data=auto_skip)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            await lose_entries(topic_url, positions[10].ledger_id, 4, 7)
            assert [entry.payload for entry in await cursor.read(13)][:10] == payloads(10)
            cursor.rewind()
            if auto_skip:
                read = [entry.payload for _ in range(6) for entry in await cursor.read(100)]
                assert read == payloads(14) + payloads(8, 17)
                assert (cursor.backlog, await recount(opened, cursor)) == (22, 22)
                assert [event.first for event in events.of(LostEntriesSkipped)] == positions[14:17]
            else:
                assert [entry.payload for entry in await cursor.read(100)] == payloads(14)
                ledger_id, entry_id = positions[14]
                with pytest.raises(NoSuchEntry, match=f"entry {ledger_id}:{entry_id} is lost.*autoSkipNonRecoverable"):
                    await cursor.read(100)
                assert cursor.backlog == 25

    run(main())


@pytest.mark.parametrize("auto_skip", [False, True])
def test_an_entry_that_was_moved_to_other_bookies_is_not_lost(topic_url, topic, auto_skip):
    async def main():
        config = replace(KEEP, ensemble_size=2, write_quorum_size=2, auto_skip_non_recoverable_data=auto_skip)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            path = ledger_path(positions[10].ledger_id)
            whole = (await cluster.metadata.get(path)).data
            await lose_entries(topic_url, positions[10].ledger_id, 4, 7)
            await opened.reader.read(positions[10].ledger_id, 0, 0, None)  # its handle stays as it is
            async with await open_store(topic_url) as store:
                await store.put(path, whole, (await store.get(path)).version)
            read = [entry.payload for _ in range(4) for entry in await cursor.read(100)]
            assert read == payloads(25)

    run(main())


async def offload(store, managed_ledger, ledger_id, *, deleted):
    """Record a copy of the ledger in tiered storage, delete it from the bookies; `deleted`: that too is recorded."""
    path = managed_ledger_path(managed_ledger)
    node = await store.get(path)
    info = decode_managed_ledger_info(node.data, path).value
    message = OffloadMessage(uidMsb=1, uidLsb=2, complete=True, bookkeeperDeleted=deleted)
    context = OffloadContext(message.SerializeToString())
    ledgers = [replace(each, offload=context) if each.ledger_id == ledger_id else each for each in info.ledgers]
    await store.put(path, encode_managed_ledger_info(replace(info, ledgers=tuple(ledgers))), node.version)
    other = BookKeeper(store)
    await other.delete_ledger(ledger_id)
    await other.close()


@pytest.mark.parametrize("deleted", [False, True])
def test_an_offloaded_ledger_at_the_end_of_a_terminated_topic_stays_listed(topic_url, topic, deleted):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as store:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 10)
            await opened.roll_over()
            await opened.terminate()
            await opened.close()
            await offload(store, opened.name, positions[0].ledger_id, deleted=deleted)
            for _ in range(2):  # the first drops the empty ledger behind it
                opened = await cluster.open_topic(topic)
                await opened.close()
            assert [(each.ledger_id, each.entries) for each in opened.info.ledgers] == [(positions[0].ledger_id, 10)]

    run(main())


@pytest.mark.parametrize("auto_skip", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_an_offloaded_ledger_is_never_skipped(topic_url, topic, auto_skip, deleted):
    async def main():
        config = replace(KEEP, auto_skip_non_recoverable_data=auto_skip)
        async with mledger.open_cluster(topic_url, config=config) as cluster, await open_store(topic_url) as store:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            await opened.open_cursor("sub")
            await opened.close()
            offloaded = positions[10].ledger_id
            await offload(store, opened.name, offloaded, deleted=deleted)
            cursor = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert [entry.payload for entry in await cursor.read(100)] == payloads(10)
            with pytest.raises(mledger.LedgerOffloaded, match=f"ledger {offloaded} is offloaded"):
                await cursor.read(100)
            assert cursor.backlog == 25

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
def test_properties_of_the_position_stay_when_nobody_consumed_up_to_it(topic_url, topic, how):
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
