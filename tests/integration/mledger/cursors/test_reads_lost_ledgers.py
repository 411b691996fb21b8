"""Ledgers and entries that a cursor cannot read: lost ones are named or skipped, offloaded ones stay (C11)."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.events import LostEntriesSkipped
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import Segment
from mledger.metastore.records.paths import ledger_path, managed_ledger_path
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.values import OffloadContext
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import KEEP, Events, fill, payloads, recount


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


def test_a_read_that_outlives_its_cursor_skips_nothing(topic_url, topic, monkeypatch):
    async def main():
        events = Events()
        config = replace(KEEP, auto_skip_non_recoverable_data=True)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            async with await open_store(topic_url) as store:
                other = BookKeeper(store)
                await other.delete_ledger(positions[10].ledger_id)
                await other.close()
            await cursor.acknowledge(positions[:10])
            found, go_on, read_afresh = asyncio.Event(), asyncio.Event(), opened.reader.read_afresh

            async def held(ledger_id, entry):
                found.set()
                await go_on.wait()
                return await read_afresh(ledger_id, entry)

            monkeypatch.setattr(opened.reader, "read_afresh", held)
            reading = asyncio.ensure_future(cursor.read(100))
            await found.wait()
            await cursor.close()
            again = await opened.open_cursor("sub", create=False)
            await again.acknowledge([positions[20]])
            go_on.set()
            with pytest.raises(mledger.ManagedLedgerClosed):
                await reading
            assert events.of(LostEntriesSkipped) == []
            await again.acknowledge([positions[21]])
            assert (opened.state, again.backlog) == (mledger.TopicState.OPEN, 13)

    run(main())


async def lose_entries(url, ledger_id, first, behind):
    """Make the metadata name bookies for some entries of a ledger that never had them."""
    async with await open_store(url) as store:
        node = await store.get(ledger_path(ledger_id))
        metadata = decode_ledger_metadata(node.data, "")
        there = metadata.segments[0].bookies
        elsewhere = [bookie for bookie in await store.children("/ledgers/available") if bookie not in there]
        others = tuple(bookie for bookie in elsewhere if ":" in bookie)[: len(there)]
        assert len(others) == len(there)
        segments = (metadata.segments[0], Segment(first, others), Segment(behind, there))
        await store.put(
            ledger_path(ledger_id), encode_ledger_metadata(structs.replace(metadata, segments=segments)), node.version
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
def test_an_entry_moved_to_other_bookies_is_not_lost(topic_url, topic, auto_skip):
    async def main():
        config = replace(KEEP, ensemble_size=2, write_quorum_size=2, auto_skip_non_recoverable_data=auto_skip)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 25)
            cursor = await opened.open_cursor("sub")
            path = ledger_path(positions[10].ledger_id)
            whole = (await cluster.metadata.get(path)).data
            await lose_entries(topic_url, positions[10].ledger_id, 4, 7)
            await opened.reader.read(positions[10].ledger_id, 0, 0, None)  # its handle does not change
            async with await open_store(topic_url) as store:
                await store.put(path, whole, (await store.get(path)).version)
            read = [entry.payload for _ in range(4) for entry in await cursor.read(100)]
            assert read == payloads(25)

    run(main())


async def offload(store, managed_ledger, ledger_id, *, deleted):
    """Record a copy of the ledger in tiered storage and delete it from the bookies; with `deleted`, record that too."""
    path = managed_ledger_path(managed_ledger)
    node = await store.get(path)
    info = decode_managed_ledger_info(node.data, path).value
    message = OffloadMessage(uidMsb=1, uidLsb=2, complete=True, bookkeeperDeleted=deleted)
    context = OffloadContext(message.SerializeToString())
    ledgers = [replace(each, offload=context) if each.ledger_id == ledger_id else each for each in info.ledgers]
    await store.put(path, encode_managed_ledger_info(structs.replace(info, ledgers=tuple(ledgers))), node.version)
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
            for _ in range(2):  # the first drops the empty ledger after it
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
