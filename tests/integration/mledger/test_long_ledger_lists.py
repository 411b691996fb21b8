"""Topics of many thousand ledgers: drops from their lists, deletion and repair, on a real ZooKeeper (M11)."""

import itertools
from dataclasses import replace

import pytest
from msgspec import structs

import mledger
from mledger.admin.references.ledger_facts import LedgerFacts
from mledger.admin.repair.repair_plan import TopicFacts, plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.bookie.client.client import BookKeeper
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.orphans.orphan_cleanup import Claimant, replay
from mledger.ledgers.orphans.pending_records import (
    deletion_record,
    ensure_folders,
    pending_record,
    read_records,
    write_ahead,
)
from mledger.ledgers.topic_record import RecordChange, TopicRecord
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import deletion_path, managed_ledger_path
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.store import MAX_REQUEST_BYTES, Check, Delete
from mledger.metastore.url import open_store
from mledger.topics import deletion
from mledger.topics.deletion import delete_managed_ledger
from tests.support.aio import run
from tests.support.ledgers import client
from tests.support.owners.cut_off import CutOff
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

MANY = 12_000  # with the records of their deletion more than fits one request
VERY_MANY = 20_000
NAMED_LONG = 3_000
LONG_NAME = "-" + "long" * 90
"""The name stands in each record: with it the records of `NAMED_LONG` ledgers are more than fits one request."""
_firsts = itertools.count(900_000_000, 100_000)
"""No ledger with these ids exists: the tests are about the records."""


def long_list(count: int = MANY) -> ManagedLedgerInfo:
    first = next(_firsts)
    return ManagedLedgerInfo(
        tuple(LedgerInfo(ledger_id, 50_000, 1 << 30, 1_700_000_000_000) for ledger_id in range(first, first + count))
    )


async def put_topic(store, topic, info, compression="NONE"):
    """Write the topic's record. Returns its managed ledger's name and its path."""
    name = managed_ledger_of(topic)
    await ensure_folders(store)
    path = f"/managed-ledgers/{name}"
    await store.create(path, encode_managed_ledger_info(info, compression=compression), parents=True)
    return name, path


def drop(name, info, count):
    """The change that removes the first `count` ledgers from the list."""
    gone, kept = info.ledgers[:count], info.ledgers[count:]
    return RecordChange(
        ManagedLedgerInfo(kept), deletions=tuple(deletion_record(each.ledger_id, name) for each in gone)
    )


async def recorded(store, name):
    return [record.ledger_id for record in await read_records(store) if record.managed_ledger == name]


@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_almost_all_of_a_long_list_is_dropped_and_recorded_for_deletion(topic_url, topic, compression):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            info = long_list(NAMED_LONG)
            name, path = await put_topic(store, topic + LONG_NAME, info, compression)
            record = await TopicRecord.read(store, name)
            dropped = drop(name, info, NAMED_LONG - 1).deletions
            assert sum(len(each.path) + len(each.data) for each in dropped) > MAX_REQUEST_BYTES
            await record.update(lambda found: drop(name, found, NAMED_LONG - 1))
            now = decode_managed_ledger_info((await store.get(path)).data, path)
            assert (len(now.value.ledgers), now.compression) == (1, compression)
            assert len(await recorded(store, name)) == NAMED_LONG - 1
            await replay(bookkeeper, store, {name: Claimant(record, ())})
            assert await recorded(store, name) == []

    run(main())


def test_ledgers_can_still_be_dropped_from_a_record_near_the_limit(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store:
            info = long_list(10)
            properties = (("filler", "x" * (MAX_REQUEST_BYTES - 2_000)),)
            info = ManagedLedgerInfo(info.ledgers, properties=properties)
            name, _ = await put_topic(store, topic, info)
            record = await TopicRecord.read(store, name)

            def change(found):
                dropped = drop(name, found, 9)
                return RecordChange(
                    ManagedLedgerInfo(dropped.info.ledgers, properties=properties), (), dropped.deletions
                )

            await record.update(change)
            assert len(await recorded(store, name)) == 9

    run(main())


def test_records_written_ahead_of_a_drop_that_never_came_do_no_harm(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            info = long_list(1_000)
            name, path = await put_topic(store, topic, info)
            record = await TopicRecord.read(store, name)
            ahead = drop(name, info, 600).deletions
            await write_ahead(store, [(each,) for each in ahead], Check(path, record.version))
            # the next owner drops some of the same ledgers, before its replay or after it
            second = await TopicRecord.read(store, name)
            await second.update(lambda found: drop(name, found, 3))
            await replay(bookkeeper, store, {name: Claimant(second, ())})
            assert await recorded(store, name) == []
            listed = decode_managed_ledger_info((await store.get(path)).data, path).value.ledgers
            assert [each.ledger_id for each in listed] == [each.ledger_id for each in info.ledgers[3:]]

    run(main())


def test_a_long_topic_is_deleted_even_after_an_interruption(topic_url, topic):
    def cut_off(step):
        if step == "delete topic":
            raise CutOff

    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            name, path = await put_topic(store, topic + LONG_NAME, long_list(NAMED_LONG))
            with pytest.raises(CutOff):
                await delete_managed_ledger(store, bookkeeper, name, cut_off)
            assert len(decode_managed_ledger_info((await store.get(path)).data, path).value.ledgers) == NAMED_LONG
            await delete_managed_ledger(store, bookkeeper, name)
            with pytest.raises(NodeNotFound):
                await store.get(path)
            assert await recorded(store, name) == []

    run(main())


def test_a_long_list_of_lost_ledgers_and_orphans_is_repaired(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            info = long_list()
            name, path = await put_topic(store, topic, info, "LZ4")
            orphans = tuple(each.ledger_id for each in long_list(VERY_MANY).ledgers)
            lost = dict.fromkeys(each.ledger_id for each in info.ledgers)
            facts = TopicFacts(name, info, 0, compression="LZ4", ledgers=lost, orphans=orphans)

            def stop_before_deleting(step):
                if step == "records written":
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                await repair(plan_repair(facts, 1), store, bookkeeper, stop_before_deleting)
            assert await recorded(store, name) == list(orphans)
            now = decode_managed_ledger_info((await store.get(path)).data, path)
            assert now.value.ledgers == ()
            await write_ahead(store, [(Delete(deletion_path(ledger_id)),) for ledger_id in orphans])

    run(main())


def test_left_over_records_of_a_long_list_are_removed_by_a_repair(topic_url, topic):
    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            info = long_list(VERY_MANY)
            name, path = await put_topic(store, topic, info)
            left_over = [(pending_record(each.ledger_id, name),) for each in info.ledgers]
            await write_ahead(store, left_over)
            there = LedgerFacts(LedgerState.CLOSED, LedgerEnd(50_000, 1 << 30))
            facts = TopicFacts(
                name,
                info,
                (await store.get(path)).version,
                ledgers=dict.fromkeys((each.ledger_id for each in info.ledgers), there),
                records=tuple(record for record in await read_records(store) if record.managed_ledger == name),
            )
            assert len(facts.records) == VERY_MANY
            await repair(plan_repair(facts, 1), store, bookkeeper)
            assert await recorded(store, name) == []
            assert decode_managed_ledger_info((await store.get(path)).data, path).value == info

    run(main())


def test_cursors_whose_records_do_not_fit_one_request_are_repaired(topic_url, topic):
    """Ninety cursors with many ranges are in a lost ledger."""

    async def main():
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            info = long_list(3)
            before, lost, after = (each.ledger_id for each in info.ledgers)
            name, path = await put_topic(store, topic, info)
            ranges = tuple(
                PositionRange(Position(after, entry), Position(after, entry + 1)) for entry in range(0, 1800, 2)
            )
            record = ManagedCursorInfo(mark_delete=Position(lost, 7), ranges=ranges)
            for number in range(90):
                await store.create(f"{path}/cursor-{number}", encode_managed_cursor_info(record))
            (facts,) = await FactsReader(store, bookkeeper).read([name])
            there = LedgerFacts(LedgerState.CLOSED, LedgerEnd(50_000, 1 << 30))
            facts = structs.replace(facts, ledgers={before: there, lost: None, after: there})
            plan = plan_repair(facts, 0)
            assert sum(len(encode_managed_cursor_info(each.record)) for each in plan.cursors) > MAX_REQUEST_BYTES
            await repair(plan, store, bookkeeper)
            for number in range(90):
                data = (await store.get(f"{path}/cursor-{number}")).data
                assert decode_managed_cursor_info(data).value.mark_delete == Position(after, -1)

    run(main())


def test_an_owner_that_replays_while_its_long_topic_is_deleted_leaves_no_orphans(topic_url, topic, monkeypatch):
    async def main():
        config = replace(KEEP, max_entries_per_ledger=1)
        async with (
            mledger.open_cluster(topic_url, config=config) as cluster,
            mledger.open_cluster(topic_url, config=config) as other,
        ):
            opened = await cluster.create_topic(topic)
            await fill(opened, 230)
            await opened.roll_over()
            write_ahead = deletion.write_ahead

            async def replayed_behind(*args):
                await write_ahead(*args)
                async with await open_store(topic_url) as store:
                    bookkeeper = BookKeeper(store)
                    record = TopicRecord(store, opened.name, opened.info, version)
                    await replay(bookkeeper, store, {opened.name: Claimant(record, ())})
                    await bookkeeper.close()

            version = (await cluster.metadata.get(managed_ledger_path(opened.name))).version
            monkeypatch.setattr(deletion, "write_ahead", replayed_behind)
            await other.delete_topic(topic, take_over=True)
            await opened.abandon()
            await assert_nothing_orphaned(topic_url, opened.name)

    run(main())
