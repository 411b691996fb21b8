"""Cancelled callers, abandoned topics and two calls at once: no caller is left waiting, and nothing piles up."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.errors import BookieUnavailable, EntryTooLarge
from mledger.metastore.records.paths import owner_path
from tests.support.aio import run
from tests.support.topics import KEEP, assert_nothing_orphaned, everything, fill, payloads


def test_two_terminations_and_a_close_at_once_give_one_end(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            appended = opened.append(payloads(5))
            ends = await asyncio.gather(opened.terminate(), opened.terminate())
            last = (await appended)[-1]
            assert ends == [mledger.Position(last.ledger_id, last.last_entry)] * 2

            other = await cluster.create_topic(f"{topic}-other")
            appended = other.append(payloads(5))
            terminated = asyncio.ensure_future(other.terminate())
            await asyncio.sleep(0)  # it has begun
            await asyncio.gather(other.close(), other.close())
            assert await terminated == (await appended)[-1].positions()[-1]
        for name in (opened.name, other.name):
            await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_cancelled_termination_continues(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            appended = opened.append(payloads(5))
            waiting = asyncio.ensure_future(opened.terminate())
            await asyncio.sleep(0)
            waiting.cancel()
            last = (await appended)[-1].positions()[-1]
            assert await opened.terminate() == last
            assert opened.state is mledger.TopicState.TERMINATED

    run(main())


def test_a_cancelled_close_continues_and_the_next_call_waits_for_it(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            acknowledged = cursor.acknowledge(positions[:4])
            waiting = asyncio.ensure_future(opened.close())
            await asyncio.sleep(0)
            waiting.cancel()
            await opened.close()
            await acknowledged
            again = await cluster.open_topic(topic, take_over=False)
            assert (await again.open_cursor("sub")).mark_delete == positions[3]
            name = again.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_no_call_waits_for_ever_on_an_abandoned_topic_and_nothing_more_is_written(topic_url, topic):
    async def main():
        config = replace(KEEP, throttle_mark_delete=0.01)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor, reading = await opened.open_cursor("sub"), await opened.open_cursor("reading", initial="latest")
            await cursor.acknowledge(positions[:2])
            parked = asyncio.ensure_future(reading.read_or_wait(10))
            throttled = cursor.acknowledge(positions[:4])
            appended = opened.append(payloads(5, 9))
            await opened.abandon()
            for waiting in (parked, throttled, appended):
                with pytest.raises(mledger.ManagedLedgerClosed):
                    await waiting
            for late in (lambda: cursor.acknowledge(positions[:6]), lambda: opened.append([b"late"])):
                with pytest.raises(mledger.ManagedLedgerClosed):
                    late()
            again = await cluster.open_topic(topic)
            assert (await again.open_cursor("sub")).mark_delete == positions[1]
            assert (await everything(again))[:9] == payloads(9)

    run(main())


def test_a_cancelled_abandonment_continues_and_a_close_waits_for_it(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await (await cluster.create_topic(topic)).close()
            for turns in range(25):
                opened = await cluster.open_topic(topic)
                appended = [opened.append(payloads(11)) for _ in range(3)]  # more than a ledger takes: some wait
                abandoning = asyncio.ensure_future(opened.abandon())
                for _ in range(turns):
                    await asyncio.sleep(0)
                abandoning.cancel()
                await asyncio.wait(appended)
                await opened.close()
                assert await cluster.metadata.exists(owner_path(opened.name)) is None

    run(main())


def test_a_cursor_whose_topic_is_abandoned_while_it_is_closed_says_so(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            cursor.acknowledge(positions[:4])
            closing = asyncio.ensure_future(cursor.close())
            await asyncio.sleep(0)  # it has begun
            await opened.abandon()
            with pytest.raises(mledger.ManagedLedgerClosed, match="abandoned"):
                await closing

    run(main())


def test_a_read_that_fails_on_a_topic_abandoned_meanwhile_says_that_it_is_closed(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 9)
            cursor = await opened.open_cursor("sub", initial="earliest")
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def failing(*_):
                begun.set()
                await go_on.wait()
                raise BookieUnavailable("the ledger is not closed and may have more entries")

            monkeypatch.setattr(opened.reader, "read_runs", failing)
            reading = asyncio.ensure_future(cursor.read(10))
            await begun.wait()
            await opened.abandon()
            go_on.set()
            with pytest.raises(mledger.ManagedLedgerClosed):
                await reading

    run(main())


def test_cancelled_reads_leave_nothing_behind(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            for _ in range(30):
                parked = asyncio.ensure_future(cursor.read_or_wait(10))
                while not opened._arrivals:
                    await asyncio.sleep(0)
                parked.cancel()
                await asyncio.wait([parked])
                await asyncio.sleep(0)
            assert not opened._arrivals

    run(main())


def test_entries_in_flight_when_a_topic_is_fenced_fail_and_their_answers_do_no_harm(topic_url, topic):
    async def main():
        troubles = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 3)
            ledger = opened._current_ledger()
            appended = [opened.append(payloads(1, 3 + number)) for number in range(5)]
            opened._record.end_session()
            for waiting in appended:
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await waiting
            while ledger.writer.last_add_confirmed < ledger.pushed - 1:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            assert troubles == []

    run(main())


def test_an_earlier_owner_of_a_terminated_topic_is_fenced_too(topic_url, topic):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as one,
            mledger.open_cluster(topic_url, config=KEEP) as two,
        ):
            created = await one.create_topic(topic)
            positions = await fill(created, 6)
            await created.open_cursor("sub")
            await created.terminate()
            await created.close()

            first = await one.open_topic(topic, take_over=True)
            earlier = await first.open_cursor("sub")
            second = await two.open_topic(topic, take_over=True)
            later = await second.open_cursor("sub")
            with pytest.raises(mledger.ManagedLedgerFenced):
                await earlier.acknowledge(positions[:1])
            await later.acknowledge(positions[:2])
            assert later.mark_delete == later.durable_mark_delete == positions[1]
            name = second.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_an_entry_that_fits_no_frame_is_refused_before_anything_waits(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, client=ClientConfig(max_frame=10_000)) as cluster:
            opened = await cluster.create_topic(topic)
            appended = opened.append(payloads(9))
            switching = asyncio.ensure_future(opened.roll_over())
            await asyncio.sleep(0)
            with pytest.raises(EntryTooLarge, match="limit"):
                opened.append([b"small", bytes(20_000)])
            await asyncio.gather(appended, switching, opened.append([b"next"]))
            assert await everything(opened) == [*payloads(9), b"next"]

    run(main())


def test_an_opening_cancelled_at_any_point_leaves_no_owner_behind(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 9)
            await opened.close()
            given_up = 0
            for turns in (1, 2, *(2**power // 3 for power in range(4, 16))):
                opening = asyncio.ensure_future(cluster.open_topic(topic))
                for _ in range(turns):
                    await asyncio.sleep(0)
                opening.cancel()
                await asyncio.wait([opening])
                if opening.cancelled():
                    given_up += 1
                    assert await cluster.metadata.exists(owner_path(opened.name)) is None
                else:
                    await opening.result().close()
            assert given_up > 1
            again = await cluster.open_topic(topic, take_over=False)
            assert await everything(again) == payloads(9)
            name = again.name
            await again.initialized()
        await assert_nothing_orphaned(topic_url, name)

    run(main())


@pytest.mark.parametrize("ended", ["abandoned", "fenced and closed"])
def test_a_caller_that_waits_for_a_topic_learns_of_its_end_and_is_not_cancelled(topic_url, topic, ended):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge((await fill(opened, 9))[3:4])  # its state is in a cursor ledger
            await opened.abandon()
            again = await cluster.open_topic(topic)
            works = (again.initialized(), again.open_cursor("sub"), again.terminate())
            waiting = [asyncio.ensure_future(each) for each in works]
            await asyncio.sleep(0)
            if ended == "abandoned":
                await again.abandon()
            else:
                again._record.fence("a test says so")
                await again.close()
            for each in waiting:
                with pytest.raises((mledger.ManagedLedgerClosed, mledger.ManagedLedgerFenced)):
                    await each

    run(main())
