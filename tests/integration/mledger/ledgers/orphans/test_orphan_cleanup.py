"""Records of deletion from an interrupted operation, while an owner replays: no orphan is left (R10, M11)."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec import structs

import mledger
from mledger.admin.references.ledger_facts import LedgerFacts
from mledger.admin.repair import repairer
from mledger.admin.repair.repair_plan import TopicFacts, plan_repair
from mledger.admin.repair.repairer import repair
from mledger.bookie.client.client import BookKeeper
from mledger.cursors.persistence import unknown_outcomes
from mledger.ledgers import topic_record
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.orphans.orphan_cleanup import Claimant, replay
from mledger.ledgers.orphans.pending_records import deletion_record
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.url import open_store
from mledger.topics import deletion, trimmer
from tests.support.aio import run
from tests.support.compacted_topics import exists, make_ledger
from tests.support.ledgers import client
from tests.support.topics import CONFIG, KEEP, assert_nothing_orphaned, fill, managed_ledger_of

MANY = range(800_100_000, 800_100_000 + 201)
"""More ledgers than one write records. None of them exists."""


def after(call, act):
    """`call`, followed by `act`."""

    async def both(*args, **named):
        result = await call(*args, **named)
        await act()
        return result

    return both


@asynccontextmanager
async def open_both(url):
    """A session with the metadata store, and a client of the bookies."""
    async with await open_store(url) as store, client(url) as bookkeeper:
        yield store, bookkeeper


async def leave_records(store, name, ledger_ids):
    """What a deletion, a repair or a trim leaves if it is interrupted before it wrote the topic's record."""
    await store.multi([deletion_record(ledger_id, name) for ledger_id in ledger_ids])


def owner_at(store, bookkeeper, record):
    """A replay by the owner that wrote the topic's record last, with the record as in `record`."""
    version = record.version

    async def replayed():
        owner = TopicRecord(store, record.name, record.info, version)
        await replay(bookkeeper, store, {record.name: Claimant(owner, ())})

    return replayed


def test_a_deletion_retried_while_an_owner_replays_leaves_no_orphans(topic_url, topic, monkeypatch):
    name = managed_ledger_of(topic)

    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            open_both(topic_url) as (store, bookkeeper),
        ):
            await fill(await cluster.create_topic(topic), 25)
            record = await TopicRecord.read(store, name)
            await leave_records(store, name, [each.ledger_id for each in record.info.ledgers])
            replayed = owner_at(store, bookkeeper, record)
            monkeypatch.setattr(deletion, "_unrecorded", after(deletion._unrecorded, replayed))
            await cluster.delete_topic(topic, take_over=True)
        await assert_nothing_orphaned(topic_url, name)

    run(main())


@pytest.mark.parametrize("orphans", [(), MANY], ids=["recorded before", "recorded ahead"])
def test_a_repair_while_an_owner_replays_leaves_no_orphans(topic_url, topic, monkeypatch, orphans):
    """The owner keeps its list until the repair writes it. What leaves the list was recorded before."""
    name = managed_ledger_of(topic)

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await fill(await cluster.create_topic(topic), 25)
        async with open_both(topic_url) as (store, bookkeeper):
            record = await TopicRecord.read(store, name)
            replayed = owner_at(store, bookkeeper, record)
            first, *others = (each.ledger_id for each in record.info.ledgers)
            closed = dict.fromkeys(others, LedgerFacts(LedgerState.CLOSED, LedgerEnd(10, 120)))
            empty = {first: LedgerFacts(LedgerState.CLOSED, LedgerEnd(0, 0))}
            facts = TopicFacts(name, record.info, record.version, ledgers=empty | closed, orphans=tuple(orphans))
            plan = plan_repair(facts, 1)
            if not orphans:
                await leave_records(store, name, [first])
                plan = structs.replace(plan, to_record=())
                await replayed()
            monkeypatch.setattr(repairer, "write_ahead", after(repairer.write_ahead, replayed))
            await repair(plan, store, bookkeeper)
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_trim_of_ledgers_whose_records_its_own_replay_finds_leaves_no_orphans(topic_url, topic, monkeypatch):
    name = managed_ledger_of(topic)

    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster, open_both(topic_url) as both:
            store, bookkeeper = both
            opened = await cluster.create_topic(topic, trim=False)
            await opened.initialized()
            await fill(opened, 25)
            await leave_records(store, name, [each.ledger_id for each in opened.ledgers[:2]])
            looked, go_on = asyncio.Event(), asyncio.Event()
            children = store.children

            async def held(path):
                looked.set()
                await go_on.wait()
                return await children(path)

            store.children = held
            owner = Claimant(opened._record, opened._factory.in_hand)
            replaying = asyncio.ensure_future(replay(bookkeeper, store, {name: owner}))
            await looked.wait()

            async def replayed():
                go_on.set()
                await replaying

            monkeypatch.setattr(topic_record, "write_ahead", after(topic_record.write_ahead, replayed))
            plan = await opened.trim()
            assert len(plan.deletions) == 2
        await assert_nothing_orphaned(topic_url, name)

    run(main())


@pytest.mark.parametrize("left_by", ["this owner", "the owner before"])
def test_a_ledger_whose_deletion_failed_is_deleted_while_its_topic_stays_open(topic_url, topic, monkeypatch, left_by):
    monkeypatch.setattr(unknown_outcomes, "ASK_FIRST_S", 0.001)
    monkeypatch.setattr(trimmer, "RETRY_MS", 1)
    delete_ledger, left = BookKeeper.delete_ledger, [StoreUnavailable("no server can be reached")]

    async def away_once(self, ledger_id):
        if left:
            raise left.pop()
        await delete_ledger(self, ledger_id)

    async def main():
        async with mledger.open_cluster(topic_url, config=replace(KEEP, metadata_max_entries_per_ledger=1)) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 3)
            await cursor.acknowledge([positions[0]])
            gone = cursor.cursor_ledger
            if left_by == "the owner before":
                await opened.close()
                gone = await make_ledger(topic_url, component="managed-ledger")
                await leave_records(cluster.metadata, opened.name, [gone])
            monkeypatch.setattr(BookKeeper, "delete_ledger", away_once)
            if left_by == "this owner":
                await cursor.acknowledge([positions[1]])
            else:
                opened = await cluster.open_topic(topic)
            while await exists(topic_url, gone):
                await asyncio.sleep(0)
            assert (left, opened.state) == ([], mledger.TopicState.OPEN)

    run(main(), timeout=60.0)
