"""A cursor's record that names another topic's ledger: that topic keeps it, and the cursor its messages (R4, R10)."""

import dataclasses

import pytest
from msgspec.structs import replace

import mledger
from mledger.admin.repair.repair_plan import plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import DELETIONS, TopicName, cursor_path, deletion_path
from mledger.metastore.records.values import LedgerInfo
from tests.support.aio import run
from tests.support.topics import CONFIG, KEEP, fill

HOLES = dataclasses.replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=0)


async def mixed_up(cluster, topic, kind):
    """`topic`, whose cursor's record names a ledger of a later topic, which is open; and that topic's cursor."""
    first = await cluster.create_topic(topic)
    await first.open_cursor("sub")
    await fill(first, 9)
    await first.close()
    other = await cluster.create_topic(f"{topic}-other")
    cursor = await other.open_cursor("sub")
    positions = await fill(other, 9)
    await cursor.acknowledge(positions[1::2])
    await cursor.flush()
    named = cursor.cursor_ledger if kind == "cursor ledger" else other.ledger_list.ids[0]
    await name_ledger(cluster, topic, named)
    return named, cursor


async def name_ledger(cluster, topic, ledger_id):
    """Have the record of the cursor `sub` of a closed topic name a cursor ledger."""
    path = cursor_path(TopicName.parse(topic).managed_ledger_name, "sub")
    node = await cluster.store.get(path)
    record = replace(decode_managed_cursor_info(node.data, path).value, cursors_ledger_id=ledger_id)
    await cluster.store.put(path, encode_managed_cursor_info(record), node.version)


async def list_first(cluster, topic, ledger_id):
    """Have the record of a closed topic list a ledger of 9 entries before its own."""
    path = TopicName.parse(topic).managed_ledger_path
    node = await cluster.store.get(path)
    info = decode_managed_ledger_info(node.data, path).value
    listed = (LedgerInfo(ledger_id, 9, 100, 1), *info.ledgers)
    await cluster.store.put(path, encode_managed_ledger_info(replace(info, ledgers=listed)), node.version)


async def lists_another(cluster, topic):
    """`topic`, whose record lists a ledger with all 9 entries of another topic before its own; that ledger."""
    other = await cluster.create_topic(f"{topic}-other")
    await fill(other, 9)
    (named,) = other.ledger_list.ids
    await other.close()
    await (await cluster.create_topic(topic)).close()
    await list_first(cluster, topic, named)
    return named


async def state_of(cluster, ledger_id):
    return (await cluster.bookkeeper.metadata(ledger_id)).state


@pytest.mark.parametrize("kind", ["cursor ledger", "data ledger"])
def test_the_deletion_of_a_topic_leaves_a_ledger_of_another_one(topic_url, topic, kind):
    async def main():
        async with mledger.open_cluster(topic_url, config=HOLES) as cluster:
            named, _ = await mixed_up(cluster, topic, kind)
            before = await state_of(cluster, named)
            await cluster.delete_topic(topic)
            assert await state_of(cluster, named) is before

    run(main())


@pytest.mark.parametrize("how", ["deletion", "trim"])
def test_a_list_that_names_a_ledger_of_another_topic_does_not_take_it_along(topic_url, topic, how):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            named = await lists_another(cluster, topic)
            if how == "deletion":
                await cluster.delete_topic(topic)
            else:
                opened = await cluster.open_topic(topic)
                await opened.trim()
                assert named not in opened.ledger_list
            assert await state_of(cluster, named) is LedgerState.CLOSED

    run(main())


@pytest.mark.parametrize("how", ["deletion", "trim"])
def test_a_number_that_no_ledger_has_leaves_no_record_of_its_deletion(topic_url, topic, how):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            await (await cluster.create_topic(topic)).close()
            await list_first(cluster, topic, -5)
            if how == "deletion":
                await cluster.delete_topic(topic)
            else:
                opened = await cluster.open_topic(topic)
                await opened.trim()
                assert -5 not in opened.ledger_list
                await opened.close()
            assert await cluster.store.exists(f"{DELETIONS}/-5") is None

    run(main())


def test_a_cursor_that_names_no_possible_ledger_leaves_no_record_of_its_deletion(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            await opened.close()
            await name_ledger(cluster, topic, -7)
            await cluster.delete_topic(topic)
            assert await cluster.store.exists(f"{DELETIONS}/-7") is None

    run(main())


def test_a_cursor_does_not_take_the_state_of_another_topics_cursor(topic_url, topic):
    """Positions in later ledgers would count as past the end: all messages would be acknowledged, and trimmed."""

    async def main():
        async with mledger.open_cluster(topic_url, config=HOLES) as cluster:
            named, other = await mixed_up(cluster, topic, "cursor ledger")
            opened = await cluster.open_topic(topic)
            cursor = await opened.open_cursor("sub")
            assert cursor.backlog == 9
            await cursor.clear_backlog()
            assert await cluster.store.exists(deletion_path(named)) is None
            await opened.close()
            assert await state_of(cluster, named) is LedgerState.OPEN
            assert other.backlog == 5

    run(main())


def test_a_repair_names_the_ledgers_owner_and_leaves_the_ledger(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=HOLES) as cluster:
            named, _ = await mixed_up(cluster, topic, "cursor ledger")
            name = TopicName.parse(topic).managed_ledger_name
            (facts,) = await FactsReader(cluster.store, cluster.bookkeeper).read([name])
            plan = plan_repair(facts, 1)
            (mend,) = [each for each in plan.mends if each.cursor == "sub"]
            assert f"ledger {named} is that of {name}-other cursor sub" in mend.text
            await repair(plan, cluster.store, cluster.bookkeeper)
            assert await state_of(cluster, named) is LedgerState.OPEN
            opened = await cluster.open_topic(topic)
            assert (await opened.open_cursor("sub")).backlog == 9

    run(main())
