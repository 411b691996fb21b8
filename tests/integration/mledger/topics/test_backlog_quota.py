"""Messages expire by time and position, and backlogs by quota, on an open topic."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.errors import NoSuchEntry
from mledger.cursors.persistence.store import CursorStore
from mledger.metastore.cluster.service_policies import BacklogQuota, QuotaKind, QuotaPolicy
from tests.support.aio import run
from tests.support.clock import SECOND_MS, Clock
from tests.support.pulsar_entries import pulsar_entry
from tests.support.topics import KEEP

ONE_LEDGER = replace(KEEP, max_entries_per_ledger=1000)
EVICT = QuotaPolicy.CONSUMER_BACKLOG_EVICTION


async def publish(opened, clock, count):
    """Append entries one second apart; returns their positions."""
    found = []
    for _ in range(count):
        found.append(await opened.add(pulsar_entry(clock.ms)))
        clock.ms += SECOND_MS
    return found


def test_entries_published_before_a_time_expire(topic_url, topic):
    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=ONE_LEDGER, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            began, positions = clock.ms, await publish(opened, clock, 20)
            await cursor.acknowledge([positions[2]])
            assert await cursor.expire_before(began) == 0
            assert await cursor.expire_before(began + 5 * SECOND_MS) == 4
            assert cursor.durable_mark_delete == positions[4]
            assert await cursor.expire_before(began + 5 * SECOND_MS) == 0
            assert await cursor.expire_before(clock.ms) == 15
            assert (cursor.backlog, cursor.mark_delete) == (0, positions[-1])

    run(main())


def test_an_expiry_of_what_is_acknowledged_already_waits_until_that_is_durable(topic_url, topic, monkeypatch):
    async def main():
        clock, go_on, write = Clock(), asyncio.Event(), CursorStore.write

        async def held(store, state):
            await go_on.wait()
            await write(store, state)

        async with mledger.open_cluster(topic_url, config=ONE_LEDGER, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await publish(opened, clock, 5)
            monkeypatch.setattr(CursorStore, "write", held)
            acknowledged = cursor.acknowledge(positions[:3])
            expiring = asyncio.ensure_future(cursor.expire_through(positions[2]))
            await asyncio.sleep(0)
            returned_early = expiring.done()
            go_on.set()
            assert (await expiring, returned_early) == (0, False)
            assert cursor.durable_mark_delete == positions[2]
            await acknowledged

    run(main())


def test_what_is_appended_while_an_expiry_becomes_durable_makes_it_no_smaller(topic_url, topic, monkeypatch):
    """Who is told of none goes on to hold what expired, and to be kept from more for that."""

    async def main():
        clock, go_on, write = Clock(), asyncio.Event(), CursorStore.write

        async def held(store, state):
            await go_on.wait()
            await write(store, state)

        async with mledger.open_cluster(topic_url, config=ONE_LEDGER, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await publish(opened, clock, 3)
            monkeypatch.setattr(CursorStore, "write", held)
            expiring = asyncio.ensure_future(cursor.expire_through(positions[1]))
            await asyncio.sleep(0)
            await publish(opened, clock, 5)
            go_on.set()
            assert (await expiring, cursor.backlog) == (2, 6)

    run(main())


def test_an_expiry_that_outlives_its_cursor_acknowledges_nothing(topic_url, topic, monkeypatch):
    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=ONE_LEDGER, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await publish(opened, clock, 5)
            reads, go_on, read = asyncio.Event(), asyncio.Event(), opened.reader.read

            async def held(*bounds):
                reads.set()
                await go_on.wait()
                return await read(*bounds)

            monkeypatch.setattr(opened.reader, "read", held)
            expiring = asyncio.ensure_future(cursor.expire_before(clock.ms))
            await reads.wait()
            await cursor.close()
            again = await opened.open_cursor("sub", create=False)
            await again.acknowledge([positions[1]])
            go_on.set()
            with pytest.raises(mledger.ManagedLedgerClosed):
                await expiring
            await again.acknowledge([positions[3]])
            assert (again.backlog, opened.state) == (3, mledger.TopicState.OPEN)

    run(main())


def test_closed_ledgers_expire_unread_even_with_entries_that_have_no_publish_time(topic_url, topic):
    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=KEEP, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await opened.append([b"not of a Pulsar broker"] * 10)
            await opened.roll_over()
            closed = clock.ms
            clock.ms += SECOND_MS
            await opened.append([b"not of a Pulsar broker"] * 3)
            assert await cursor.expire_before(closed) == 0
            assert await cursor.expire_before(clock.ms + 1000 * SECOND_MS) == 10

    run(main())


def test_entries_expire_up_to_a_position(topic_url, topic):
    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=ONE_LEDGER, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await publish(opened, clock, 10)
            assert await cursor.expire_through(mledger.Position(positions[-1].ledger_id, 10)) == 0
            assert await cursor.expire_through(positions[3]) == 4
            assert await cursor.expire_through(positions[1]) == 0
            assert (cursor.mark_delete, cursor.read_position) == (positions[3], positions[4])

    run(main())


def test_the_newest_entry_that_matches_is_found_among_all_or_the_unacknowledged(topic_url, topic):
    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=KEEP, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await publish(opened, clock, 35)
            await cursor.acknowledge_cumulative(positions[20])
            for wanted in (10, 30):
                found = await cursor.find_newest_matching(
                    lambda entry, last=positions[wanted]: entry.position <= last, unacknowledged=False
                )
                assert found == positions[wanted]
            assert await cursor.find_newest_matching(lambda entry: entry.position <= positions[10]) is None

    run(main())


def test_a_cursor_whose_state_cannot_be_written_yet_keeps_no_other_from_telling_what_it_gave_up(
    topic_url, topic, monkeypatch
):
    async def main():
        told, go_on, write = asyncio.Queue(), asyncio.Event(), CursorStore.write

        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            _, other = [await opened.open_cursor(name) for name in ("stuck", "other")]
            await opened.append([bytes(100)] * 40)

            async def held(store, state):
                if store.name == "stuck":
                    await go_on.wait()
                await write(store, state)

            monkeypatch.setattr(CursorStore, "write", held)
            quota = BacklogQuota(2000, -1, EVICT)
            evicting = asyncio.ensure_future(
                opened.backlog_quotas.evict(QuotaKind.SIZE, quota, 0, moved=told.put_nowait)
            )
            assert await told.get() == "other"
            assert (other.backlog, evicting.done()) == (18, False)
            go_on.set()
            assert (await evicting, told.get_nowait()) == (["stuck", "other"], "stuck")

    run(main())


def test_a_backlog_above_its_size_is_given_up_down_to_nine_tenths(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            slow, fast = await opened.open_cursor("slow"), await opened.open_cursor("fast")
            ranges = await opened.append([bytes(100)] * 40)
            positions = [position for where in ranges for position in where.positions()]
            await fast.acknowledge_cumulative(positions[29])
            quotas = opened.backlog_quotas
            assert (quotas.size, quotas.slowest.name, slow.backlog_size, fast.backlog_size) == (
                4000,
                "slow",
                4000,
                1000,
            )
            for limit, exceeded in ((-1, False), (4001, False), (4000, True), (0, True)):
                assert await quotas.is_exceeded(QuotaKind.SIZE, BacklogQuota(limit, -1, EVICT), 0) is exceeded
            assert await quotas.evict(QuotaKind.SIZE, BacklogQuota(2000, -1, EVICT), 0) == ["slow"]
            assert (slow.backlog, fast.backlog, quotas.size) == (18, 10, 1800)
            assert slow.durable_mark_delete == positions[21]
            for policy in (QuotaPolicy.PRODUCER_EXCEPTION, QuotaPolicy.PRODUCER_REQUEST_HOLD):
                assert await quotas.evict(QuotaKind.SIZE, BacklogQuota(100, -1, policy), 0) == []

    run(main())


@pytest.mark.parametrize(("precise", "left"), [(True, 6), (False, 12)])
def test_a_backlog_above_its_age_is_given_up(topic_url, topic, precise, left):
    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=KEEP, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await publish(opened, clock, 22)  # ledgers of ten
            await opened.roll_over()
            clock.ms += 1000
            quotas, quota = opened.backlog_quotas, BacklogQuota(-1, 8, EVICT)
            assert not await quotas.is_exceeded(QuotaKind.AGE, BacklogQuota(-1, 60, EVICT), clock.ms, precise=precise)
            assert not await quotas.is_exceeded(QuotaKind.AGE, BacklogQuota(), clock.ms, precise=precise)
            assert await quotas.is_exceeded(QuotaKind.AGE, quota, clock.ms, precise=precise)
            assert await quotas.evict(QuotaKind.AGE, quota, clock.ms, precise=precise) == ["sub"]
            assert cursor.backlog == left
            assert not await quotas.is_exceeded(QuotaKind.AGE, quota, clock.ms, precise=precise)

    run(main())


def test_a_backlog_whose_oldest_entry_cannot_be_read_is_as_old_as_the_ledger_of_that(
    topic_url, topic, monkeypatch, caplog
):
    async def lost(position):
        raise NoSuchEntry(f"no bookie has {position}")

    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=KEEP, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            await publish(opened, clock, 22)  # ledgers of ten
            monkeypatch.setattr(opened, "read_entry", lost)
            quotas = opened.backlog_quotas
            for limit_s, exceeded in ((5, True), (600, False)):
                quota = BacklogQuota(-1, limit_s, EVICT)
                assert await quotas.is_exceeded(QuotaKind.AGE, quota, clock.ms, precise=True) is exceeded
            assert caplog.text.count("backlog_age_not_read") == 1

    run(main())


@pytest.mark.parametrize("error", [mledger.ManagedLedgerFenced, mledger.ManagedLedgerClosed])
def test_the_age_of_a_backlog_is_not_guessed_once_the_topic_has_ended(topic_url, topic, monkeypatch, error):
    async def ended(position):
        raise error("another owner has it")

    async def main():
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=KEEP, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            await publish(opened, clock, 2)
            monkeypatch.setattr(opened, "read_entry", ended)
            quota = BacklogQuota(-1, 5, EVICT)
            with pytest.raises(error):
                await opened.backlog_quotas.is_exceeded(QuotaKind.AGE, quota, clock.ms, precise=True)

    run(main())
