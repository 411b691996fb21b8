"""The cache of the entries appended last: runs shared by readers, bounded by bytes and by age (D6)."""

import asyncio
import tracemalloc

import pytest

from mledger.config import EntryCacheConfig
from mledger.errors import InvalidConfiguration
from mledger.ledgers.entries.cached_runs import ENTRY_OVERHEAD
from mledger.ledgers.entries.entry_cache import EntryCache
from mledger.metastore.records.position import Position
from tests.support.aio import run


class CachedCursor:
    """A cursor's reads, as the cache sees them."""

    def __init__(self, position):
        self.position = position


def payloads(count, size=10):
    """Distinct payloads of one size."""
    return tuple(b"%0*d" % (size, number) for number in range(count))


def add(topic, ledger_id, first, batch, at=0.0):
    """Cache a batch as an append does."""
    topic.add(ledger_id, first, batch, sum(map(len, batch)), at)


def cached(test, **config):
    """Run `test` with a cache, one of its topics, and a reader that is active there."""

    async def main():
        cache = EntryCache(EntryCacheConfig(**({"size_mb": 1, "max_age_ms": 60_000} | config)))
        topic, reader = cache.topic(), CachedCursor(Position(3, 0))
        topic.follow(reader)
        done = test(cache, topic, reader)
        if done is not None:
            await done
        cache.stop()

    run(main())


def test_a_run_is_read_without_copying_it():
    def test(_cache, topic, _reader):
        batch = payloads(50)
        add(topic, 3, 0, batch)
        ((ledger_id, first, found),) = topic.read(3, 0, 49, None)
        assert (ledger_id, first) == (3, 0)
        assert found is batch

    cached(test)


def test_a_read_ends_at_the_first_entry_that_is_not_cached():
    def test(_cache, topic, _reader):
        for first in (0, 40, 120):
            add(topic, 3, first, payloads(40))
        assert [(run.first_entry, len(run.payloads)) for run in topic.read(3, 20, 200, None)] == [(20, 20), (40, 40)]
        assert topic.read(3, 80, 200, None) == []
        assert topic.read(2, 0, 200, None) == topic.read(4, 0, 200, None) == []
        assert [(run.first_entry, len(run.payloads)) for run in topic.read(3, 130, 140, None)] == [(130, 11)]

    cached(test)


@pytest.mark.parametrize(("max_bytes", "count"), [(0, 1), (9, 1), (10, 1), (29, 2), (40, 4), (55, 5), (1000, 8)])
def test_a_read_ends_before_the_entry_that_passes_the_bytes_but_has_one(max_bytes, count):
    def test(_cache, topic, _reader):
        add(topic, 3, 0, payloads(4))
        add(topic, 3, 4, payloads(4))
        found = topic.read(3, 0, 7, max_bytes)
        assert sum(len(run.payloads) for run in found) == count
        assert all(run.payloads for run in found)

    cached(test)


def test_short_runs_are_read_as_one_and_stay_as_they_were_for_earlier_readers():
    def test(_cache, topic, _reader):
        sizes, first = (1, 2, 40, 3, 1), 0
        for count in sizes[:2]:
            add(topic, 3, first, payloads(count))
            first += count
        (early,) = topic.read(3, 0, 100, None)
        for count in sizes[2:]:
            add(topic, 3, first, payloads(count))
            first += count
        assert [(run.first_entry, len(run.payloads)) for run in topic.read(3, 0, 100, None)] == [
            (0, 3),
            (3, 40),
            (43, 4),
        ]
        assert len(early.payloads) == 3

    cached(test)


def test_a_topic_without_an_active_reader_is_not_cached():
    def test(cache, topic, reader):
        add(topic, 3, 0, payloads(4))
        topic.unfollow(reader)
        assert (cache.entries, cache.size) == (0, 0)
        add(topic, 3, 4, payloads(4))
        assert topic.read(3, 4, 7, None) == []

    cached(test)


def test_a_run_leaves_once_the_slowest_active_reader_has_read_past_it():
    def test(cache, topic, reader):
        other = CachedCursor(Position(3, 0))
        topic.follow(other)
        add(topic, 3, 0, payloads(4))
        add(topic, 3, 4, payloads(4))
        add(topic, 5, 0, payloads(4))
        reader.position = Position(5, 4)
        topic.evict_read()
        assert cache.entries == 12
        other.position = Position(3, 4)
        topic.evict_read()
        assert (cache.entries, topic.read(3, 0, 3, None)) == (8, [])
        other.position = Position(5, 0)
        topic.evict_read()
        assert cache.entries == 4
        topic.unfollow(other)
        assert (cache.entries, cache.size, cache.evicted_entries) == (0, 0, 12)

    cached(test)


@pytest.mark.parametrize("order", [list(range(1000)), list(range(1000))[::-1]], ids=["as they follow", "backwards"])
def test_readers_that_take_a_run_in_turn_are_each_asked_a_few_times(order):
    """Ten thousand subscriptions of a topic would hold the loop for seconds at each message."""
    asked = 0

    class Counted(CachedCursor):
        @property
        def position(self):
            nonlocal asked
            asked += 1
            return self.at

        @position.setter
        def position(self, at):
            self.at = at

    def test(cache, topic, reader):
        nonlocal asked
        topic.unfollow(reader)
        readers = [Counted(Position(3, 0)) for _ in order]
        for each in readers:
            topic.follow(each)
        add(topic, 3, 0, payloads(1))
        asked = 0
        for number in order:
            assert cache.entries == 1
            readers[number].position = Position(3, 1)
            topic.evict_read()
        assert cache.entries == 0
        assert asked <= 5 * len(readers)

    cached(test)


def test_above_the_size_the_oldest_entries_of_all_topics_leave_down_to_the_watermark():
    def test(cache, topic, _reader):
        other = cache.topic()
        other.follow(CachedCursor(Position(1, 0)))
        kib = 1024 - ENTRY_OVERHEAD
        add(topic, 3, 0, payloads(512, kib))
        add(other, 1, 0, payloads(512, kib))
        assert cache.size == 1 << 20
        add(topic, 3, 512, payloads(1, kib))
        assert (topic.read(3, 0, 0, None), len(other.read(1, 0, 511, None)[0].payloads)) == ([], 512)
        assert (cache.size, cache.entries, cache.evictions) == (513 * 1024, 513, 1)

    cached(test, eviction_watermark=0.6)


def test_entries_leave_when_their_time_has_passed():
    async def test(cache, topic, _reader):
        now = asyncio.get_running_loop().time()
        add(topic, 3, 0, payloads(4), now - 10)
        add(topic, 3, 4, payloads(4), now + 1000)
        while cache.entries == 8:
            await asyncio.sleep(0.01)
        assert [run.first_entry for run in topic.read(3, 4, 7, None)] == [4]

    cached(lambda *parts: test(*parts), max_age_ms=50)


def test_many_short_runs_are_found_and_forgotten():
    def test(cache, topic, reader):
        for entry in range(5000):
            add(topic, 3, entry, payloads(1))
            reader.position = Position(3, max(0, entry - 100))
            topic.evict_read()
        assert cache.entries == 101
        (found,) = topic.read(3, 4899, 4999, None)
        assert (found.first_entry, len(found.payloads)) == (4899, 101)

    cached(test)


def test_runs_that_were_read_leave_no_trace_behind_one_that_was_not():
    def test(cache, topic, _reader):
        add(topic, 3, 0, payloads(1))  # of a reader that lags, until its time has passed
        other, quick = cache.topic(), CachedCursor(Position(1, 0))
        other.follow(quick)
        tracemalloc.start()
        for entry in range(20_000):
            add(other, 1, entry, payloads(1))
            quick.position = Position(1, entry + 1)
            other.evict_read()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (cache.entries, len(topic.read(3, 0, 0, None))) == (1, 1)
        assert held < 1 << 20

    cached(test)


@pytest.mark.parametrize("bad", [{"size_mb": -1}, {"eviction_watermark": 1.5}, {"max_age_ms": 0}])
def test_a_setting_out_of_range_is_refused_by_its_name(bad):
    with pytest.raises(InvalidConfiguration, match="managedLedgerCache"):
        EntryCacheConfig(**bad)
