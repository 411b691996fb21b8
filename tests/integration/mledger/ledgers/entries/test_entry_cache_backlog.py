"""Cursors that drain a backlog side by side read each entry from bookies at most once (D6)."""

import asyncio

import pytest

import mledger
from mledger.config import EntryCacheConfig
from tests.support.aio import run
from tests.support.topics import KEEP, fill, payloads

CACHE = EntryCacheConfig(size_mb=64, max_age_ms=60_000)
BACKLOG = 400


async def drained(cursor, at_once, start=None, progress=None):
    """The payloads that a cursor reads to the end, once `start` says so; `progress(entries)` is told how far it is."""
    if start is not None:
        await start.wait()
    found = []
    while runs := await cursor.read_runs(at_once, 2000):
        found += [payload for each in runs for payload in each.payloads]
        if progress is not None:
            progress(len(found))
    return found


@pytest.mark.parametrize("lag", [0, 7, 33], ids=["at the same time", "shortly after each other", "later"])
def test_ten_cursors_that_drain_a_backlog_read_each_entry_from_bookies_once(topic_url, topic, lag):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            first, *others = [await opened.open_cursor(f"sub-{number}") for number in range(10)]
            await fill(opened, BACKLOG)
            for cursor in (first, *others):
                cursor.set_active(True)
            starts = [asyncio.Event() for _ in others]

            def progress(entries):
                for number, start in enumerate(starts, 1):
                    if entries >= lag * number:
                        start.set()

            tasks = [drained(cursor, 5 + number, starts[number]) for number, cursor in enumerate(others)]
            found = await asyncio.gather(drained(first, 13, None, progress), *tasks)
            assert found == [payloads(BACKLOG)] * 10
            counters = cluster.counters.of(opened.name)
            assert counters.entries_read == counters.cache_misses == BACKLOG
            assert counters.cache_hits == 9 * BACKLOG
            assert cluster.cache.entries == 0

    run(main())


def test_reads_under_way_are_shared_without_a_cache_too(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursors = [await opened.open_cursor(f"sub-{number}") for number in range(10)]
            await fill(opened, 9)
            found = await asyncio.gather(*(cursor.read(9) for cursor in cursors))
            assert [[entry.payload for entry in each] for each in found] == [payloads(9)] * 10
            assert cluster.counters.of(opened.name).entries_read == 9

    run(main())


def test_a_reader_that_is_cancelled_does_not_take_the_others_along(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            cursors = [await opened.open_cursor(f"sub-{number}") for number in range(4)]
            await fill(opened, 9)
            reading = [asyncio.create_task(cursor.read(9)) for cursor in cursors]
            await asyncio.sleep(0)
            reading[0].cancel()
            await asyncio.wait(reading)
            assert reading[0].cancelled()
            assert [[entry.payload for entry in each.result()] for each in reading[1:]] == [payloads(9)] * 3

    run(main())


def test_cursors_that_drift_far_apart_leave_the_cache_within_its_size(topic_url, topic):
    cache = EntryCacheConfig(size_mb=1, max_age_ms=60_000)

    async def main():
        async with mledger.open_cluster(topic_url, cache=cache) as cluster:
            opened = await cluster.create_topic(topic)
            ahead, behind = [await opened.open_cursor(f"sub-{number}") for number in range(2)]
            batch = [b"%04096d" % number for number in range(1000)]  # four times the cache
            await opened.append(batch)
            for cursor in (ahead, behind):
                cursor.set_active(True)
            sizes = []
            found = await drained(ahead, 50, None, lambda _: sizes.append(cluster.cache.size))
            assert found == batch
            assert cache.size // 2 < max(sizes) <= cache.size
            assert await drained(behind, 50, None, lambda _: sizes.append(cluster.cache.size)) == batch
            assert max(sizes) <= cache.size
            assert cluster.cache.size == 0
            counters = cluster.counters.of(opened.name)
            assert counters.cache_hits + counters.cache_misses == 2000
            assert counters.entries_read < 1900  # what was kept is what comes first for the one behind

    run(main())


def test_a_cursor_that_seeks_back_reads_again_what_all_have_passed(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            one, other = [await opened.open_cursor(f"sub-{number}") for number in range(2)]
            await fill(opened, 35)
            for cursor in (one, other):
                cursor.set_active(True)
            assert await drained(one, 10) == payloads(35)
            one.rewind()
            assert await drained(one, 10) == await drained(other, 10) == payloads(35)
            assert cluster.counters.of(opened.name).entries_read == 35
            other.rewind()
            assert await drained(other, 10) == payloads(35)
            assert cluster.counters.of(opened.name).entries_read == 70
            assert cluster.cache.entries == 0

    run(main())
