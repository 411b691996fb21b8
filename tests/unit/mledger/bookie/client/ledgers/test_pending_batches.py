"""Batches that are sent but not complete: in what order they complete, and what is left of them (M4, M5)."""

import asyncio

import pytest

from mledger.bookie.client.ledgers.pending_batches import PendingBatch, PendingBatches, failed_future
from mledger.bookie.errors import LedgerClosed
from tests.support.aio import run

FAILURE = LedgerClosed("the test closed it")


def pending(*sizes, first=0):
    """Batches with these numbers of entries; entry e has a payload of e bytes."""
    batches, futures, length = PendingBatches(), [], sum(range(first))
    for size in sizes:
        payloads = [bytes(entry) for entry in range(first, first + size)]
        futures.append(asyncio.get_running_loop().create_future())
        batches.add(PendingBatch(first, first + size, payloads, first - 1, length, futures[-1]))
        first, length = first + size, length + sum(map(len, payloads))
    return batches, futures


def test_a_batch_completes_with_its_last_entry():
    async def main():
        batches, (one, two, three) = pending(4, 3, 2)
        assert not batches.are_ready(3)
        batches.complete(3)
        assert not one.done()
        assert batches.are_ready(8)
        batches.complete(8)
        assert (one.result(), two.result(), three.done()) == (0, 4, False)
        assert len(batches) == 1

    run(main())


def test_the_frame_of_the_last_complete_entry_is_kept():
    async def main():
        batches = PendingBatches()
        for first in (0, 2):
            future = asyncio.get_running_loop().create_future()
            batches.add(PendingBatch(first, first + 2, [b"", b""], first - 1, 0, future, (b"head", b"%d" % first)))
        kept = [batches.frame_before(0)]
        for below in (1, 2, 3, 4):
            batches.complete(below)
            kept.append(batches.frame_before(below))
        assert kept == [(), (), (b"head", b"0"), (), (b"head", b"2")]

    run(main())


def test_a_batch_without_a_waiter_is_passed_over():
    async def main():
        batches, (one, two) = pending(2, 2)
        one.cancel()
        batches.complete(4)
        assert two.result() == 2

    run(main())


def test_nothing_is_ready_when_nothing_is_pending():
    assert not PendingBatches().are_ready(99)


def test_payloads_are_kept_from_an_entry_on():
    async def main():
        batches, _ = pending(4, 3, first=10)
        assert [len(payload) for payload in batches.payloads_from(12)] == [12, 13, 14, 15, 16]
        assert [len(payload) for payload in batches.payloads_from(14)] == [14, 15, 16]
        assert [len(payload) for payload in batches.payloads_from(3)] == [10, 11, 12, 13, 14, 15, 16]
        assert batches.payloads_from(17) == []

    run(main())


def test_payloads_outlive_a_failure():
    async def main():
        batches, (one, two) = pending(2, 2)
        batches.complete(2)
        batches.fail(FAILURE)
        assert (one.result(), two.exception()) == (0, FAILURE)
        assert [len(payload) for payload in batches.payloads_from(2)] == [2, 3]

    run(main())


def test_the_length_before_an_entry():
    async def main():
        batches, _ = pending(4, 3)
        assert [batches.length_below(entry, 21) for entry in range(8)] == [0, 0, 1, 3, 6, 10, 15, 21]
        batches.complete(4)
        assert batches.length_below(5, 21) == 10

    run(main())


def test_batches_since_an_entry():
    async def main():
        batches, _ = pending(4, 3, 2)
        assert [batch.first for batch in batches.since(3)] == [0, 4, 7]
        assert [batch.first for batch in batches.since(4)] == [4, 7]
        assert list(batches.since(9)) == []

    run(main())


def test_drained_waits_for_the_last_batch():
    async def main():
        batches, _ = pending(2, 2)
        waiting = [asyncio.ensure_future(batches.drained()) for _ in range(2)]
        await asyncio.sleep(0)
        batches.complete(2)
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        batches.complete(4)
        await asyncio.gather(*waiting)
        await batches.drained()

    run(main())


def test_drained_raises_the_failure_of_the_batches():
    async def main():
        batches, _ = pending(2)
        waiting = asyncio.ensure_future(batches.drained())
        await asyncio.sleep(0)
        batches.fail(FAILURE)
        with pytest.raises(LedgerClosed):
            await waiting

    run(main())


def test_a_failed_future_raises_its_failure():
    async def main():
        with pytest.raises(LedgerClosed):
            await failed_future(FAILURE)

    run(main())
