"""Ledgers without an owner, and ledgers deleted although somebody still needed them."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client import ClientConfig
from mledger.events import CursorRecovered, Initialized, RemovingLedger
from mledger.metastore.cluster.bookies import unregister
from tests.field_failures.owners import until_death
from tests.support.aio import HANG_S, run
from tests.support.owners.owner import OWNER_CONFIG
from tests.support.topics import CONFIG, KEEP, Events, assert_nothing_orphaned, fill, ledgers_naming, payloads

OWNER = "tests.support.owners.owner"


async def next_owner(url, topic):
    """Open the topic after the crash, as the owner that finishes what the crash left."""
    async with mledger.open_cluster(url, config=OWNER_CONFIG) as cluster:
        opened = await cluster.open_topic(topic, take_over=True)
        await opened.initialized()
        await opened.trim()
        name = opened.name
    await assert_nothing_orphaned(url, name)


@pytest.mark.parametrize(
    ("step", "nth"), [("name cursor ledger", 1), ("cursor ledger named", 1), ("cursor ledger named", 2)]
)
def test_no_cursor_ledger_is_left_by_a_crash(field_url, topic, step, nth):
    """pulsar-985: the cursor ledger of a killed owner was recovered from and then never deleted."""

    async def main():
        said = await until_death(OWNER, field_url, topic, step, str(nth))
        assert "cursors" in said
        await next_owner(field_url, topic)

    run(main())


def test_no_cursor_ledger_is_left_by_a_failed_update(field_url, topic):
    """pulsar-350: the cursor's node had another version, and the ledger just created for it stayed without owner."""

    async def main():
        async with (
            mledger.open_cluster(field_url, config=CONFIG) as one,
            mledger.open_cluster(field_url, config=CONFIG) as two,
        ):
            opened = await one.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 5)
            other = await two.open_topic(topic, take_over=True)
            await other.initialized()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await cursor.acknowledge(positions[:1])
            await opened.abandon()
            name = other.name
        await assert_nothing_orphaned(field_url, name)

    run(main())


@pytest.mark.parametrize(("step", "nth"), [("ledgers dropped", 1), ("delete ledger", 3)])
def test_an_interrupted_deletion_is_finished_after_the_restart(field_url, topic, step, nth):
    """pulsar-13526: the list said that ledgers were deleted, their deletion had failed, and nobody tried again."""

    async def main():
        said = await until_death(OWNER, field_url, topic, step, str(nth))
        name = mledger.TopicName.parse(topic).managed_ledger_name
        async with mledger.open_cluster(field_url, config=OWNER_CONFIG) as cluster:
            listed = {ledger.ledger_id for ledger in (await cluster.inspector.topic(topic)).ledgers}
        assert await ledgers_naming(field_url, name) - listed, said
        await next_owner(field_url, topic)

    run(main())


@pytest.mark.parametrize("step", ["drop ledgers", "ledgers dropped"])
def test_the_move_out_of_a_consumed_ledger_is_durable_before_its_deletion(field_url, topic, step):
    """pulsar-25087: a cursor left a consumed ledger in memory only; after a crash it was in a deleted one."""

    async def main():
        await until_death(OWNER, field_url, topic, step, "1")
        async with mledger.open_cluster(field_url, config=OWNER_CONFIG) as cluster:
            listed = [ledger.ledger_id for ledger in (await cluster.inspector.topic(topic)).ledgers]
            cursors = await cluster.inspector.cursors(topic)
            assert {cursor.name for cursor in cursors} == {"one", "two"}
            for cursor in cursors:
                assert cursor.plan.mark_delete.ledger_id in listed[1 if step == "drop ledgers" else 0 :]
                assert not set(cursor.plan.rules) & {"R4", "R6"}
        await next_owner(field_url, topic)

    run(main())


def test_deletions_are_a_prefix_of_the_list_while_it_grows(field_url, topic):
    """pulsar-20898: trimming by size, while entries were appended, deleted a ledger and kept one before it."""

    async def main():
        events = Events()
        config = replace(CONFIG, max_entries_per_ledger=2, retention_time_ms=-1, retention_size_in_mb=1)
        async with mledger.open_cluster(field_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            made: list[int] = []

            def see():
                listed = [ledger.ledger_id for ledger in opened.ledgers]
                made.extend(ledger for ledger in listed if not made or ledger > made[-1])
                assert listed == made[-len(listed) :]

            async def append():
                for number in range(60):
                    await opened.append([bytes(90_000)] * (number % 2 + 1))
                    see()

            appending = asyncio.create_task(append())
            while not appending.done():
                await opened.trim()
                see()
                await asyncio.sleep(0)
            await appending
            await opened.trim()
            see()
            gone = [event.ledger_id for event in events.of(RemovingLedger)]
            assert gone == sorted(gone)
            assert set(gone) <= set(range(made[0], made[-len(opened.ledgers)]))
            assert len(gone) > 10
            name = opened.name
        await assert_nothing_orphaned(field_url, name)

    run(main())


def test_a_consumed_ledger_is_deleted_without_traffic(field_url, topic):
    """pulsar-9057, pulsar-9136: cursors stayed at the last entry of the closed ledger, which was therefore kept."""

    async def main():
        events = Events()
        config = replace(CONFIG, maximum_rollover_time_ms=1_000, retention_time_ms=1_000, retention_size_in_mb=-1)
        async with mledger.open_cluster(field_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            (position,) = await fill(opened, 1)
            await cursor.acknowledge([position])
            while not events.of(RemovingLedger):
                await events.next(RemovingLedger)
            assert events.of(RemovingLedger)[0].ledger_id == position.ledger_id
            assert cursor.durable_mark_delete.ledger_id > position.ledger_id

    run(main())


def test_the_first_append_does_not_wait_for_cursors(bookies, topic):
    """pulsar-7858: opening a topic waited for the slowest of its cursors, and nobody could publish."""
    bookies.start(4)
    url = bookies.metadata_url
    config = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)

    async def main():
        events = Events()
        patient = ClientConfig(read_timeout_s=HANG_S)
        async with mledger.open_cluster(url, config=config, client=patient) as cluster:
            opened = await cluster.create_topic(topic)
            (position, *_) = await fill(opened, 5)
            home = (await cluster._bookkeeper.metadata(position.ledger_id)).ensemble[0]
            slow: list[str] = []
            while len(slow) < 3:
                cursor = await opened.open_cursor(f"sub-{len(opened.cursors)}")
                await cursor.acknowledge([position])
                where = (await cluster._bookkeeper.metadata(cursor.cursor_ledger)).ensemble[0]
                frozen = next(bookie for bookie in bookies if bookie.bookie_id != home)
                slow += [cursor.name] if where == frozen.bookie_id else []
            await opened.abandon()
            frozen.freeze()
            try:
                await unregister(cluster.metadata, frozen.bookie_id)  # as when its session ends
                cluster._bookkeeper._pool._registrations_at = float("-inf")
                opened = await cluster.open_topic(topic, take_over=True, events=events)
                await opened.append(payloads(3, 5))
                assert not events.of(Initialized)
                assert not {event.cursor for event in events.of(CursorRecovered)} & set(slow)
            finally:
                frozen.thaw()
            assert (await opened_in_the_end(opened, slow[0])).backlog == 7

    async def opened_in_the_end(opened, name):
        while True:
            try:
                return await opened.open_cursor(name)
            except mledger.CursorRecoveryFailed:
                await asyncio.sleep(0.1)

    run(main())
