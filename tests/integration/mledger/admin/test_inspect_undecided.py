"""Inspection takes no ledger to end where its end is undecided (Q3, Q4, R5, M10)."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.admin.inspect import Inspector
from mledger.admin.repair.repairer import FactsReader
from mledger.bookie.errors import RecoveryUndecided
from mledger.errors import PoliciesUnavailable
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.cli import mledger as command
from tests.support.ledgers import client
from tests.support.recordings.policies import EVENTS, open_events, put_schema
from tests.support.topics import CONFIG, everything, fill, managed_ledger_of, payloads

TOPIC = "persistent://public/default/orders"
TWO_COPIES = replace(CONFIG, write_quorum_size=2, ack_quorum_size=2, max_entries_per_ledger=1000)
"""Each entry is on two of three bookies."""
ONE_COPY = replace(CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


async def lose_last_entry(bookies, ledger):
    """Kill the bookies that hold the last entry of a ledger with two copies; the third one stays."""
    async with client(bookies.metadata_url) as bookkeeper:
        ensemble = (await bookkeeper.metadata(ledger.ledger_id)).ensemble
    last = ledger.entries - 1
    away = {ensemble[last % 3], ensemble[(last + 1) % 3]}
    for bookie in bookies:
        if bookie.bookie_id in away:
            bookie.kill()


@pytest.fixture
def crashed(bookies):
    """A topic of one ledger whose owner has died, with a cursor at its last entry, whose bookies are down."""
    bookies.start(3)

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=TWO_COPIES) as cluster:
            opened = await cluster.create_topic(TOPIC)
            for number in range(10):
                await fill(opened, 1, number)
            await opened.open_cursor("at-end", initial="latest")
            await opened.open_cursor("at-begin")
            (ledger,) = opened.ledgers
            await opened.abandon()
        await lose_last_entry(bookies, ledger)

    run(main())
    return bookies


def test_a_cursor_past_the_visible_end_is_not_moved_back(crashed, tmp_path):
    async def main():
        async with await open_reader(crashed.metadata_url) as reader, client(crashed.metadata_url) as bookkeeper:
            inspector = Inspector(reader, bookkeeper)
            begin, end = await inspector.cursors(TOPIC)
            assert (begin.error, begin.plan.backlog) == (None, 9)
            assert isinstance(end.error, RecoveryUndecided)
            assert any("entry 9 cannot be decided" in each for each in (await inspector.topic(TOPIC)).warnings)
            with pytest.raises(RecoveryUndecided):
                await inspector.opening(TOPIC)
            (facts,) = await FactsReader(reader, bookkeeper).read([managed_ledger_of(TOPIC)])
            assert isinstance(facts, RecoveryUndecided)

    run(main())
    words = ("topics", "repair", TOPIC, "--yes", "--undo-file", tmp_path / "undo.json", "--output", "json")
    done = command(*words, url=crashed.metadata_url)
    assert (done.code, [each["topic"] for each in done.json["not_looked_at"]]) == (5, [TOPIC])
    for bookie in crashed:
        if not bookie.running:
            bookie.start()

    async def backlogs():
        async with mledger.open_cluster(crashed.metadata_url, config=TWO_COPIES) as cluster:
            opened = await cluster.open_topic(TOPIC)
            return [(await opened.open_cursor(name)).backlog for name in ("at-begin", "at-end")]

    assert run(backlogs()) == [10, 0]


def test_a_reader_learns_that_there_may_be_more(crashed):
    done = command("topics", "read", TOPIC, "--first", "0:8", url=crashed.metadata_url)
    assert (done.code, done.out) == (5, "entry-000008\n")
    assert "entry 9 cannot be decided" in done.err
    done = command("topics", "read", TOPIC, "--first", "0:8", "--last", "0:8", url=crashed.metadata_url)
    assert (done.code, done.out) == (0, "entry-000008\n")
    done = command("ledgers", "read", 0, "--first", 8, url=crashed.metadata_url)
    assert (done.code, done.out) == (5, "entry-000008\n")
    done = command("ledgers", "read", 0, "--first", 8, "--last", 8, url=crashed.metadata_url)
    assert (done.code, done.out) == (0, "entry-000008\n")


def test_nothing_is_deleted_while_a_newer_policy_may_keep_it(bookies):
    bookies.start(3)
    url, topic = bookies.metadata_url, "persistent://public/kept/after-compaction"

    async def main():
        async with (
            await open_store(url) as store,
            client(url) as bookkeeper,
            mledger.open_cluster(url, config=TWO_COPIES) as cluster,
        ):
            events = await open_events(cluster, "public/kept", config=TWO_COPIES)
            await events.append([EVENTS[-1]])  # it keeps the topic
            bookies.start(1)
            await put_schema(store, bookkeeper, "public/kept")
            await lose_last_entry(bookies, events.ledgers[-1])
            async with mledger.open_cluster(url, config=ONE_COPY) as other:
                opened = await other.create_topic(topic)
                cursor = await opened.open_cursor("sub")
                await fill(opened, 25)
                await cursor.clear_backlog()
                with pytest.raises(PoliciesUnavailable, match="cannot be decided"):
                    await opened.trim()
                assert await everything(opened) == payloads(25)
            await asyncio.wait_for(events.abandon(), 10)

    run(main(), timeout=120)


def test_topics_open_while_the_state_of_their_policies_compaction_cannot_be_read(bookies):
    bookies.start(2)
    events = "persistent://public/default/__change_events"

    async def main():
        config = replace(ONE_COPY, max_unacked_ranges_to_persist_in_metadata_store=0)
        async with mledger.open_cluster(bookies.metadata_url, config=config) as cluster:
            opened = await cluster.create_topic(events)
            positions = await fill(opened, 5)
            compaction = await opened.open_cursor("__compaction")
            await compaction.acknowledge([positions[1]])
            ledger_id = compaction.cursor_ledger
            await opened.close()
        async with client(bookies.metadata_url) as bookkeeper:
            (away,) = (await bookkeeper.metadata(ledger_id)).ensemble
        for bookie in bookies:
            if bookie.bookie_id == away:
                bookie.kill()
        async with mledger.open_cluster(bookies.metadata_url, config=ONE_COPY, policy_cluster="standalone") as cluster:
            topic = await cluster.create_topic(TOPIC)
            await fill(topic, 25)
            with pytest.raises(PoliciesUnavailable, match="__compaction"):
                await topic.trim()

    run(main(), timeout=60.0)
