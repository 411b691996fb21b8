"""Reads from bookies that are under way are shared by all that want the same entries (D6)."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie.errors import BookieUnavailable, NoSuchEntry
from mledger.ledgers.entries.pending_reads import EntryRange, PendingReads, RangePlan, plan_range
from tests.support.aio import run


@pytest.mark.parametrize(
    ("wanted", "cached_from", "plan"),
    [
        ((0, 5), None, RangePlan(None, 5)),
        ((0, 30), None, RangePlan(None, 9)),
        ((0, 30), 7, RangePlan(None, 6)),
        ((10, 12), None, RangePlan(EntryRange(10, 19), 12)),
        ((19, 40), None, RangePlan(EntryRange(10, 19), 40)),
        ((20, 60), None, RangePlan(None, 29)),
        ((40, 60), 50, RangePlan(None, 49)),
    ],
)
def test_a_read_waits_for_one_that_has_its_first_entry_or_ends_before_the_next_one(wanted, cached_from, plan):
    assert plan_range(EntryRange(*wanted), [EntryRange(30, 39), EntryRange(10, 19)], cached_from) == plan


ENTRIES = 60


@given(st.integers(1, 5), st.integers(0, 1 << 32))
def test_readers_that_drain_side_by_side_read_each_entry_once_in_whatever_order_reads_end(count, seed):
    """Every reader asks for the next entries that it lacks; what ended is cached; reads may bring less than asked."""
    chance = random.Random(seed)
    positions = [0] * count
    pending, cached, read = [], set(), []
    while min(positions) < ENTRIES or pending:
        asking = [number for number, position in enumerate(positions) if position < ENTRIES]
        if asking and (not pending or chance.random() < 0.7):
            number = chance.choice(asking)
            first = positions[number]
            last = min(ENTRIES, first + chance.randint(1, 20)) - 1
            if first in cached:
                positions[number] = next(each for each in range(first, last + 2) if each > last or each not in cached)
                continue
            cached_from = min((each for each in cached if each > first), default=None)
            plan = plan_range(EntryRange(first, last), pending, cached_from)
            if plan.awaited is not None:
                assert plan.awaited.first <= first <= plan.awaited.last
            else:
                assert first <= plan.last <= last
                pending.append(EntryRange(first, plan.last))
        if pending and chance.random() < 0.5:
            done = pending.pop(chance.randrange(len(pending)))
            brought = range(done.first, chance.randint(done.first, done.last) + 1)
            read += brought
            cached.update(brought)
    assert sorted(read) == list(range(ENTRIES))


async def begun(reads, end, entered):
    """A read of the entries 3 to 6 of ledger 1 that ends as `end` does."""
    with reads.begin(1, EntryRange(3, 6)) as read:
        entered.set()
        read.payloads = await end


def waiting(meanwhile):
    """What one finds who waits for that read from entry 5 on; `meanwhile(end, reading)` ends it."""

    async def main():
        reads, entered = PendingReads(), asyncio.Event()
        reading = asyncio.create_task(begun(reads, end := asyncio.get_running_loop().create_future(), entered))
        await entered.wait()
        plan = reads.plan(1, EntryRange(5, 9), None)
        assert reads.plan(2, EntryRange(5, 9), None).awaited is None
        other = asyncio.create_task(reads.awaited(1, plan.awaited).from_entry(5))
        await asyncio.sleep(0)
        meanwhile(end, reading)
        await asyncio.wait([reading, other])
        assert reads.plan(1, EntryRange(5, 9), None) == RangePlan(None, 9)
        reading.cancelled() or reading.exception()
        return other.result()

    return run(main())


@pytest.mark.parametrize(("payloads", "found"), [([b"3", b"4", b"5", b"6"], [b"5", b"6"]), ([b"3"], [])])
def test_who_waits_finds_what_the_read_brought_from_his_entry_on(payloads, found):
    assert waiting(lambda end, _: end.set_result(payloads)) == found


def test_who_waits_for_a_read_that_is_cancelled_or_lacks_an_entry_finds_nothing_and_reads_himself():
    assert not waiting(lambda _, reading: reading.cancel())
    assert not waiting(lambda end, _: end.set_exception(NoSuchEntry("gone")))


def test_who_waits_fails_as_the_read_does_when_bookies_do_not_answer():
    with pytest.raises(BookieUnavailable, match="silent"):
        waiting(lambda end, _: end.set_exception(BookieUnavailable("silent")))
