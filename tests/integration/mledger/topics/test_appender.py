"""Appending through a topic: order, rollover, and continuing after a fence or failed bookies (M4, M5)."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import EntryTooLarge, NotEnoughBookies
from mledger.events import CurrentLedgerClosed, LedgerCreated
from mledger.metastore.errors import NodeTooLarge, StoreUnavailable
from mledger.metastore.records.position import Position
from mledger.metastore.store import MAX_REQUEST_BYTES
from mledger.metastore.url import open_store
from mledger.topics import appender
from tests.support.aio import run
from tests.support.recordings.policies import put_namespace_policies
from tests.support.topics import CONFIG, KEEP, Events, FailsAt, assert_nothing_orphaned, everything, fill, payloads


def test_entries_are_read_back_as_appended(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            assert await opened.add(b"first") == opened.last_confirmed
            await fill(opened, 5)
            assert await everything(opened) == [b"first", *payloads(5)]
            assert (opened.number_of_entries, opened.total_size) == (6, 5 + 5 * 12)

    run(main())


def test_a_batch_is_split_where_the_ledger_is_full(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            ranges = await opened.append(payloads(25))
            assert [len(where) for where in ranges] == [10, 10, 5]
            assert [ledger.entries for ledger in opened.ledgers] == [10, 10, 5]
            assert await everything(opened) == payloads(25)

    run(main())


def test_batches_appended_without_waiting_keep_their_order_over_rollovers(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            futures = [opened.append(payloads(7, 7 * number)) for number in range(30)]
            ranges = [where for future in futures for where in await future]
            positions = [position for where in ranges for position in where.positions()]
            assert positions == sorted(positions)
            assert await everything(opened) == payloads(210)
            assert all(ledger.entries <= 10 for ledger in opened.ledgers)

    run(main())


def test_a_batch_that_waits_for_a_ledger_is_stored_as_it_was_given(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            entry, batch = bytearray(payloads(1, 10)[0]), payloads(2, 11)
            appended = [opened.append(each) for each in (payloads(10), [entry], batch)]
            entry[:] = b"used again"
            batch.clear()
            await asyncio.gather(*appended)
            assert await everything(opened) == payloads(13)

    run(main())


def test_a_full_ledger_is_closed_and_the_next_listed_in_one_update(topic_url, topic):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            before = (await cluster.inspector.topic(topic)).version
            following = asyncio.ensure_future(events.next(LedgerCreated))
            await fill(opened, 10)
            await following
            after = await cluster.inspector.topic(topic)
            assert after.version == before + 1
            assert [ledger.entries for ledger in after.ledgers] == [10, 0]
            assert [(event.entries, event.size) for event in events.of(CurrentLedgerClosed)] == [(10, 120)]

    run(main())


def test_age_rolls_over_a_ledger_without_traffic(topic_url, topic):
    async def main():
        events = Events()
        config = replace(KEEP, maximum_rollover_time_ms=200)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            following = asyncio.ensure_future(events.next(LedgerCreated))
            await opened.add(b"alone")
            await following
            assert [ledger.entries for ledger in opened.ledgers] == [1, 0]

    run(main())


def test_size_rolls_over_a_ledger(topic_url, topic):
    async def main():
        events = Events()
        config = replace(KEEP, max_entries_per_ledger=1000, max_size_per_ledger_mb=1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            following = asyncio.ensure_future(events.next(LedgerCreated))
            await asyncio.gather(*(opened.append([bytes(600_000)]) for _ in range(2)))
            await following
            assert [ledger.entries for ledger in opened.ledgers] == [2, 0]
            assert opened.total_size == 1_200_000

    run(main())


def test_no_ledger_is_rolled_over_before_its_minimum_time(topic_url, topic):
    async def main():
        config = replace(KEEP, minimum_rollover_time_ms=3_600_000)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            await asyncio.gather(*(opened.append(payloads(7, 7 * number)) for number in range(5)))
            assert [ledger.entries for ledger in opened.ledgers] == [35]

    run(main())


def test_a_full_ledger_is_written_on_while_no_other_can_be_created(bookies, topic):
    bookies.start(3)

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 9)
            bookies.kill(0)
            for number in range(8):
                await opened.append(payloads(3, 9 + 3 * number))
            assert await everything(opened) == payloads(33)
            assert opened.ledgers[0].entries > KEEP.max_entries_per_ledger

    run(main())


def test_writing_continues_in_the_next_ledger_when_the_current_one_is_fenced(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=replace(KEEP, max_entries_per_ledger=1000)) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 4)
            fenced = opened.ledgers[-1].ledger_id
            async with await open_store(topic_url) as store:
                other = BookKeeper(store)
                assert (await other.open_ledger(fenced)).last_entry == 3
                await other.close()
            futures = [opened.append(payloads(3, 4 + 3 * number)) for number in range(20)]
            await asyncio.gather(*futures)
            assert await everything(opened) == payloads(64)
            assert [ledger.entries for ledger in opened.ledgers] == [4, 60]
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_fence_during_pipelined_writes_neither_loses_nor_repeats_an_entry(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=replace(KEEP, max_entries_per_ledger=100_000)) as cluster:
            opened = await cluster.create_topic(topic)
            async with await open_store(topic_url) as store:
                other = BookKeeper(store)
                futures = []
                for number in range(120):
                    futures.append(opened.append(payloads(20, 20 * number)))
                    if number % 40 == 20:
                        fencing = asyncio.ensure_future(other.open_ledger(opened.ledgers[-1].ledger_id))
                    await asyncio.sleep(0)
                    if number % 40 == 30:
                        await fencing
                ranges = [where for future in futures for where in await future]
                await other.close()
            positions = [position for where in ranges for position in where.positions()]
            assert positions == sorted(set(positions))
            assert await everything(opened) == payloads(2400)
            assert len(opened.ledgers) > 1

    run(main())


def test_a_ledger_deleted_by_another_is_followed_by_a_new_one(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 4)
            async with await open_store(topic_url) as store:
                other = BookKeeper(store)
                await other.delete_ledger(opened.ledgers[-1].ledger_id)
                await other.close()
            ranges = await opened.append(payloads(12, 4))
            assert [len(where) for where in ranges] == [6, 6]
            assert [ledger.entries for ledger in opened.ledgers] == [10, 6]

    run(main())


def test_an_entry_over_the_limit_is_refused_and_nothing_is_written(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=replace(KEEP, max_message_size=100)) as cluster:
            opened = await cluster.create_topic(topic)
            with pytest.raises(EntryTooLarge):
                opened.append([b"small", bytes(101)])
            assert opened.number_of_entries == 0
            with pytest.raises(ValueError, match="empty batch"):
                opened.append([])

    run(main())


def test_what_is_not_bytes_is_refused_and_does_not_hold_up_the_batches_of_others(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            full = opened.append(payloads(10))
            with pytest.raises(TypeError, match="an entry is bytes, not str"):
                opened.append(["text"])  # would wait for the next ledger, and fail there
            others = opened.append(payloads(3, 10))
            await asyncio.wait_for(asyncio.gather(full, others), 60)
            assert await everything(opened) == payloads(13)

    run(main())


def test_a_topic_without_bookies_fails_with_what_is_missing_and_continues_when_they_are_back(bookies, topic):
    bookies.start(3)

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 5)
            for number in range(3):
                bookies.kill(number)
            with pytest.raises(NotEnoughBookies):
                await opened.append(payloads(3, 5))
            for number in range(3):
                bookies.restart(number)
            await appended_in_the_end(opened, payloads(3, 5))
            assert (await everything(opened))[:5] == payloads(5)
            assert (await everything(opened))[-3:] == payloads(3, 5)
            await opened.close()

    async def appended_in_the_end(opened, batch):
        while True:
            try:
                return await opened.append(batch)
            except NotEnoughBookies:
                await asyncio.sleep(0.2)

    run(main())


def test_an_entry_that_no_bookie_accepts_fails_in_the_end_and_the_topic_continues(bookies, topic, monkeypatch):
    """Bookies whose frame limit is below the client's close the connection, so no ledger ever gets the entry."""
    bookies.start(3, "--max-frame", "65536")
    monkeypatch.setattr(appender, "EMPTY_LEDGER_DELAYS_S", (0.0,) * 7)

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 5)
            too_large, behind = opened.append([bytes(70_000)]), opened.append(payloads(3, 5))
            for refused in (too_large, behind):
                with pytest.raises(NotEnoughBookies, match="no bookie acknowledged an entry in 8 ledgers"):
                    await refused
            await fill(opened, 3, 5)
            assert await everything(opened) == payloads(8)
            assert [ledger.entries for ledger in opened.ledgers] == [5, 3]
            await opened.close()

    run(main())


def test_a_terminated_topic_accepts_no_more_and_stays_terminated(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 13)
            cursor = await opened.open_cursor("sub")
            assert await opened.terminate() == await opened.terminate() == positions[-1]
            with pytest.raises(mledger.TopicTerminated):
                opened.append([b"more"])
            assert len(await cursor.read_or_wait(100)) == 13
            with pytest.raises(mledger.TopicTerminated):
                await cursor.read_or_wait(1)
            await opened.close()
            again = await cluster.open_topic(topic)
            assert again.state is mledger.TopicState.TERMINATED
            assert again.last_confirmed == positions[-1]
            assert await everything(again) == payloads(13)
            with pytest.raises(mledger.TopicTerminated):
                again.append([b"more"])
            assert (await again.open_cursor("late", initial="latest")).backlog == 0

    run(main())


@pytest.mark.parametrize("step", ["close ledger", "list ledger"])
def test_a_store_that_once_answers_nothing_delays_and_loses_nothing(topic_url, topic, step):
    async def main():
        fail = FailsAt(step)
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=fail)
            await fill(opened, 5)
            fail.armed = True
            if step == "close ledger":
                with pytest.raises(StoreUnavailable):
                    await opened.terminate()
            else:
                ranges = await opened.append(payloads(5, 5))
                assert [len(where) for where in ranges] == [5]
                with pytest.raises(StoreUnavailable):
                    await opened.append([b"refused"])
            written = 5 if step == "close ledger" else 10
            await fill(opened, 12, written)
            assert await everything(opened) == payloads(written + 12)
            last = await opened.terminate()
            assert last == opened.last_confirmed
            name = opened.name
            await assert_nothing_orphaned(topic_url, name)
            await opened.close()
            again = await cluster.open_topic(topic)
            assert again.terminated == last
            assert await everything(again) == payloads(written + 12)
            await again.initialized()
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_list_without_room_for_one_more_leaves_no_ledger_over_at_each_append(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            path = mledger.TopicName.parse(topic).managed_ledger_path
            await fill(opened, 5)
            room = MAX_REQUEST_BYTES - len(path) - len((await cluster.metadata.get(path)).data)
            await opened.set_properties({"full": "x" * (room - 100)})  # takes it up, but for the rest of the request
            await fill(opened, 5, 5)
            for _ in range(3):
                with pytest.raises(NodeTooLarge):
                    await fill(opened, 1)
                await assert_nothing_orphaned(topic_url, opened.name)
            await opened.set_properties({})
            await fill(opened, 1, 10)
            assert await everything(opened) == payloads(11)
        await assert_nothing_orphaned(topic_url, opened.name)

    run(main())


def test_nothing_overtakes_what_failed_before_its_caller_knows_that(topic_url, topic):
    """A loop may take in more between a failure and the callbacks of what failed."""
    behind = []

    def fail(step):
        if step == "create ledger" and opened_now:
            behind.append(opened_now[0].append([b"waits"]))
        elif step == "list ledger" and behind:
            asyncio.get_running_loop().call_soon(lambda: behind.append(opened_now.pop().append([b"comes late"])))
            raise StoreUnavailable("made to fail by the test")

    opened_now = []

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=fail)
            opened_now.append(opened)
            await opened.append(payloads(10))
            while opened_now:
                await asyncio.sleep(0)
            for refused in behind:
                with pytest.raises(StoreUnavailable):
                    await refused
            assert len(behind) == 2
            behind.clear()
            await fill(opened, 3, 10)
            assert await everything(opened) == payloads(13)

    run(main())


def test_an_empty_topic_can_be_terminated(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            ledger_id = opened.ledgers[-1].ledger_id
            assert await opened.terminate() == Position(ledger_id, -1)
            await opened.close()
            again = await cluster.open_topic(topic)
            assert again.terminated == again.last_confirmed == Position(ledger_id, -1)

    run(main())


def test_empty_ledgers_of_earlier_owners_are_deleted_at_open(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            for _ in range(3):
                await opened.close()
                opened = await cluster.open_topic(topic)
                assert len(opened.ledgers) == 1
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_new_ledgers_have_the_quorums_of_earlier_ones_unless_settings_say_otherwise(topic_url, topic):
    async def quorums(opened):
        metadata = await opened._factory._bookkeeper.metadata(opened.ledgers[-1].ledger_id)
        return metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum

    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 1)
            made = await quorums(opened)
        async with mledger.open_cluster(topic_url) as cluster:
            opened = await cluster.open_topic(topic, trim=False)
            assert await quorums(opened) == made == (3, 3, 2)
            await opened.close()
            opened = await cluster.open_topic(topic, config=mledger.ManagedLedgerConfig(), trim=False)
            assert await quorums(opened) == (2, 2, 2)

    run(main())


def test_new_ledgers_have_the_quorums_of_the_namespace_s_policies(topic_url):
    async def main():
        policies = b'{"persistence":{"bookkeeperEnsemble":4,"bookkeeperWriteQuorum":3,"bookkeeperAckQuorum":2}}'
        async with await open_store(topic_url) as store:
            await put_namespace_policies(store, "public/quorums", policies)
        async with mledger.open_cluster(topic_url) as cluster:
            opened = await cluster.create_topic("persistent://public/quorums/t")
            metadata = await opened._factory._bookkeeper.metadata(opened.ledgers[-1].ledger_id)
            assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (4, 3, 2)

    run(main())
