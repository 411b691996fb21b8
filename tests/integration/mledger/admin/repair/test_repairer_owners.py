"""A repair of a topic whose owner lives drops nothing that this owner acknowledges.

So with --take-over, and without it if the owner was frozen for longer than its session and goes on afterwards.
"""

from dataclasses import replace

import pytest
from msgspec import structs

import mledger as public
from mledger.admin.repair.repair_plan import plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.bookie.client.client import BookKeeper
from mledger.cli.topics.drop_ledgers import without_ledgers
from mledger.ledgers.orphans.pending_records import PendingRecord, read_records
from mledger.ledgers.orphans.references import LedgerOrigin
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import Segment
from mledger.metastore.records.paths import deletion_path, ledger_path, managed_ledger_path, pending_path
from tests.support.aio import run
from tests.support.compacted_topics import make_ledger
from tests.support.topics import KEEP, fill

NOW = 2_000_000_000_000
COMPACTED = "CompactedTopicLedger"


def test_an_acknowledgement_is_durable_or_fails_while_its_cursor_is_moved(topic_url, topic):
    async def main():
        config = replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=0)
        async with public.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            positions = await fill(opened, 25)
            await cursor.acknowledge(positions[:13])
            store, path = cluster.metadata, managed_ledger_path(opened.name)
            node = await store.get(path)
            gone = frozenset({positions[12].ledger_id})  # as `topics drop-ledgers --take-over` does
            info = without_ledgers(decode_managed_ledger_info(node.data, path).value, gone)
            await store.put(path, encode_managed_ledger_info(info), node.version)
            bookkeeper = BookKeeper(store)

            async def plan():
                (facts,) = await FactsReader(store, bookkeeper).read([opened.name])
                return plan_repair(facts, NOW)

            planned = await plan()
            assert [each.drops for each in planned.cursors] == [cursor.cursor_ledger]
            await cursor.acknowledge([positions[14]])
            with pytest.raises(BadVersion, match="newer state"):
                await repair(planned, store, bookkeeper)
            with pytest.raises(public.ManagedLedgerFenced):
                await cursor.acknowledge([positions[15]])
            planned = await plan()
            await repair(planned, store, bookkeeper)
            assert not (await plan()).pending
            await bookkeeper.close()

    run(main())


async def compacting(cluster, topic, *, state_in="record"):
    """An owner right before the state that names its new compacted ledger."""
    opened = await cluster.create_topic(topic)
    positions = await fill(opened, 2)
    ledgers, written = opened.compacted_ledgers, []
    for _ in range(2):
        writer = await ledgers.create((("component", b"compacted-ledger"), ("pulsar/compactedTopic", topic.encode())))
        await writer.append([b"kept"])
        await writer.close()
        written.append(writer.ledger_id)
    cursor = await opened.open_cursor("__compaction")
    await cursor.acknowledge_cumulative(positions[0], {COMPACTED: written[0]})
    await ledgers.settle(written[0], named=True)
    if state_in == "record":
        await cursor.close()
        cursor = await opened.open_cursor("__compaction")
    await ledgers.doubt(written[:1])
    return opened, cursor, positions, written


async def records_of(store, *ledgers):
    """The pending records of these ledgers; the topic may have others, of ledgers that are being deleted."""
    return [each for each in await read_records(store) if each.path in map(pending_path, ledgers)]


@pytest.mark.parametrize("then", ["named after the repair", "named after its plan", "named after a long plan"])
def test_an_owner_that_goes_on_names_no_compacted_ledger_that_was_deleted(topic_url, topic, then):
    async def main():
        async with public.open_cluster(topic_url, config=KEEP) as cluster:
            opened, cursor, positions, (former, newer) = await compacting(cluster, topic)
            store = cluster.metadata
            bookkeeper = BookKeeper(store)
            records = await records_of(store, former, newer)
            (facts,) = await FactsReader(store, bookkeeper).read([opened.name], records=records)
            planned = plan_repair(facts, NOW)
            assert planned.delete == (newer,)
            if then == "named after a long plan":
                others = range(800_000_000, 800_001_000)
                planned = structs.replace(planned, delete=(newer, *others), to_record=(newer, *others))
            if then != "named after the repair":
                await cursor.acknowledge_cumulative(positions[1], {COMPACTED: newer})
                with pytest.raises(BadVersion):
                    await repair(planned, store, bookkeeper)
                assert await records_of(store, former, newer) == records
                kept = newer
            else:
                await repair(planned, store, bookkeeper)
                with pytest.raises(public.ManagedLedgerFenced):
                    await cursor.acknowledge_cumulative(positions[1], {COMPACTED: newer})
                kept = former
            await opened.abandon()
            opened = await cluster.open_topic(topic, take_over=True)
            await opened.initialized()
            assert opened.open_cursors["__compaction"].properties == {COMPACTED: kept}
            await bookkeeper.metadata(kept)
            await bookkeeper.close()

    run(main())


def test_no_compacted_ledger_goes_while_an_owner_may_write_to_the_cursor_ledger(topic_url, topic):
    """Also if all of the open ledger is confirmed: here the ensemble was replaced after its last entry."""

    async def main():
        async with public.open_cluster(topic_url, config=KEEP) as cluster:
            opened, cursor, positions, (former, newer) = await compacting(cluster, topic, state_in="cursor ledger")
            store = cluster.metadata
            bookkeeper = BookKeeper(store)
            state = await bookkeeper.peek(cursor.cursor_ledger, None)
            metadata, version = await LedgerStore(store).read(cursor.cursor_ledger)
            segments = (*metadata.segments, Segment(state.last_entry + 1, metadata.ensemble))
            replaced = encode_ledger_metadata(structs.replace(metadata, segments=segments))
            await store.put(ledger_path(cursor.cursor_ledger), replaced, version)
            assert not (await bookkeeper.peek(cursor.cursor_ledger, None)).unconfirmed
            records = await records_of(store, former, newer)
            (facts,) = await FactsReader(store, bookkeeper).read([opened.name], records=records)
            await repair(plan_repair(facts, NOW), store, bookkeeper)
            assert await records_of(store, former, newer) == records
            await cursor.acknowledge_cumulative(positions[1], {COMPACTED: newer})
            await bookkeeper.metadata(newer)
            await opened.abandon()
            await bookkeeper.close()
            await cluster.delete_topic(topic, take_over=True)

    run(main())


@pytest.mark.parametrize("orphaned", [True, False])
def test_an_owner_is_fenced_before_a_ledger_is_deleted_that_it_may_be_about_to_list(topic_url, topic, orphaned):
    """A Java owner leaves no pending record. A repair that deletes nothing fences nobody."""

    async def main():
        async with public.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await fill(opened, 2)
            own = {"component": "managed-ledger", "pulsar_managed-ledger": opened.name}
            orphans = [await make_ledger(topic_url, 0, **own)] if orphaned else []
            store, listed = cluster.metadata, opened.ledgers[0].ledger_id
            left_over = PendingRecord(deletion_path(listed), listed, opened.name)
            await store.create(left_over.path, opened.name.encode())
            bookkeeper = BookKeeper(store)
            origins = [LedgerOrigin(ledger_id, "managed-ledger", opened.name, "", 0) for ledger_id in orphans]
            (facts,) = await FactsReader(store, bookkeeper).read([opened.name], {opened.name: origins}, [left_over])
            planned = plan_repair(facts, NOW)
            assert (planned.delete, planned.done_with) == (tuple(orphans), (left_over,))
            assert await repair(planned, store, bookkeeper) == orphans
            assert await store.exists(left_over.path) is None
            await opened.roll_over()
            if orphaned:
                with pytest.raises(public.ManagedLedgerFenced):
                    await opened.add(b"in a new ledger")
            else:
                await opened.add(b"in a new ledger")
            await opened.abandon()
            await bookkeeper.close()

    run(main())
