"""Flushes of a bookie's index go on whatever else its process does."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from mledger.bookie.server.serving.index_flushes import IndexFlushes
from tests.support.aio import HANG_S, run


class Flushed:
    """An index that notes its flushes."""

    def __init__(self) -> None:
        self.times = 0

    def flush(self) -> None:
        self.times += 1


def test_a_flush_does_not_wait_for_the_threads_that_the_process_shares():
    async def main():
        loop, go_on, index = asyncio.get_running_loop(), threading.Event(), Flushed()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, go_on.wait, HANG_S)
        flushes = IndexFlushes(index)
        flushes.start()
        flushes.start()
        await flushes.close()
        assert not busy.done()
        go_on.set()
        assert await busy
        return index.times

    assert run(main()) == 2
