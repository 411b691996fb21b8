"""Coroutines run for callers that block, with and without a running event loop."""

import asyncio
import threading

import pytest

from mledger.metastore.runtime.processes.blocking_loop import BlockingLoop
from tests.support.aio import run


async def thread_and_loop():
    return threading.current_thread(), asyncio.get_running_loop()


def test_it_runs_in_the_thread_that_asks():
    with BlockingLoop() as loop:
        thread, _ = loop.run(thread_and_loop())
    assert thread is threading.current_thread()


def test_all_calls_share_a_loop():
    with BlockingLoop() as loop:
        assert loop.run(thread_and_loop()) == loop.run(thread_and_loop())


def test_where_a_loop_runs_it_has_a_thread_of_its_own():
    async def main():
        with BlockingLoop() as loop:
            thread, own = loop.run(thread_and_loop())
            assert loop.run(thread_and_loop()) == (thread, own)
        assert own is not asyncio.get_running_loop()
        assert not thread.is_alive()

    run(main())


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a loop"])
def test_errors_reach_the_caller(inside):
    async def fail():
        raise LookupError("none")

    async def main():
        with BlockingLoop() as loop, pytest.raises(LookupError, match="none"):
            loop.run(fail())

    if inside:
        run(main())
    else:
        with BlockingLoop() as loop, pytest.raises(LookupError, match="none"):
            loop.run(fail())
