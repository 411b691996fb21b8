"""A cursor on real bookies: acknowledgements, and where the state goes (C3, C4, C5, R8)."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import RecoveryUndecided
from mledger.cursors.persistence import cursor_persistence as persistence
from mledger.events import CursorLedgerSwitched, CursorStateNotPersisted
from mledger.ledgers import ledger_factory, topic_record
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import cursor_path
from mledger.metastore.store import Put
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import KEEP, Events, assert_nothing_orphaned, fill


async def znode(cluster, cursor, opened):
    path = cursor_path(opened.name, cursor.name)
    return decode_managed_cursor_info((await cluster.metadata.get(path)).data, path).value


def test_a_new_cursor_has_its_place_in_its_record_and_no_ledger(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            early = await opened.open_cursor("early")
            late = await opened.open_cursor("late", initial="latest", cursor_properties={"who": "me"})
            assert (early.backlog, late.backlog) == (5, 0)
            record = await znode(cluster, late, opened)
            assert (record.cursors_ledger_id, record.mark_delete) == (-1, positions[-1])
            assert record.cursor_properties == (("who", "me"),)
            assert late.status is mledger.CursorStatus.NO_LEDGER

    run(main())


def test_the_first_acknowledgement_creates_a_cursor_ledger(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge([positions[0], positions[2]])
            record = await znode(cluster, cursor, opened)
            assert record.cursors_ledger_id == cursor.cursor_ledger >= 0
            assert cursor.status is mledger.CursorStatus.OPEN
            assert (cursor.mark_delete, cursor.backlog) == (positions[0], 3)
            assert cursor.individually_deleted == f"[({positions[1]}..{positions[2]}]]"

    run(main())


def test_many_acknowledgements_are_few_entries_of_the_cursor_ledger(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=replace(KEEP, max_entries_per_ledger=1000)) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 500)
            cursor = await opened.open_cursor("sub")
            await asyncio.gather(*(cursor.acknowledge([position]) for position in positions))
            async with await open_store(topic_url) as store:
                other = BookKeeper(store)
                entries = (await other.peek(cursor.cursor_ledger)).last_entry + 1
                await other.close()
            assert entries <= 3
            assert (cursor.durable_mark_delete, cursor.backlog) == (positions[-1], 0)

    run(main())


def test_a_throttled_acknowledgement_waits_and_flush_does_not(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=replace(KEEP, throttle_mark_delete=0.001)) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:1])
            later = cursor.acknowledge(positions[1:2])
            await asyncio.sleep(0.05)
            assert not later.done()
            await cursor.flush()
            assert later.done()
            assert cursor.durable_mark_delete == positions[1]

    run(main())


def test_a_cursor_ledger_is_switched_at_its_entry_limit_and_the_old_one_deleted(topic_url, topic):
    async def main():
        events = Events()
        config = replace(KEEP, metadata_max_entries_per_ledger=3)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            positions = await fill(opened, 8)
            cursor = await opened.open_cursor("sub")
            for position in positions:
                await cursor.acknowledge([position])
            switches = events.of(CursorLedgerSwitched)
            assert len(switches) == 3
            assert switches[-1].new_ledger_id == cursor.cursor_ledger
            await opened.abandon()
            again = await cluster.open_topic(topic)
            assert (await again.open_cursor("sub")).mark_delete >= positions[-1]
            await again.initialized()
            name = again.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_fenced_cursor_ledger_is_replaced(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:1])
            first = cursor.cursor_ledger
            async with await open_store(topic_url) as store:
                other = BookKeeper(store)
                await other.open_ledger(first)
                await other.close()
            await cursor.acknowledge(positions[1:2])
            assert cursor.cursor_ledger > first
            assert cursor.durable_mark_delete == positions[1]
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_clean_close_keeps_few_holes_in_the_record(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge_cumulative(positions[1], {"x": 7})
            await cursor.acknowledge([positions[3], positions[5]])
            holes = cursor.holes
            await opened.close()
            record = await znode(cluster, cursor, opened)
            assert (record.cursors_ledger_id, record.mark_delete) == (-1, positions[1])
            assert list(record.ranges) == holes
            assert record.properties == (("x", 7),)
            again = await cluster.open_topic(topic)
            found = await again.open_cursor("sub")
            assert (found.mark_delete, found.holes, found.backlog) == (positions[1], holes, 5)
            assert found.properties == {"x": 7}
            await again.initialized()
            name = again.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


@pytest.mark.parametrize("what", ["holes", "batch indexes"])
def test_a_clean_close_keeps_a_state_too_large_for_the_record_in_a_closed_cursor_ledger(topic_url, topic, what):
    async def main():
        config = replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=2)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            if what == "holes":
                await cursor.acknowledge([positions[1], positions[3], positions[5]])
            else:
                await cursor.acknowledge_batch(positions[4], [0b0110])
            holes, words = cursor.holes, cursor.batch_deleted(positions[4])
            await opened.close()
            assert (await znode(cluster, cursor, opened)).cursors_ledger_id == cursor.cursor_ledger >= 0
            again = await cluster.open_topic(topic)
            found = await again.open_cursor("sub")
            assert (found.holes, found.batch_deleted(positions[4])) == (holes, words)
            await again.initialized()
            name = again.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_close_keeps_cursor_properties_that_were_still_to_be_written(topic_url, topic):
    async def main():
        config = replace(KEEP, throttle_mark_delete=0.001, max_unacked_ranges_to_persist_in_metadata_store=2)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 20)
            await cursor.acknowledge(
                positions[1:12:2]
            )  # too many ranges for the record: a close ends the cursor ledger
            told = cursor.set_cursor_properties({"owner": "team-a"})
            assert not told.done()
            await opened.close()
            await told
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert again.cursor_properties == {"owner": "team-a"}
            assert again.holes == cursor.holes

    run(main())


def test_a_state_too_large_for_an_entry_is_an_error_and_stays_in_memory(topic_url, topic):
    async def main():
        events = Events()
        config = replace(KEEP, max_entries_per_ledger=10_000, max_message_size=300)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            positions = await fill(opened, 4000)
            cursor = await opened.open_cursor("sub")
            with pytest.raises(mledger.AckStateTooLarge, match="sub"):
                await cursor.acknowledge(positions[1::2])
            assert len(cursor.holes) == 2000
            assert cursor.durable_mark_delete < positions[0]
            assert events.of(CursorStateNotPersisted)
            await cursor.acknowledge(positions[0::2])
            assert cursor.durable_mark_delete == positions[-1]

    run(main())


def test_of_a_state_too_large_mark_delete_becomes_durable_and_no_durable_hole_is_lost(topic_url, topic):
    async def main():
        config = replace(KEEP, max_entries_per_ledger=10_000, max_message_size=300)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4000)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge([positions[1], positions[200]])
            with pytest.raises(mledger.AckStateTooLarge, match="in memory only"):
                await cursor.acknowledge(positions[301::2])
            with pytest.raises(mledger.AckStateTooLarge):
                await cursor.acknowledge(positions[:100])
            assert cursor.is_failing
            assert cursor.behind_s > 0
            assert (cursor.durable_mark_delete, len(cursor.holes)) == (positions[99], 1851)
            await opened.abandon()
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert (again.mark_delete, again.holes) == (positions[99], [(positions[199], positions[200])])

    run(main())


def test_a_close_with_a_state_too_large_keeps_its_mark_delete_and_reports_it(topic_url, topic):
    async def main():
        config = replace(KEEP, max_entries_per_ledger=10_000, max_message_size=300)
        config = replace(config, max_unacked_ranges_to_persist_in_metadata_store=5)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4000)
            cursor = await opened.open_cursor("sub")
            kept = cursor.acknowledge([*positions[:100], *positions[301::2]])
            with pytest.raises(mledger.AckStateTooLarge, match="in memory only"):
                await opened.close()
            with pytest.raises(mledger.AckStateTooLarge):
                await kept
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert (again.mark_delete, again.holes) == (positions[99], [])
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_failing_write_is_retried_for_as_long_as_the_cursor_is_open(topic_url, topic, monkeypatch):
    monkeypatch.setattr(persistence, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(persistence, "RETRY_LAST_S", 0.002)

    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            multi = cluster.metadata.multi

            async def away(operations):
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(cluster.metadata, "multi", away)
            monkeypatch.setattr(topic_record, "RETRY_DELAYS_S", ())
            monkeypatch.setattr(ledger_factory, "RETRY_DELAYS_S", ())
            with pytest.raises(StoreUnavailable):
                await cursor.acknowledge(positions[:2])
            for _ in range(30):
                await events.next(CursorStateNotPersisted)
            assert (cursor.is_failing, cursor.mark_delete) == (True, positions[1])
            assert cursor.durable_mark_delete < positions[0]
            monkeypatch.setattr(cluster.metadata, "multi", multi)
            while cursor.durable_mark_delete != positions[1]:
                await asyncio.sleep(0.01)
            assert (cursor.is_failing, cursor.behind_s) == (False, 0.0)

    run(main(), timeout=60.0)


def test_without_bookies_the_state_goes_to_the_record(bookies, topic):
    bookies.start(3)

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:1])
            for number in range(2):
                bookies.kill(number)
            await cursor.acknowledge([positions[1], positions[3]])
            record = await znode(cluster, cursor, opened)
            assert (record.cursors_ledger_id, record.mark_delete) == (-1, positions[1])
            assert len(record.ranges) == 1
            for number in range(2):
                bookies.restart(number)
            await opened.abandon()
            again = await opened_in_the_end(cluster)
            found = await again.open_cursor("sub")
            assert (found.mark_delete, found.holes, found.backlog) == (positions[1], cursor.holes, 2)

    async def opened_in_the_end(cluster):
        while True:  # the client may briefly take a restarted bookie for dead
            try:
                return await cluster.open_topic(topic)
            except RecoveryUndecided:
                await asyncio.sleep(0.05)

    run(main())


def not_answered(store, monkeypatch, path, *, carried_out):
    """Leave every write of `path` unanswered, the first one carried out if so told. Call the result to end it."""
    multi, left = store.multi, [carried_out]

    async def unheard(operations):
        if not any(isinstance(operation, Put) and operation.path == path for operation in operations):
            return await multi(operations)
        if any(left):
            left.clear()
            await multi(operations)
        raise StoreUnavailable("no answer came", path)

    monkeypatch.setattr(store, "multi", unheard)
    return lambda: monkeypatch.setattr(store, "multi", multi)


def test_a_reset_to_the_durable_state_is_written_over_acknowledgements_that_may_be_durable(
    topic_url, topic, monkeypatch
):
    async def main():
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            answer = not_answered(cluster.metadata, monkeypatch, cursor.path, carried_out=True)
            with pytest.raises(StoreUnavailable):
                await cursor.acknowledge(positions[:3])
            answer()
            await cursor.reset("earliest")
            await opened.abandon()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            assert (await (await cluster.open_topic(topic)).open_cursor("sub")).backlog == 9

    run(main())


@pytest.mark.parametrize("how", ["clear", "skip"])
def test_a_read_past_entries_acknowledged_only_in_memory_waits_until_that_is_durable(
    topic_url, topic, monkeypatch, how
):
    async def main():
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            answer = not_answered(cluster.metadata, monkeypatch, cursor.path, carried_out=False)
            with pytest.raises(StoreUnavailable):
                await cursor.clear_backlog()
            answer()
            await (cursor.clear_backlog() if how == "clear" else cursor.skip(1))
            assert cursor.durable_mark_delete == positions[-1]
            await opened.abandon()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            assert (await (await cluster.open_topic(topic)).open_cursor("sub")).backlog == 0

    run(main())


def test_a_failed_move_off_a_consumed_ledger_is_retried(topic_url, topic, monkeypatch):
    async def main():
        monkeypatch.setattr(persistence, "RETRY_FIRST_S", 0.1)
        config = replace(KEEP, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 9)
            cursor = await opened.open_cursor("sub", initial="latest")
            await opened.initialized()
            answer = not_answered(cluster.metadata, monkeypatch, cursor.path, carried_out=False)
            await opened.roll_over()
            while not cursor.is_failing:
                await asyncio.sleep(0.05)
            answer()
            while cursor.behind_s:
                await asyncio.sleep(0.05)
            assert cursor.durable_mark_delete == (opened.ledgers[-1].ledger_id, -1)

    run(main())


def test_properties_that_fit_no_record_are_refused_and_do_not_stop_acknowledgements(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            with pytest.raises(mledger.InvalidProperties):
                cursor.set_cursor_properties({"who": "x" * 2_000_000})
            for properties in ({"n": 2**63}, {"n": "text"}, {"n" * 2_000_000: 1}):
                with pytest.raises(mledger.InvalidProperties):
                    cursor.acknowledge_cumulative(positions[0], properties)
            assert cursor.mark_delete < positions[0]
            await cursor.acknowledge(positions[:3])
            assert cursor.durable_mark_delete == positions[2]

    run(main())


def test_a_write_without_an_answer_is_settled_although_another_made_its_state_durable(topic_url, topic, monkeypatch):
    monkeypatch.setattr(persistence, "RETRY_FIRST_S", 0.001)

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 2)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:1])
            written = cursor._persistence
            written._uncertain = True
            written._failed(StoreUnavailable("no answer"))
            while cursor.is_failing:
                await asyncio.sleep(0.01)
            assert cursor.durable_mark_delete == positions[0]

    run(main())
