"""Tailing cursors are served from what was appended, and others from bookies (D6)."""

import asyncio

import mledger
from mledger.config import EntryCacheConfig
from mledger.ledgers.entries.entry import entries_of
from tests.support.aio import run
from tests.support.http import get, undocumented
from tests.support.topics import KEEP, fill, payloads

CACHE = EntryCacheConfig(size_mb=64, max_age_ms=60_000)


def test_ten_tailing_cursors_read_each_entry_without_asking_a_bookie(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            cursors = [await opened.open_cursor(f"sub-{number}") for number in range(10)]
            for cursor in cursors:
                cursor.set_active(True)
            positions = await fill(opened, 35)  # four ledgers
            counters = cluster.counters.of(opened.name)
            found = [entries_of(cursor.read_cached(100)) for cursor in cursors]
            assert [[entry.payload for entry in each] for each in found] == [payloads(35)] * 10
            assert [entry.position for entry in found[0]] == positions
            assert (counters.cache_hits, counters.cache_misses, counters.reads) == (350, 0, 0)
            assert cluster.cache.entries == 0  # every active cursor has read past them

    run(main())


def test_a_cursor_that_is_behind_reads_from_bookies_and_does_not_fill_the_cache(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 15)
            cursor.set_active(True)
            await fill(opened, 15, 15)
            assert cursor.read_cached(100) == []
            found = [entry.payload for entry in await cursor.read(100)]
            assert found == payloads(30)
            counters = cluster.counters.of(opened.name)
            assert counters.cache_hits + counters.cache_misses == 30
            assert counters.cache_misses >= 15
            cursor.rewind()
            assert [entry.payload for entry in await cursor.read(100)] == payloads(30)
            assert counters.cache_misses >= 45
            assert cluster.cache.entries == 0

    run(main())


def test_acknowledged_entries_are_cut_out_of_cached_runs(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            cursor.set_active(True)
            positions = await fill(opened, 9)
            cursor.acknowledge([positions[0], positions[3], positions[4], positions[8]])
            (first, *others) = await cursor.read_runs(3)
            assert (first.first_entry, list(first.payloads)) == (1, payloads(2, 1))
            assert [(run.first_entry, len(run.payloads)) for run in others] == [(5, 1)]
            assert [run.first_entry for run in cursor.read_cached(100)] == [6]
            assert cursor.read_position == mledger.Position(positions[8].ledger_id, 9)  # past the acknowledged one

    run(main())


def test_entries_of_a_failed_owner_are_not_kept(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            cursor.set_active(True)
            await fill(opened, 9)
            assert cluster.cache.entries == 9
            opened._record.fence("a test says so")
            assert cluster.cache.entries == 0

    run(main())


def test_the_cache_is_seen_in_metrics(topic_url, topic):
    async def main():
        metrics = mledger.MetricsOptions(cluster_name="test")
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE, metrics=metrics) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            cursor.set_active(True)
            await asyncio.gather(fill(opened, 4), fill(opened, 5, 4))
            cursor.read_cached(3)
            answer = await get(cluster.metrics_port, "/metrics")
            assert undocumented(answer) == []
            found = answer.samples
            assert found['pulsar_ml_cache_entries{cluster="test"}'] == 9
            assert found['pulsar_ml_cache_inserted_entries_total{cluster="test"}'] == 9
            assert found['pulsar_ml_cache_used_size{cluster="test"}'] == cluster.cache.size
            assert found['mledger_cache_hits_total{cluster="test",namespace="tests/ns"}'] == 3

    run(main())
