"""A repair interrupted at each of its steps leaves each thing as it was or repaired, and in the end no orphan."""

from dataclasses import replace

import pytest
from msgspec import structs

import mledger as public
from mledger.admin.references.ledger_audit import LedgerAuditor
from mledger.admin.repair.repair_plan import TopicFacts, plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.bookie.client.client import BookKeeper
from mledger.ledgers.orphans.pending_records import read_records
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.store import Put
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.ledgers import client
from tests.support.owners.cut_off import CutOff
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

CONFIG = replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=0)
NOW = 2_000_000_000_000
STEPS = ["write records", "records written", "delete ledger", "ledger deleted, still recorded"]


async def broken(url: str, topic: str) -> None:
    """A topic whose first ledger is an orphan, whose next has wrong counts, and whose cursor's ledger is gone."""
    async with public.open_cluster(url, config=CONFIG) as cluster:
        opened = await cluster.create_topic(topic)
        cursor = await opened.open_cursor("one")
        positions = await fill(opened, 25)
        await cursor.acknowledge(positions[::2])
        cursor_ledger = cursor.cursor_ledger
    path = managed_ledger_path(managed_ledger_of(topic))
    async with await open_store(url) as store:
        await LedgerStore(store).delete(cursor_ledger)
        node = await store.get(path)
        info = decode_managed_ledger_info(node.data).value
        _, second, *rest = info.ledgers
        wrong = structs.replace(info, ledgers=(replace(second, entries=3), *rest))
        await store.multi([Put(path, encode_managed_ledger_info(wrong), node.version)])


async def plan(store, bookkeeper, name: str):
    """What there is to repair now."""
    audit = await LedgerAuditor(store, bookkeeper).audit(NOW)
    orphans = [origin for origin in audit.orphans if origin.managed_ledger == name]
    (facts,) = await FactsReader(store, bookkeeper).read([name], {name: orphans}, await read_records(store))
    assert isinstance(facts, TopicFacts)
    return plan_repair(facts, NOW)


def cut_at(step: str):
    def on_step(name: str) -> None:
        if name == step:
            raise CutOff

    return on_step


@pytest.mark.parametrize("finish", ["repaired again", "opened"])
@pytest.mark.parametrize("step", STEPS)
def test_interrupted_anywhere_nothing_is_left_wrong(topic_url, topic, step, finish):
    url, name = topic_url, managed_ledger_of(topic)

    async def main():
        await broken(url, topic)
        async with await open_store(url) as store:
            bookkeeper = BookKeeper(store)
            try:
                with pytest.raises(CutOff):
                    await repair(await plan(store, bookkeeper, name), store, bookkeeper, cut_at(step))
                if finish == "repaired again" or step == "write records":
                    await repair(await plan(store, bookkeeper, name), store, bookkeeper)
            finally:
                await bookkeeper.close()
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            counts = [ledger.entries for ledger in opened.ledgers if ledger.entries]
        await assert_nothing_orphaned(url, name)
        return counts

    assert run(main()) == [10, 5]


def test_a_record_changed_meanwhile_is_not_written(topic_url, topic):
    url, name = topic_url, managed_ledger_of(topic)

    async def main():
        await broken(url, topic)
        async with await open_store(url) as store:
            bookkeeper = BookKeeper(store)
            try:
                planned = await plan(store, bookkeeper, name)
                node = await store.get(managed_ledger_path(name))
                await store.put(managed_ledger_path(name), node.data, node.version)
                with pytest.raises(BadVersion):
                    await repair(planned, store, bookkeeper)
                assert (await plan(store, bookkeeper, name)).mends == planned.mends
            finally:
                await bookkeeper.close()

    run(main())


def test_a_cursor_ledger_is_not_recorded_for_deletion_while_its_cursor_names_it(topic_url, topic):
    """Records written ahead of a long, interrupted repair would refuse an owner that drops such a ledger."""
    url, name = topic_url, managed_ledger_of(topic)

    async def main():
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            positions = await fill(opened, 25)
            await cursor.acknowledge(positions[10:20:2])
            cursor_ledger, (first, *_) = cursor.cursor_ledger, opened.ledgers
        async with await open_store(url) as store, client(url) as bookkeeper:
            await LedgerStore(store).delete(first.ledger_id)  # where the cursor is
            found = await plan(store, bookkeeper, name)
            assert [mend.drops for mend in found.cursors] == [cursor_ledger]
            leftovers = tuple(range(800_000_000, 800_001_000))
            much = structs.replace(found, delete=(*found.delete, *leftovers), to_record=(*found.to_record, *leftovers))
            with pytest.raises(CutOff):
                await repair(much, store, bookkeeper, cut_at("write records"))
            recorded = {record.ledger_id for record in await read_records(store) if record.managed_ledger == name}
            assert recorded == set(leftovers)
            await repair(await plan(store, bookkeeper, name), store, bookkeeper)
            assert not [record for record in await read_records(store) if record.managed_ledger == name]

    run(main())
