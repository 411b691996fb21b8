"""Reads runs that are in no cache on threads, so that the loop can serve adds meanwhile.

A run that has been read is put in the cache of `JournalReader`, and its waiters are called; they then find it there. A
run with several waiters is read once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from mledger.bookie.server.storage.reads import JournalReader, parse_row, read_frames
from mledger.bookie.server.storage.rows.index import Row
from mledger.bookie.server.storage.rows.runs import StoredRun

THREADS = 4
MOST_BYTES = 16 << 20
"""Bytes read at once, unless one run alone is larger."""

Key = tuple[int, int]


class _Wait(Struct, eq=False):
    """A waiter, and the number of runs that it still waits for."""

    left: int
    done: Callable[[], None]


class ColdReads:
    """Reads runs from the disk. Lives on the loop."""

    def __init__(self, files: JournalReader) -> None:
        """Read into the cache of `files`."""
        self._files = files
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, "cold-reads")
        self._wanted: dict[Key, list[_Wait]] = {}
        self._queue: deque[Row] = deque()
        self._bytes = 0
        self._closed = False

    def fetch(self, rows: Sequence[Row], done: Callable[[], None]) -> None:
        """Read runs, and call `done` when each of them is in memory or has failed."""
        wait = _Wait(len(rows), done)
        for row in rows:
            key = row.file, row.offset
            if key not in self._wanted:
                self._wanted[key] = []
                self._queue.append(row)
            self._wanted[key].append(wait)
        self._begin()

    def close(self) -> None:
        """End the threads; call no more waiters."""
        self._closed = True
        self._queue.clear()
        self._threads.shutdown(cancel_futures=True)

    def _begin(self) -> None:
        while self._queue and (not self._bytes or self._bytes + self._queue[0].length <= MOST_BYTES):
            row = self._queue.popleft()
            self._bytes += row.length
            reading = self._start(row)
            reading.add_done_callback(lambda found, row=row: self._found(row, found))  # type: ignore[misc]

    def _start(self, row: Row) -> "asyncio.Future[StoredRun]":
        """Begin to read a run. Without a thread for it, it fails: else its waiters would wait for good."""
        try:
            return self._loop.run_in_executor(self._threads, self._read, row)
        except RuntimeError as error:
            failed: asyncio.Future[StoredRun] = self._loop.create_future()
            failed.set_exception(error)
            return failed

    def _read(self, row: Row) -> StoredRun:
        """On a thread."""
        (frames,) = read_frames(self._files.directory, row.file, [row])
        return parse_row(row, frames)

    def _found(self, row: Row, reading: "asyncio.Future[StoredRun]") -> None:
        self._bytes -= row.length
        if self._closed:
            return
        error = reading.exception()
        if isinstance(error, Exception):
            self._files.fail(row, error)
        else:
            self._files.keep(row, reading.result())
        for wait in self._wanted.pop((row.file, row.offset)):
            wait.left -= 1
            if not wait.left:
                wait.done()
        self._files.forgive(row)
        self._begin()
