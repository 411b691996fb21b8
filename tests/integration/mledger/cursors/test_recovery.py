"""Cursors after the death of their owner: where the state is found, what is lost, and the dry run (R1 to R9)."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

import mledger
from mledger.admin.references.ledger_audit import LedgerAuditor
from mledger.admin.repair.repair_plan import plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import NoSuchLedger
from mledger.events import CursorRecovered, CursorRecoveryDelayed, Initialized
from mledger.ledgers.orphans.pending_records import read_kept
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, encode_managed_cursor_info
from mledger.metastore.records.paths import cursor_path, deletion_path, managed_ledger_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedCursorInfo
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import (
    CONFIG,
    KEEP,
    Events,
    assert_nothing_orphaned,
    everything,
    fill,
    managed_ledger_of,
    payloads,
    recount,
)


async def topic_with_holes(cluster, topic, config=KEEP):
    """A topic whose owner is gone: 25 entries, cursor "sub" at the fourth with two holes above."""
    opened = await cluster.create_topic(topic, config=config)
    positions = await fill(opened, 25)
    cursor = await opened.open_cursor("sub", cursor_properties={"who": "me"})
    await cursor.acknowledge_cumulative(positions[3], {"n": 1})
    await cursor.acknowledge([positions[6], positions[12]])
    await opened.abandon()
    return cursor, positions


async def delete_ledger(url, ledger_id):
    async with await open_store(url) as store:
        bookkeeper = BookKeeper(store)
        await bookkeeper.delete_ledger(ledger_id)
        await bookkeeper.close()


def test_the_last_entry_of_the_cursor_ledger_is_the_state(topic_url, topic):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            before, positions = await topic_with_holes(cluster, topic)
            opened = await cluster.open_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            assert (cursor.mark_delete, cursor.holes, cursor.backlog) == (positions[3], before.holes, 19)
            assert (cursor.properties, cursor.cursor_properties) == ({"n": 1}, {"who": "me"})
            assert cursor.cursor_ledger == before.cursor_ledger
            assert cursor.status is mledger.CursorStatus.NO_LEDGER
            (recovered,) = events.of(CursorRecovered)
            assert (recovered.rule, recovered.position, recovered.backlog) == ("R3", positions[3], 19)
            await cursor.acknowledge([positions[4]])
            assert cursor.cursor_ledger > before.cursor_ledger
            await opened.initialized()
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


@pytest.mark.parametrize("how", ["deleted", "empty", "no state"])
def test_a_lost_cursor_ledger_falls_back_to_the_snapshot_and_keeps_properties(topic_url, topic, how):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            before, positions = await topic_with_holes(cluster, topic)
            if how == "deleted":
                await delete_ledger(topic_url, before.cursor_ledger)
            else:
                await name_another_ledger(topic_url, before, [] if how == "empty" else [b"\x08\x38\x10"])
            opened = await cluster.open_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            assert cursor.durable_mark_delete == cursor.mark_delete == positions[3]
            assert (cursor.holes, cursor.backlog) == ([], await recount(opened, cursor))
            assert (cursor.properties, cursor.cursor_properties) == ({"n": 1}, {"who": "me"})
            (recovered,) = events.of(CursorRecovered)
            assert recovered.rule == "R4"
            assert "acknowledgements are lost" in recovered.warnings[0]
            assert cursor.cursor_ledger == -1

    async def name_another_ledger(url, cursor, entries):
        async with await open_store(url) as store:
            bookkeeper = BookKeeper(store)
            writer = await bookkeeper.create_ledger(3, 3, 2)
            if entries:
                await writer.append(entries)
            path = cursor_path(mledger.TopicName.parse(topic).managed_ledger_name, "sub")
            node = await store.get(path)
            record = structs.replace(
                decode_managed_cursor_info(node.data, path).value, cursors_ledger_id=writer.ledger_id
            )
            await store.put(path, encode_managed_cursor_info(record), node.version)
            await bookkeeper.close()

    run(main())


@pytest.mark.parametrize("mended_by", ["opening", "repair"])
def test_an_unknown_last_state_falls_back_to_the_one_before_and_deletes_nothing(topic_url, topic, mended_by):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as store:
            bookkeeper = BookKeeper(store)
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 40)
            cursor = await opened.open_cursor("sub")
            for position in positions[1:27]:
                await cursor.acknowledge([position])
            holes, before, name = cursor.holes, cursor.cursor_ledger, opened.name
            await opened.abandon()
            ledger_id = await with_a_state_more(store, bookkeeper, before, cursor.path, name)
            if mended_by == "repair":
                (facts,) = await FactsReader(store, bookkeeper).read([name])
                await repair(plan_repair(facts, 0), store, bookkeeper)
            opened = await cluster.open_topic(topic)
            found = await opened.open_cursor("sub")
            assert (found.mark_delete, found.holes) == (cursor.mark_delete, holes)
            await found.acknowledge(positions[:1])
            await opened.initialized()
            assert (await bookkeeper.metadata(ledger_id)).last_entry == 26
            assert [each.ledger_id for each in await read_kept(store) if each.managed_ledger == name] == [ledger_id]
            audit = await LedgerAuditor(store, bookkeeper).audit(1 << 50)
            assert ledger_id not in [origin.ledger_id for origin in audit.orphans]
            await opened.close()
            await cluster.delete_topic(topic)
            with pytest.raises(NoSuchLedger):
                await bookkeeper.metadata(ledger_id)
            assert [each for each in await read_kept(store) if each.managed_ledger == name] == []
            await bookkeeper.close()
        await assert_nothing_orphaned(topic_url, name)

    async def with_a_state_more(store, bookkeeper, ledger_id, path, name):
        """Make the cursor's record name a copy of the cursor ledger with one more entry, in an unknown format."""
        reader = await bookkeeper.open_ledger(ledger_id)
        writer = await bookkeeper.create_ledger(3, 3, 2, custom_metadata=reader.metadata.custom_metadata)
        await writer.append([*await reader.read(0, reader.last_entry), b"\x0b" * 20])
        await writer.close()
        node = await store.get(path)
        record = structs.replace(decode_managed_cursor_info(node.data, path).value, cursors_ledger_id=writer.ledger_id)
        await store.put(path, encode_managed_cursor_info(record), node.version)
        await bookkeeper.delete_ledger(ledger_id)
        return writer.ledger_id

    run(main())


def test_bookies_that_are_down_delay_a_cursor_and_lose_nothing(bookies, topic):
    bookies.start(4)

    async def main():
        events = Events()
        url = bookies.metadata_url
        config = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
        async with mledger.open_cluster(url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursors = [await opened.open_cursor(f"sub-{number}") for number in range(16)]  # also on some other bookie
            for cursor in cursors:
                await cursor.acknowledge([positions[0], positions[2]])
            homes = {
                cursor.name: (await cluster._bookkeeper.metadata(cursor.cursor_ledger)).ensemble[0]
                for cursor in cursors
            }
            current = (await cluster._bookkeeper.metadata(positions[0].ledger_id)).ensemble[0]
            away = next(bookie for bookie in bookies if bookie.bookie_id in set(homes.values()) - {current})
            lost = sorted(name for name, home in homes.items() if home == away.bookie_id)
            await opened.abandon()
            away.kill()

            opened = await cluster.open_topic(topic, events=events)
            await opened.add(b"goes on")
            await opened.initialized()
            delayed = {event.cursor for event in events.of(CursorRecoveryDelayed)}
            assert delayed == set(lost)
            with pytest.raises(mledger.CursorRecoveryFailed, match="nothing is assumed lost"):
                await opened.open_cursor(lost[0])
            assert (await opened.trim()).deletions == ()
            for name in set(homes) - set(lost):
                assert (await opened.open_cursor(name)).backlog == 4

            away.restart()
            for name in lost:
                assert (await opened_in_the_end(opened, name)).individually_deleted == cursors[0].individually_deleted

    async def opened_in_the_end(opened, name):
        while True:
            try:
                return await opened.open_cursor(name)
            except mledger.CursorRecoveryFailed:
                await asyncio.sleep(0.1)

    run(main())


def test_a_damaged_record_stops_its_own_cursor_only(topic_url, topic):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 5)
            await opened.open_cursor("good")
            await opened.open_cursor("bad")
            await opened.close()
            async with await open_store(topic_url) as store:
                path = cursor_path(opened.name, "bad")
                await store.put(path, b"\xff\xff\xff", (await store.get(path)).version)
            opened = await cluster.open_topic(topic, events=events)
            assert (await opened.open_cursor("good")).backlog == 5
            with pytest.raises(RecordError, match="bad"):
                await opened.open_cursor("bad")
            await opened.initialized()
            assert await everything(opened) == payloads(5)
            (found,) = [each for each in await cluster.inspector.cursors(topic) if each.name == "bad"]
            assert found.plan is None
            assert found.error

    run(main())


def test_a_damaged_topic_record_is_refused_and_left_alone(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.close()
            path = managed_ledger_path(opened.name)
            async with await open_store(topic_url) as store:
                version = await store.put(path, b"\xff\xff\xff", (await store.get(path)).version)
                with pytest.raises(RecordError, match=opened.name):
                    await cluster.open_topic(topic)
                assert (await store.get(path)).version == version

    run(main())


@pytest.mark.parametrize(
    ("place", "rule", "expected"),
    [
        (Position(0, -1), "R6", "first"),
        (Position(1 << 40, 7), "R7", "end"),
    ],
)
def test_a_position_without_its_ledger_is_moved_durably(topic_url, topic, place, rule, expected):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 15)
            await opened.close()
            path = cursor_path(opened.name, "odd")
            async with await open_store(topic_url) as store:
                await store.create(path, encode_managed_cursor_info(ManagedCursorInfo(mark_delete=place)))
            events = Events()
            opened = await cluster.open_topic(topic, events=events)
            cursor = await opened.open_cursor("odd")
            wanted = Position(positions[0].ledger_id if expected == "first" else opened.ledgers[-1].ledger_id, -1)
            assert cursor.mark_delete == cursor.durable_mark_delete == wanted
            assert cursor.backlog == await recount(opened, cursor)
            data = (await cluster.metadata.get(path)).data
            assert decode_managed_cursor_info(data, path).value.mark_delete == wanted

    run(main())


def test_the_dry_run_says_what_opening_then_does_and_changes_nothing(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            for number in range(4):
                cursor = await opened.open_cursor(f"sub-{number}")
                if number:
                    await cursor.acknowledge_cumulative(positions[5 * number])
                    await cursor.acknowledge([positions[5 * number + 2]])
            await delete_ledger(topic_url, opened.open_cursors["sub-3"].cursor_ledger)
            await opened.abandon()
            before = await snapshot(cluster)
            plans = {each.name: each.plan for each in await cluster.inspector.cursors(topic)}
            (one,) = await cluster.inspector.cursors(topic, "sub-2")
            assert one.plan == plans["sub-2"]
            described = await cluster.inspector.topic(topic)
            assert (described.entries, described.last_confirmed) == (25, positions[-1])
            assert described.ledgers[-1].unconfirmed
            confirmed = [entry.payload async for batch in cluster.inspector.read(topic) for entry in batch]
            assert confirmed == payloads(len(confirmed))
            assert 20 <= len(confirmed) <= 25  # of the open ledger only what is proven
            assert await snapshot(cluster) == before
            with pytest.raises(mledger.CursorNotFound):
                await cluster.inspector.cursors(topic, "nobody")

            events = Events()
            opened = await cluster.open_topic(topic, events=events)
            await opened.initialized()
            recovered = {event.cursor: event for event in events.of(CursorRecovered)}
            assert {name: plan.rule for name, plan in plans.items()} == {
                "sub-0": "R2",
                "sub-1": "R3",
                "sub-2": "R3",
                "sub-3": "R4",
            }
            for name, plan in plans.items():
                assert (recovered[name].position, recovered[name].backlog) == (plan.mark_delete, plan.backlog)
                assert opened.open_cursors[name].holes == plan.acks.ranges()
            assert len(events.of(Initialized)) == 1

    async def snapshot(cluster):
        tree = {}
        level = ["/managed-ledgers", "/ledgers", "/mledger"]
        while level:
            nodes = await cluster.metadata.get_many(level)
            tree |= {path: (node.data, node.version) for path, node in zip(level, nodes, strict=True) if node}
            children = await cluster.metadata.children_many(level)
            level = [f"{path}/{name}" for path, names in zip(level, children, strict=True) for name in names or ()]
        return tree

    run(main())


def test_opening_a_cursor_does_not_wait_for_others(topic_url, topic, monkeypatch):
    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            for number in range(30):
                await (await opened.open_cursor(f"sub-{number:02}")).acknowledge([positions[0]])
            quick = opened.open_cursors["sub-29"].cursor_ledger
            slow = {cursor.cursor_ledger for cursor in opened.open_cursors.values()} - {quick}
            await opened.abandon()
            peek, go_on = cluster._bookkeeper.open_ledger, asyncio.Event()

            async def held(ledger_id, *how, **options):
                if ledger_id in slow:
                    await go_on.wait()
                return await peek(ledger_id, *how, **options)

            monkeypatch.setattr(cluster._bookkeeper, "open_ledger", held)
            opened = await cluster.open_topic(topic, events=events)
            await opened.add(b"first")
            assert (await opened.open_cursor("sub-29")).backlog == 5
            assert not events.of(Initialized)
            go_on.set()
            await opened.initialized()
            assert len(events.of(CursorRecovered)) == 30

    run(main())


def test_a_fenced_owner_that_tries_a_cursor_again_leaves_the_next_owner_s_cursor_ledger_alone(
    topic_url, topic, monkeypatch
):
    monkeypatch.setattr("mledger.cursors.container.RETRY_DELAYS_S", (3600.0,))  # the test is the timer

    async def main():
        path = cursor_path(managed_ledger_of(topic), "sub")
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as store:
            await topic_with_holes(cluster, topic)
            good = await store.get(path)
            await store.put(path, b"no record", good.version)
            events = Events()
            fenced = await cluster.open_topic(topic, events=events)
            await events.next(CursorRecoveryDelayed)
            fenced._record.fence("a test says so")
            await store.put(path, good.data, good.version + 1)
            async with mledger.open_cluster(topic_url, config=KEEP) as other:
                opened = await other.open_topic(topic, take_over=True)
                cursor = await opened.open_cursor("sub")
                await cursor.acknowledge([(await fill(opened, 1))[0]])
                ledger = cursor.cursor_ledger
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await fenced._cursors._recover("sub")
                await cursor.acknowledge([(await fill(opened, 1))[0]])
                assert cursor.cursor_ledger == ledger
            await fenced.abandon()

    run(main())


def test_a_cursor_whose_record_names_no_possible_ledger_falls_back_and_keeps_nothing_from_being_trimmed(
    topic_url, topic
):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            before, positions = await topic_with_holes(cluster, topic)
            async with await open_store(topic_url) as store:
                damaged = encode_managed_cursor_info(ManagedCursorInfo(-2, positions[3]))
                await store.create(cursor_path(managed_ledger_of(topic), "damaged"), damaged)
            opened = await cluster.open_topic(topic)
            cursor = await opened.open_cursor("damaged", create=False)
            assert (cursor.mark_delete, cursor.backlog) == (positions[3], 21)
            for each in (before.name, cursor.name):
                await (await opened.open_cursor(each)).clear_backlog()
            assert len((await opened.trim()).remaining) == 1
            await opened.delete_cursor(cursor.name)
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)
        async with await open_store(topic_url) as store:
            assert "-2" not in await store.children("/mledger/deletions")

    run(main(), timeout=60.0)


def test_a_cursor_that_names_another_one_s_lost_ledger_which_is_recorded_for_deletion_is_recovered(topic_url, topic):
    """As if its owner had died between the recovery of one and of the other."""

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            before, positions = await topic_with_holes(cluster, topic)
            await delete_ledger(topic_url, before.cursor_ledger)
            managed_ledger = managed_ledger_of(topic)
            async with await open_store(topic_url) as store:
                copied = encode_managed_cursor_info(ManagedCursorInfo(before.cursor_ledger, positions[5]))
                await store.create(cursor_path(managed_ledger, "copied"), copied)
                await store.create(deletion_path(before.cursor_ledger), managed_ledger.encode())
            opened = await cluster.open_topic(topic)
            assert (await opened.open_cursor("copied", create=False)).mark_delete == positions[5]
            await opened.open_cursor(before.name, create=False)
            await opened.initialized()
            assert opened.state is mledger.TopicState.OPEN
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main(), timeout=60.0)
