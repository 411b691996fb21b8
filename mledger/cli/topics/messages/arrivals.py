"""Entries that a thread reads from a stream, so that a slow stream does not hold up the event loop."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO

from mledger.cli.topics.messages.payloads import lines
from mledger.messages.pulsar_producer import PublishedEntry

CHUNK = 256 * 1024
BATCH_ENTRIES = 500
BATCH_BYTES = 1024 * 1024
MOST_AHEAD = 4 * BATCH_ENTRIES  # entries read and not yet taken


def arriving_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The lines of `stream` without their newlines, each as soon as it has arrived.

    It reads the stream's file itself: a thread that waits in Python's own buffered reader keeps the
    interpreter from ending.
    """
    try:
        descriptor = stream.fileno()
    except OSError:  # a stream in memory
        yield from lines(stream)
        return
    rest = bytearray()
    while chunk := os.read(descriptor, CHUNK):
        *complete, last = chunk.split(b"\n")
        for line in complete:
            yield bytes(rest) + line
            rest.clear()
        rest += last
    if rest:
        yield bytes(rest)


class Arrivals:
    """Entries in the order of their arrival, in batches of what is there: at most 500 and about 1 MiB.

    A daemon thread takes them from `entries`; an error there is raised behind the entries before it.
    """

    def __init__(self, entries: Iterator[PublishedEntry]) -> None:
        self._entries = entries
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[PublishedEntry] = deque()
        self._room = threading.Semaphore(MOST_AHEAD)
        self._news = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None

    async def batches(self) -> AsyncIterator[list[PublishedEntry]]:
        """The batches, until the stream ends."""
        threading.Thread(target=self._read, name="entries", daemon=True).start()
        while True:
            self._news.clear()
            ended = self._ended  # before the look: what arrived before the end is seen below
            while self._arrived:
                yield self._take()
            if ended:
                break
            await self._news.wait()
        if self._error is not None:
            raise self._error

    def _take(self) -> list[PublishedEntry]:
        batch: list[PublishedEntry] = []
        size = 0
        while self._arrived and len(batch) < BATCH_ENTRIES and size < BATCH_BYTES:
            batch.append(self._arrived.popleft())
            size += len(batch[-1].payload)
        self._room.release(len(batch))
        return batch

    def _read(self) -> None:
        try:
            for entry in self._entries:
                self._room.acquire()
                self._arrived.append(entry)
                if not self._news.is_set():  # `batches` clears it before it looks
                    self._wake()
        except Exception as error:
            self._error = error
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop is closed: the command has ended
            return
