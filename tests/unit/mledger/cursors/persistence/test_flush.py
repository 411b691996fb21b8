"""A cursor's writes are coalesced and throttled (C3): one write for everything that has arrived."""

import asyncio

import pytest

from mledger.cursors.persistence.flush import Flusher, fail, succeed
from mledger.metastore.errors import MledgerError
from tests.support.aio import run


class Writes:
    """Writes that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[None]] = []

    async def __call__(self) -> None:
        self.begun.append(asyncio.get_running_loop().create_future())
        await self.begun[-1]

    async def wait_for(self, count: int) -> None:
        while len(self.begun) < count:
            await asyncio.sleep(0)


def test_what_arrives_in_one_turn_is_one_write():
    async def main():
        writes = Writes()
        flusher = Flusher(writes, 0.0)
        waiters = [flusher.request() for _ in range(100)]
        await writes.wait_for(1)
        writes.begun[0].set_result(None)
        await asyncio.gather(*waiters)
        assert len(writes.begun) == 1
        assert not flusher.busy

    run(main())


def test_what_arrives_during_a_write_waits_for_the_next():
    async def main():
        writes = Writes()
        flusher = Flusher(writes, 0.0)
        first = flusher.request()
        await writes.wait_for(1)
        later = [flusher.request() for _ in range(10)]
        writes.begun[0].set_result(None)
        await first
        await writes.wait_for(2)
        assert not any(waiter.done() for waiter in later)
        writes.begun[1].set_result(None)
        await asyncio.gather(*later)
        assert len(writes.begun) == 2

    run(main())


def test_a_failure_reaches_only_the_callers_of_that_write():
    async def main():
        writes = Writes()
        flusher = Flusher(writes, 0.0)
        first = flusher.request()
        await writes.wait_for(1)
        later = flusher.request()
        writes.begun[0].set_exception(MledgerError("no"))
        with pytest.raises(MledgerError, match="no"):
            await first
        await writes.wait_for(2)
        writes.begun[1].set_result(None)
        await later

    run(main())


def test_the_throttle_delays_the_second_write_and_flush_releases_it():
    async def main():
        writes = Writes()
        flusher = Flusher(writes, 1000.0)
        first = flusher.request()
        await writes.wait_for(1)
        writes.begun[0].set_result(None)
        await first
        throttled = flusher.request()
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(writes.begun) == 1
        flushing = asyncio.ensure_future(flusher.flush())
        await writes.wait_for(2)
        writes.begun[1].set_result(None)
        await asyncio.gather(throttled, flushing)

    run(main())


def test_stop_waits_for_the_current_write_and_returns_the_callers_of_the_next():
    async def main():
        writes = Writes()
        flusher = Flusher(writes, 1000.0)
        first = flusher.request()
        await writes.wait_for(1)
        left_over = [flusher.request(), flusher.request()]
        stopping = asyncio.ensure_future(flusher.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        writes.begun[0].set_result(None)
        waiters = await stopping
        assert first.done()
        assert waiters == left_over
        assert len(writes.begun) == 1
        succeed(waiters[:1])
        fail(waiters[1:], MledgerError("closed"))
        await left_over[0]
        with pytest.raises(MledgerError, match="closed"):
            await left_over[1]

    run(main())


def test_a_cancelled_waiter_does_not_stop_the_others():
    async def main():
        writes = Writes()
        flusher = Flusher(writes, 0.0)
        gone, stays = flusher.request(), flusher.request()
        gone.cancel()
        await writes.wait_for(1)
        writes.begun[0].set_result(None)
        await stays

    run(main())


def test_who_asked_during_a_write_that_ends_unexpectedly_is_told_too():
    async def main():
        writes = Writes()
        flusher = Flusher(writes, 0.0)
        unexpected = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context["exception"]))
        first = flusher.request()
        await writes.wait_for(1)
        second = flusher.request()
        writes.begun[0].set_exception(ValueError("a bug"))
        for waiter in (first, second):
            with pytest.raises(MledgerError, match="a bug"):
                await waiter
        assert not flusher.busy

    run(main())
