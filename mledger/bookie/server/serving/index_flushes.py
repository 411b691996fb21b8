"""Flushes of the index on a thread of their own, one at a time; a flush that fails ends the process.

On the threads that all share, they would wait behind others' work: the checks of clients' passwords in a standalone.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from mledger.bookie.server.storage.journal_thread import end_process
from mledger.bookie.server.storage.rows.index import Index


class IndexFlushes:
    """Flushes the index whenever that is asked for. Lives on the loop."""

    def __init__(self, index: Index) -> None:
        self._index, self._loop = index, asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "index-flush")
        self._thread.submit(int)  # begins it now: later the system may have no more threads
        self._flush: asyncio.Future[None] | None = None
        self._again = False
        self.awaited = False
        """Whether a turn waits for room in the index."""

    def start(self) -> None:
        """Flush, so that a restart replays little; once more if a flush is in progress: it may lack the last rows."""
        if self._flush is not None:
            self._again = True
            return
        self._flush = self._loop.run_in_executor(self._thread, self._index.flush)
        self._flush.add_done_callback(self._flushed)

    def make_room(self) -> bool:
        """Whether the index has room for a turn; if it has none, it is flushed: a disk that fails ends the process."""
        self.awaited = self._index.crowded
        if self.awaited and self._flush is None:
            self.start()
        return not self.awaited

    async def done(self) -> None:
        """Return when no flush is in progress."""
        while self._flush is not None:
            await asyncio.wait([self._flush])

    async def close(self) -> None:
        """Return when no flush is in progress, and end the thread; nothing may be asked for afterwards."""
        await self.done()
        self._thread.shutdown()

    def _flushed(self, done: "asyncio.Future[None]") -> None:
        self._flush = None
        error = done.exception()
        if error is not None:
            end_process("index_flush_failed", error)
        if self._again:
            self._again = False
            self.start()
