"""The trimmer deletes consumed ledgers in order, durably and from the bookies, and truncates topics (R9, R10, M8)."""

import asyncio
import time
from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.cli.topics.drop_ledgers import without_ledgers
from mledger.cursors import container
from mledger.cursors.persistence import cursor_persistence as persistence
from mledger.cursors.persistence.ledger_state import CursorLedgerUnavailable
from mledger.events import EndTrim, LastConfirmedLedgerDeletion, RemovingLedger, ResetSinceConsumed
from mledger.ledgers import ledger_factory, topic_record, trim_plan
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.store import Put
from mledger.metastore.url import open_store
from mledger.topics import trimmer
from tests.support.aio import run
from tests.support.topics import (
    CONFIG,
    KEEP,
    Events,
    assert_nothing_orphaned,
    everything,
    fill,
    payloads,
)


def test_ledgers_below_the_slowest_cursor_are_deleted(topic_url, topic):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            slow, fast = await opened.open_cursor("slow"), await opened.open_cursor("fast")
            positions = await fill(opened, 35)
            await fast.clear_backlog()
            await slow.acknowledge_cumulative(positions[14])
            await opened.trim()
            assert [ledger.ledger_id for ledger in opened.ledgers] == sorted({p.ledger_id for p in positions[10:]})
            await slow.acknowledge_cumulative(positions[29])
            await opened.trim()
            assert opened.number_of_entries == 5
            assert slow.mark_delete == mledger.Position(positions[-1].ledger_id, -1)
            assert (slow.backlog, fast.backlog) == (5, 0)
            assert len(events.of(RemovingLedger)) == 3
            assert events.of(EndTrim)[-1].ledgers == 1
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_acknowledging_alone_causes_ledgers_to_be_deleted(topic_url, topic):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 25)
            trimmed = asyncio.ensure_future(events.next(EndTrim))
            await cursor.acknowledge(positions[:10])
            assert (await trimmed).ledgers == 2
            assert [event.new for event in events.of(ResetSinceConsumed)] == [(positions[10].ledger_id, -1)]

    run(main())


def test_a_closed_cursor_keeps_no_ledger_that_it_has_consumed(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 10)  # a full ledger, which the next entry closes
            await cursor.clear_backlog()
            await cursor.close()
            (last,) = await fill(opened, 1)
            plan = await opened.trim()
            assert plan.remaining_ledgers == 1
            assert {ledger.ledger_id for ledger in opened.ledgers} == {last.ledger_id}
            again = await opened.open_cursor("sub")
            assert (again.mark_delete, again.backlog) == (mledger.Position(last.ledger_id, -1), 1)
            assert last.ledger_id > positions[-1].ledger_id
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_cursor_that_is_being_closed_when_it_is_to_move_keeps_no_ledger(topic_url, topic):
    async def main():
        closing = []

        def close(step):
            if step == "move cursors":
                closing.append(asyncio.ensure_future(cursor.close()))

        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic, trim=False, on_step=close)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 11)
            await cursor.acknowledge_cumulative(positions[9])
            assert (await opened.trim()).remaining_ledgers == 1
            await asyncio.gather(*closing)

    run(main())


def test_ledgers_stay_while_a_reset_to_them_that_failed_may_be_stored(topic_url, topic, monkeypatch):
    monkeypatch.setattr(persistence, "RETRY_FIRST_S", 0.01)
    for module in (topic_record, ledger_factory):
        monkeypatch.setattr(module, "RETRY_DELAYS_S", ())

    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster, await open_store(topic_url) as store:
            opened = await cluster.create_topic(topic, trim=False)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 35)
            await cursor.clear_backlog()
            multi, path = cluster.metadata.multi, managed_ledger_path(opened.name)

            async def only_the_list(operations):
                if any(isinstance(operation, Put) and operation.path == path for operation in operations):
                    return await multi(operations)
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(cluster.metadata, "multi", only_the_list)
            fencing = BookKeeper(store)
            await fencing.open_ledger(cursor.cursor_ledger)  # nothing can be written to it any more
            await fencing.close()
            with pytest.raises(StoreUnavailable):
                await cursor.reset("earliest")
            assert cursor.durable_mark_delete == positions[-1]
            assert (await opened.trim()).deletions == ()
            monkeypatch.setattr(cluster.metadata, "multi", multi)
            while cursor.is_failing:
                await asyncio.sleep(0.01)
            assert len((await opened.trim()).deletions) == 3

    run(main())


def test_retention_keeps_consumed_ledgers_for_its_time_without_traffic(topic_url, topic):
    async def main():
        events, gone_ms = Events(), {}
        config = replace(CONFIG, retention_time_ms=1500, retention_size_in_mb=-1)

        def note(event):
            if isinstance(event, RemovingLedger):
                gone_ms[event.ledger_id] = time.time() * 1000
            events(event)

        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=note)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 25)
            closed_ms = {ledger.ledger_id: ledger.timestamp for ledger in opened.ledgers if ledger.timestamp}
            await cursor.clear_backlog()
            while len(events.of(RemovingLedger)) < 2:
                await events.next(RemovingLedger)
            assert len(opened.ledgers) == 1
            assert all(gone_ms[ledger] - closed >= config.retention_time_ms for ledger, closed in closed_ms.items())
            assert gone_ms.keys() == closed_ms.keys()

    run(main())


def test_nothing_is_trimmed_that_retention_keeps(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 25)
            await cursor.clear_backlog()
            plan = await opened.trim()
            assert plan.deletions == ()
            assert "retention" in plan.kept_because
            assert await everything(opened) == payloads(25)

    run(main())


def test_of_many_ledgers_that_retention_keeps_a_trim_looks_at_few(topic_url, topic, monkeypatch):
    looked_at, kept = [], trim_plan._kept

    def noted(info, *others):
        looked_at.append(info.ledger_id)
        return kept(info, *others)

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 300)
            await cursor.clear_backlog()
            await opened.trim()
            monkeypatch.setattr(trim_plan, "_kept", noted)
            await opened.trim()
            assert 0 < len(looked_at) < 10
            assert len(opened.ledgers) >= 30

    run(main())


def test_of_many_ledgers_few_are_tried_while_the_store_does_not_answer(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            cursor, tried, delete = await opened.open_cursor("sub"), [], LedgerFactory.delete
            monkeypatch.setattr(trimmer, "DELETED_AT_ONCE", 3)

            async def unanswered(self, ledger_id):
                tried.append(ledger_id)
                raise StoreUnavailable("nobody answers")

            monkeypatch.setattr(LedgerFactory, "delete", unanswered)
            await fill(opened, 395)
            await cursor.clear_backlog()
            await opened.trim()
            assert 0 < len(tried) < 39  # three at each trim
            monkeypatch.setattr(LedgerFactory, "delete", delete)
            await opened.trim()
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_trim_does_what_its_plan_said(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 25)
            await cursor.acknowledge_cumulative(positions[14])
            plan = opened.plan_trim()
            assert [ledger.ledger_id for ledger in plan.deletions] == [positions[0].ledger_id]
            await opened.trim()
            assert [ledger.ledger_id for ledger in opened.ledgers] == [each.ledger_id for each in plan.remaining]
            assert opened.total_size == plan.remaining_size

    run(main())


def test_a_consumed_topic_loses_its_last_ledger_at_open_after_the_cursor_moved_durably(topic_url, topic):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 5)
            await cursor.clear_backlog()
            await opened.close()
            again = await cluster.open_topic(topic, events=events)
            await again.initialized()
            new = mledger.Position(again.ledgers[-1].ledger_id, -1)
            kinds = [type(event) for event in events.seen]
            assert kinds.index(ResetSinceConsumed) < kinds.index(LastConfirmedLedgerDeletion) < kinds.index(EndTrim)
            assert [event.ledger_id for event in events.of(RemovingLedger)] == [positions[0].ledger_id]
            await again.abandon()
            third = await cluster.open_topic(topic)
            assert (await third.open_cursor("sub")).durable_mark_delete.ledger_id >= new.ledger_id
            name = third.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_truncate_leaves_the_current_ledger_and_no_backlog(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursors = [await opened.open_cursor(name) for name in ("one", "two")]
            await fill(opened, 25)
            await opened.truncate()
            assert [ledger.entries for ledger in opened.ledgers] == [5]
            assert [cursor.backlog for cursor in cursors] == [0, 0]
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


class AskedForLock(asyncio.Lock):
    """A lock that signals when somebody wants it."""

    def __init__(self):
        super().__init__()
        self.asked_for = asyncio.Event()

    async def acquire(self):
        self.asked_for.set()
        return await super().acquire()


def test_truncate_keeps_entries_appended_after_the_backlogs_were_cleared(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 25)
            await cursor.clear_backlog()
            await opened.trim()
            lock = opened.trim_lock = AskedForLock()
            async with lock:
                lock.asked_for.clear()
                truncation = asyncio.ensure_future(opened.truncate())
                await lock.asked_for.wait()
                await fill(opened, 30, 25)
            await truncation
            assert cursor.backlog == 30
            assert [entry.payload for entry in await cursor.read(100)] == payloads(30, 25)

    run(main())


def test_truncate_acknowledges_nothing_that_is_appended_while_cursors_are_recovered(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            await fill(opened, 25)
            usable = container.CursorContainer.usable

            async def late(*arguments):
                cursor = await usable(*arguments)
                await fill(opened, 3, int(opened.number_of_entries))
                return cursor

            with monkeypatch.context() as patched:
                patched.setattr(container.CursorContainer, "usable", late)
                await opened.truncate()
            cursor = await opened.open_cursor("sub")
            assert cursor.backlog == 6
            assert [entry.payload for entry in await cursor.read(100)] == payloads(6, 25)

    run(main())


def test_a_cursor_that_was_reset_before_truncate_deletes_ledgers_forgets_what_is_acknowledged_in_them(topic_url, topic):
    async def main():
        steps: dict[str, list] = {}

        def on_step(name):
            for position in steps.pop(name, []):
                cursor.acknowledge([position])

        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, on_step=on_step)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 25)
            lock = opened.trim_lock = AskedForLock()
            async with lock:
                lock.asked_for.clear()
                reset = asyncio.ensure_future(cursor.reset("earliest"))
                await lock.asked_for.wait()
                lock.asked_for.clear()
                truncation = asyncio.ensure_future(opened.truncate())
                await lock.asked_for.wait()
                steps["drop ledgers"] = [positions[1], positions[24]]
            await asyncio.gather(reset, truncation)
            assert (cursor.mark_delete, cursor.backlog) == (mledger.Position(positions[24].ledger_id, -1), 4)
            assert [entry.payload for entry in await cursor.read(100)] == payloads(4, 20)

    run(main())


def test_what_was_consumed_behind_a_ledger_that_was_dropped_is_deleted_without_traffic(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            await opened.roll_over()
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:10] + positions[20:])
            await opened.close()
            async with await open_store(topic_url) as store:
                path = managed_ledger_path(opened.name)
                node = await store.get(path)
                info = without_ledgers(
                    decode_managed_ledger_info(node.data, path).value, frozenset({positions[10].ledger_id})
                )
                await store.put(path, encode_managed_ledger_info(info), node.version)
            again = await cluster.open_topic(topic, config=CONFIG)
            for _ in range(2):  # the cursor leaves one ledger at a time
                await again.trim()
            assert [ledger.entries for ledger in again.ledgers] == [0]
            cursor = await again.open_cursor("sub", create=False)
            assert (cursor.backlog, cursor.mark_delete) == (0, again.last_confirmed)

    run(main())


def test_two_cursors_whose_names_are_spelled_differently_both_keep_their_ledgers(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("a b")
            path = managed_ledger_path(opened.name)
            await opened.close()
            other = await cluster.metadata.get(f"{path}/a+b")
            await cluster.metadata.create(f"{path}/a%20b", other.data)
            opened = await cluster.open_topic(topic)
            assert opened.cursors == ["a b", "a%20b"]
            await fill(opened, 25)
            await (await opened.open_cursor("a b")).clear_backlog()
            assert not (await opened.trim()).deletions
            assert opened.number_of_entries == 25

    run(main())


def test_a_truncation_deletes_nothing_while_a_cursor_cannot_be_recovered(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            known, unknown = await opened.open_cursor("known"), await opened.open_cursor("unknown")
            positions = await fill(opened, 25)
            await unknown.acknowledge([positions[3]])
            await opened.abandon()
            away = CursorLedgerUnavailable(unknown.cursor_ledger, "bookies are away")
            with monkeypatch.context() as patched:
                patched.setattr(container, "find_state", lambda *_: asyncio.sleep(0, away))
                opened = await cluster.open_topic(topic)
                with pytest.raises(mledger.CursorRecoveryFailed, match="bookies are away"):
                    await opened.truncate()
                known = await opened.open_cursor("known")
                assert (known.backlog, opened.number_of_entries) == (25, 25)
            await opened.truncate()
            assert opened.number_of_entries == 0
            assert (await opened.open_cursor("unknown")).backlog == 0

    run(main())
