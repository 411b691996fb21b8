"""A limit ends what takes longer, also in the clean-up of a cancelled task, and lets other cancellations pass."""

import asyncio

import pytest

from mledger.metastore.runtime.network.time_limit import TimeLimit
from tests.support.aio import run


async def cancel(work):
    """Run `work` until it waits, cancel it, and wait for its end."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_takes_longer_ends_with_a_time_out():
    async def main():
        async with TimeLimit(0.01) as limit:
            await asyncio.Event().wait()
        return limit

    with pytest.raises(TimeoutError):
        run(main())


def test_what_is_done_in_time_tells_that_the_limit_has_not_expired():
    async def main():
        async with TimeLimit(60) as limit:
            pass
        return limit.expired()

    assert run(main()) is False


def test_in_the_clean_up_of_a_cancelled_task_a_limit_ends_with_a_time_out():
    async def clean_up():
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(TimeoutError):
                async with TimeLimit(0.01):
                    await asyncio.Event().wait()

    run(cancel(clean_up()))


def test_a_limit_within_a_limit_that_has_expired_ends_with_a_time_out_of_its_own():
    ended = []

    async def main():
        async with TimeLimit(0.01):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                try:
                    async with TimeLimit(0.01):
                        await asyncio.Event().wait()
                except TimeoutError:
                    ended.append("inner")
                raise

    with pytest.raises(TimeoutError):
        run(main())
    assert ended == ["inner"]


def test_a_task_that_is_cancelled_within_a_limit_is_cancelled():
    async def limited():
        async with TimeLimit(60):
            await asyncio.Event().wait()

    run(cancel(limited()))
