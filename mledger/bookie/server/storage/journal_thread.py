"""The thread that writes the journal, and the end of a process that no longer knows what is durable."""

import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, Protocol

from mledger.bookie.server.storage.directories.disk import says_full
from mledger.bookie.server.storage.journal import Journal, JournalPosition
from mledger.metastore.runtime.logs.loggers import flush_logs, get_logger, logs_are_configured

log = get_logger(__name__)

EXIT_STORAGE_FAILED = 74


class Written(Protocol):
    """What a record is written from: a turn."""

    kind: int
    chunks: list[bytes]
    size: int
    adds: int


class JournalThread(threading.Thread):
    """Writes turns one after another. A failed write or sync ends the process: it is not known what is durable."""

    def __init__(self, journal: Journal, synced: Callable[[JournalPosition], None]) -> None:
        super().__init__(name="journal", daemon=True)
        self._journal, self._synced = journal, synced
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._put = self._taken = 0

    @property
    def idle(self) -> bool:
        """Whether all submitted work is done. Only the thread that submits may ask."""
        return self._put == self._taken

    def submit(self, sequence: int, turn: Written) -> None:
        """Write a turn as record `sequence`."""
        self._do(lambda: self.write(sequence, turn))

    def write(self, sequence: int, turn: Written) -> None:
        """Write a turn, sync it and say where it is."""
        self._synced(self._journal.append(sequence, turn.kind, turn.chunks))

    def recycle(self, files: Sequence[int]) -> None:
        """Reuse or remove files of which nothing is needed any more."""
        for file in files:
            self._do(partial(self._recycle, file))

    def _do(self, work: Callable[[], None]) -> None:
        self._put += 1
        self._work.put(work)

    def _recycle(self, file: int) -> None:
        """Give back a file; if that fails, leave it where it is: nothing in it is needed."""
        try:
            self._journal.recycle(file)
        except OSError as error:
            log.error("journal_file_not_given_back", file=file, error=error, hint="it takes up space")

    def keep_reserve(self) -> None:
        """Reserve a file for the time when the disk is full."""
        self._do(self._journal.keep_reserve)

    def stop(self) -> None:
        """End once all submitted work is done."""
        self._work.put(None)
        self.join()

    def run(self) -> None:
        """Do the submitted work until stopped. Without this thread, nothing would ever be answered."""
        try:
            while (work := self._work.get()) is not None:
                self.carry_out(work)
                self._taken += 1
        except BaseException as error:
            end_process("journal_failed", error)

    def carry_out(self, work: Callable[[], None]) -> None:
        """Do one piece of work; whatever it raises ends the process."""
        try:
            work()
        except BaseException as error:
            end_process("journal_failed", error)


def end_process(event: str, error: BaseException) -> NoReturn:
    """End the process at once: what is durable or readable is unknown, and a restart finds it out.

    Where the program has configured no logs, stderr says why. It ends also where there is no memory left to say it.
    """
    try:
        said = f"disk full: {error}: make room and start the bookie again" if says_full(error) else repr(error)
        log.critical(event, reason=said, exc_info=error)
        if not logs_are_configured():
            ends = f"the process ends with exit code {EXIT_STORAGE_FAILED}; the next start finds out what is durable"
            print(f"mledger: {event}: {said}: {ends}", file=sys.stderr, flush=True)
        flush_logs()
    finally:
        os._exit(EXIT_STORAGE_FAILED)
