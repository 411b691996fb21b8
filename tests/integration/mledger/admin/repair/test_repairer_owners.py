"""A repair of a topic whose owner lives drops nothing that this owner acknowledges.

So with --take-over, and without it if the owner was frozen for longer than its session and goes on afterwards.
"""

from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.repair.repair_plan import plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.bookie.client.client import BookKeeper
from mledger.cli.topics.drop_ledgers import without_ledgers
from mledger.ledgers.orphans.pending_records import read_records
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path, pending_path
from tests.support.aio import run
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


async def compacting(cluster, topic):
    """An owner right before the state that names its new compacted ledger, with the cursor's state in its record."""
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
    await cursor.close()
    cursor = await opened.open_cursor("__compaction")
    await ledgers.doubt(written[:1])
    return opened, cursor, positions, written


@pytest.mark.parametrize("then", ["named after the repair", "named after its plan"])
def test_an_owner_that_goes_on_names_no_compacted_ledger_that_was_deleted(topic_url, topic, then):
    async def main():
        async with public.open_cluster(topic_url, config=KEEP) as cluster:
            opened, cursor, positions, (former, newer) = await compacting(cluster, topic)
            store = cluster.metadata
            bookkeeper = BookKeeper(store)
            pending = {pending_path(former), pending_path(newer)}  # the former cursor ledger may be being deleted
            records = [each for each in await read_records(store) if each.path in pending]
            (facts,) = await FactsReader(store, bookkeeper).read([opened.name], records=records)
            planned = plan_repair(facts, NOW)
            assert planned.delete == (newer,)
            if then == "named after its plan":
                await cursor.acknowledge_cumulative(positions[1], {COMPACTED: newer})
                with pytest.raises(BadVersion):
                    await repair(planned, store, bookkeeper)
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
