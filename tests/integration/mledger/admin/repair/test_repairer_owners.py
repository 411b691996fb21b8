"""A repair of a topic whose owner lives, as with --take-over, drops nothing that this owner acknowledges."""

from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.repair.repair_plan import plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.bookie.client.client import BookKeeper
from mledger.cli.topics.drop_ledgers import without_ledgers
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from tests.support.aio import run
from tests.support.topics import KEEP, fill

NOW = 2_000_000_000_000


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
