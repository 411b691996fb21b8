"""A cursor replays scattered positions from the cache and from bookies (D3, D6)."""

import mledger
from mledger.config import EntryCacheConfig
from mledger.ledgers.entries.entry import entries_of
from tests.support.aio import run
from tests.support.topics import CONFIG, KEEP, fill

CACHE = EntryCacheConfig(size_mb=64, max_age_ms=60_000)


def test_scattered_positions_are_few_requests(topic_url, topic):
    async def main():
        config = mledger.ManagedLedgerConfig(3, 3, 2, retention_time_ms=-1, retention_size_in_mb=-1)
        async with mledger.open_cluster(topic_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 300)
            wanted = [*positions[0:100:3], *positions[200:300:5]]
            counters = cluster.counters.of(opened.name)
            found = await opened.read_positions(wanted)
            assert [entry.position for entry in entries_of(found.runs)] == wanted
            assert (found.missing, counters.reads) == ((), 2)

    run(main())


def test_a_replay_leaves_out_what_is_acknowledged_or_trimmed_and_keeps_the_read_position(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 35)
            await cursor.read(30)
            await cursor.acknowledge([*positions[:20], positions[25]])
            await opened.trim()
            at = cursor.read_position
            found = await cursor.read_positions([positions[n] for n in (3, 21, 22, 25, 31)])
            assert [entry.position for entry in entries_of(found.runs)] == [positions[n] for n in (21, 22, 31)]
            assert found.missing == (positions[3], positions[25])
            assert cursor.read_position == at

    run(main())


def test_a_replay_asks_the_cache_first(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, cache=CACHE) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            cursor.set_active(True)
            positions = await fill(opened, 9)
            found = await cursor.read_positions([positions[1], positions[7]])
            assert [entry.position for entry in entries_of(found.runs)] == [positions[1], positions[7]]
            assert cluster.counters.of(opened.name).reads == 0

    run(main())
