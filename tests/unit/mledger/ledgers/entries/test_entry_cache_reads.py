"""What one cursor reads from bookies is kept while others come to it soon (D6)."""

import asyncio

import pytest

from mledger.config import EntryCacheConfig
from mledger.ledgers.entries import entry_cache
from mledger.ledgers.entries.cached_runs import ENTRY_OVERHEAD
from mledger.ledgers.entries.entry_cache import EntryCache, plan_needed_from
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from tests.support.aio import run

LEDGERS = LedgerList([LedgerInfo(3, entries=150_000), LedgerInfo(5, entries=0), LedgerInfo(7, entries=150_000)])


class NearCursor:
    """A cursor's reads, as the cache sees them."""

    def __init__(self, ledger_id, entry_id):
        self.position = Position(ledger_id, entry_id)


def cached(test, positions, **config):
    """Run `test` with a cache, one of its topics, and cursors that are active there at `positions`."""

    async def main():
        cache = EntryCache(EntryCacheConfig(**({"size_mb": 1, "max_age_ms": 60_000} | config)))
        topic, cursors = cache.topic(), [NearCursor(*each) for each in positions]
        for cursor in cursors:
            topic.follow(cursor)
        done = test(cache, topic, *cursors)
        if done is not None:
            await done
        cache.stop()

    run(main())


def keep(topic, ledger_id, first, count, size=10):
    """Have read entries from bookies; returns whether they are cached."""
    topic.keep(LEDGERS, ledger_id, first, [b"%0*d" % (size, number) for number in range(first, first + count)])
    return bool(topic.read(ledger_id, first, first, None))


@pytest.mark.parametrize(
    ("position", "needed_from"),
    [
        ((3, 500), (-1, -1)),
        ((3, 100_500), (3, 500)),
        ((7, 0), (3, 50_000)),
        ((7, 105_000), (7, 5000)),
    ],
)
def test_a_cursor_is_near_that_stands_so_many_entries_before(position, needed_from):
    assert plan_needed_from(LEDGERS, Position(*position)) == needed_from


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ([], False),
        ([(3, 105_000)], True),
        ([(3, 105_050)], True),
        ([(3, 105_100)], False),  # past it
        ([(3, 5_000)], True),
        ([(3, 4_999)], False),  # too far behind
        ([(3, 4_999), (7, 0), (3, 104_000)], True),
    ],
)
def test_entries_are_kept_if_another_active_cursor_stands_near(others, kept):
    def test(_cache, topic, *_cursors):
        assert keep(topic, 3, 105_000, 100) is kept

    cached(test, [(3, 105_000), *others])


def test_entries_that_were_read_leave_once_those_near_have_passed_whoever_is_far_behind():
    def test(cache, topic, ahead, near, _far):
        assert keep(topic, 3, 105_000, 100)
        ahead.position = Position(3, 105_100)
        topic.evict_read()
        near.position = Position(3, 105_099)
        topic.evict_read()
        assert cache.entries == 100
        near.position = Position(7, 0)
        topic.evict_read()
        assert (cache.entries, cache.size) == (0, 0)

    cached(test, [(3, 105_000), (3, 104_000), (3, 0)])


def test_entries_leave_when_their_cursors_do():
    def test(cache, topic, _one, other):
        assert keep(topic, 3, 0, 10)
        topic.clear()
        assert cache.size == 0
        assert not keep(topic, 3, 0, 10)  # of a read that was under way
        topic.follow(other)
        assert not keep(topic, 3, 0, 10)

    cached(test, [(3, 0), (3, 0)])


def test_a_read_goes_over_entries_that_were_appended_and_read_in_turn():
    def test(_cache, topic, *_cursors):
        for first in (20, 0):
            assert keep(topic, 3, first, 10)
        for first in (10, 30):
            topic.add(3, first, [b"appended"] * 10, 80, 0.0)
        (found,) = topic.read(3, 5, 100, None)
        assert (found.first_entry, len(found.payloads)) == (5, 35)
        assert found.payloads[4:6] == [b"0000000009", b"appended"]
        assert [topic.next_first(3, after) for after in (-1, 0, 25, 30)] == [0, 10, 30, None]

    cached(test, [(3, 0), (3, 0)])


def test_an_entry_is_not_kept_twice():
    def test(cache, topic, *_cursors):
        keep(topic, 3, 10, 10)
        for first, count in ((10, 10), (5, 6), (12, 3), (19, 5), (0, 40)):
            keep(topic, 3, first, count)
        assert cache.entries == 10
        assert keep(topic, 3, 20, 5)
        assert keep(topic, 3, 5, 5)

    cached(test, [(3, 0), (3, 0)])


def test_what_was_read_takes_room_that_is_free_and_makes_room_for_what_is_appended():
    def test(cache, topic, *_cursors):
        kib = 1024 - ENTRY_OVERHEAD
        topic.add(3, 5000, [bytes(kib)] * 512, 512 * kib, asyncio.get_running_loop().time())
        assert keep(topic, 3, 0, 512, kib)
        assert not keep(topic, 3, 512, 1, kib)
        assert cache.size == 1 << 20
        topic.add(3, 6000, [bytes(kib)], kib, asyncio.get_running_loop().time())
        assert (cache.entries, cache.evictions) == (513, 1)
        assert not topic.read(3, 0, 0, None)
        assert topic.read(3, 5000, 5000, None)

    cached(test, [(3, 0), (3, 0)], eviction_watermark=0.9)


def test_what_was_read_leaves_after_a_multiple_of_the_eviction_time(monkeypatch):
    monkeypatch.setattr(entry_cache, "READ_AGES", 2)

    async def test(cache, topic, *_cursors):
        assert keep(topic, 3, 0, 10)
        topic.add(3, 100, [b"appended"], 8, asyncio.get_running_loop().time())
        seen = [cache.entries]
        while cache.entries:
            await asyncio.sleep(0.005)
            if cache.entries != seen[-1]:
                seen.append(cache.entries)
        assert seen == [11, 10, 0]

    cached(lambda *parts: test(*parts), [(3, 0), (3, 0)], max_age_ms=100)


def test_nothing_that_was_read_is_kept_where_the_settings_say_so():
    def test(_cache, topic, *_cursors):
        assert not keep(topic, 3, 0, 10)

    cached(test, [(3, 0), (3, 0)], keeps_reads=False)
