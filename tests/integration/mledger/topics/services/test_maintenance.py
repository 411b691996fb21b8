"""What a topic does by the clock alone: rollover by age and idleness, retention (M4, R10). The test sets the clock."""

import asyncio
from dataclasses import replace

import mledger
from mledger.events import CurrentLedgerClosed, LedgerCreated, RemovingLedger
from mledger.metastore.errors import StoreUnavailable
from tests.support.aio import run
from tests.support.clock import HOUR_MS, MINUTE_MS, SECOND_MS, Clock
from tests.support.topics import CONFIG, KEEP, Events, assert_nothing_orphaned, everything, fill, payloads

LATE = 1.06
"""A ledger without traffic is rolled over up to a twentieth of its age limit late."""


def test_age_rolls_over_a_ledger_without_traffic(topic_url, topic):
    async def main():
        clock, events = Clock(), Events()
        config = replace(KEEP, maximum_rollover_time_ms=HOUR_MS)
        async with mledger.open_cluster(topic_url, config=config, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            await opened.add(b"alone")
            clock.ms += HOUR_MS - 1
            assert cluster.run_due() == 0
            clock.ms += int((LATE - 1) * HOUR_MS)
            following = asyncio.ensure_future(events.next(LedgerCreated))
            assert cluster.run_due() == 1
            await following
            assert [(ledger.entries, ledger.timestamp) for ledger in opened.ledgers] == [(1, clock.ms), (0, 0)]
            assert await everything(opened) == [b"alone"]

    run(main())


def test_an_empty_ledger_never_expires_but_its_first_entry_fills_it(topic_url, topic):
    async def main():
        clock, events = Clock(), Events()
        config = replace(KEEP, maximum_rollover_time_ms=HOUR_MS)
        async with mledger.open_cluster(topic_url, config=config, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            first = opened.ledgers[0].ledger_id
            for _ in range(3):
                clock.ms += 2 * HOUR_MS
                assert cluster.run_due() == 1
            assert [ledger.ledger_id for ledger in opened.ledgers] == [first]
            following = asyncio.ensure_future(events.next(LedgerCreated))
            await opened.add(b"late")
            await following
            assert [ledger.entries for ledger in opened.ledgers] == [1, 0]

    run(main())


def test_a_consumed_topic_without_traffic_keeps_only_its_current_ledger(topic_url, topic):
    async def main():
        clock, events = Clock(), Events()
        config = replace(CONFIG, maximum_rollover_time_ms=HOUR_MS)
        async with mledger.open_cluster(topic_url, config=config, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 5)
            await cursor.clear_backlog()
            removed = asyncio.ensure_future(events.next(RemovingLedger))
            clock.ms += int(LATE * HOUR_MS)
            cluster.run_due()
            assert (await removed).ledger_id == positions[0].ledger_id
            assert [ledger.entries for ledger in opened.ledgers] == [0]
            assert cursor.durable_mark_delete == mledger.Position(opened.ledgers[0].ledger_id, -1)
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_an_idle_ledger_is_rolled_over_after_a_long_time_without_appends(topic_url, topic):
    async def main():
        clock, events = Clock(), Events()
        config = replace(KEEP, inactive_ledger_roll_over_time_ms=10 * MINUTE_MS)
        async with mledger.open_cluster(topic_url, config=config, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            for number in range(5):
                await opened.add(b"%d" % number)
                clock.ms += 9 * MINUTE_MS
                cluster.run_due()
            assert [ledger.entries for ledger in opened.ledgers] == [5]
            following = asyncio.ensure_future(events.next(LedgerCreated))
            clock.ms += 10 * MINUTE_MS
            cluster.run_due()
            await following
            assert [ledger.entries for ledger in opened.ledgers] == [5, 0]
            clock.ms += HOUR_MS
            cluster.run_due()
            assert [ledger.entries for ledger in opened.ledgers] == [5, 0]

    run(main())


def test_retention_by_time_ends_without_traffic(topic_url, topic):
    async def main():
        clock, events = Clock(), Events()
        config = replace(CONFIG, retention_time_ms=HOUR_MS, retention_size_in_mb=-1)
        async with mledger.open_cluster(topic_url, config=config, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 15)
            clock.ms += 10 * MINUTE_MS
            await fill(opened, 10, 15)
            await cursor.clear_backlog()
            assert (await opened.trim()).deletions == ()
            for entries_left, minutes in ((25, 49), (15, 2), (15, 8), (5, 2)):
                clock.ms += minutes * MINUTE_MS
                gone = asyncio.ensure_future(events.next(RemovingLedger))
                rang = cluster.run_due()
                if opened.number_of_entries != entries_left:
                    assert rang == 1
                    await gone
                while opened._trimmer._running:  # until it has decided when to trim next
                    await asyncio.sleep(0)
                gone.cancel()
                assert opened.number_of_entries == entries_left
            assert await everything(opened) == payloads(5, 20)

    run(main())


def test_retention_by_size_keeps_the_newest_consumed_ledgers(topic_url, topic):
    async def main():
        config = replace(CONFIG, retention_time_ms=-1, retention_size_in_mb=1, max_entries_per_ledger=2)
        async with mledger.open_cluster(topic_url, config=config, now_ms=Clock()) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            for _ in range(7):
                await opened.append([bytes(300_000)])
            assert opened.total_size == 2_100_000
            await cursor.clear_backlog()
            await opened.trim()
            assert opened.total_size == 1_500_000  # without the next ledger, less than a MiB would be left
            assert opened.ledgers[0].entries == 2

    run(main())


def test_what_is_due_is_done_in_all_of_many_topics(topic_url, topic):
    async def main():
        clock, events = Clock(), Events()
        config = replace(KEEP, maximum_rollover_time_ms=HOUR_MS)
        async with mledger.open_cluster(topic_url, config=config, now_ms=clock) as cluster:
            names = [f"{topic}-{number}" for number in range(40)]
            found = await cluster.open_topics(names, create=True, events=events)
            await asyncio.gather(*(opened.add(b"entry") for opened in found.topics.values()))
            clock.ms += int(LATE * HOUR_MS)
            created = len(events.of(LedgerCreated))
            assert cluster.run_due() == len(names)
            while len(events.of(LedgerCreated)) < created + len(names):
                await events.next(LedgerCreated)
            assert len(events.of(CurrentLedgerClosed)) == len(names)
            assert all([ledger.entries for ledger in each.ledgers] == [1, 0] for each in found.topics.values())

    run(main())


def test_a_clock_that_steps_back_delays_and_loses_nothing(topic_url, topic):
    async def main():
        clock, events = Clock(), Events()
        config = replace(CONFIG, maximum_rollover_time_ms=HOUR_MS, retention_time_ms=HOUR_MS, retention_size_in_mb=-1)
        async with mledger.open_cluster(topic_url, config=config, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 15)
            await cursor.clear_backlog()
            clock.ms -= 24 * HOUR_MS
            assert cluster.run_due() == 0
            await fill(opened, 3, 15)
            assert (await opened.trim()).deletions == ()
            assert await everything(opened) == payloads(18)
            clock.ms += 26 * HOUR_MS
            gone = asyncio.ensure_future(events.next(RemovingLedger))
            cluster.run_due()
            await gone
            await cursor.clear_backlog()
            assert cursor.backlog == 0

    run(main())


def test_a_failed_trim_is_retried_by_the_clock(topic_url, topic, monkeypatch):
    async def main():
        clock, events = Clock(), Events()
        async with mledger.open_cluster(topic_url, config=CONFIG, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 15)
            await opened.initialized()
            deleted, refuse = cluster._bookkeeper.delete_ledger, asyncio.Event()

            async def refused(ledger_id):
                refuse.set()
                raise StoreUnavailable(f"ledger {ledger_id}: not now")

            monkeypatch.setattr(cluster._bookkeeper, "delete_ledger", refused)
            await cursor.clear_backlog()
            await refuse.wait()
            await opened.trim()
            monkeypatch.setattr(cluster._bookkeeper, "delete_ledger", deleted)
            clock.ms += 61 * SECOND_MS
            assert cluster.run_due() == 1
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())
