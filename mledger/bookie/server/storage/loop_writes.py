"""Writes of small turns on the event loop itself, in a process where the bookie's clients share that loop."""

from __future__ import annotations

import time
from collections.abc import Callable

from mledger.bookie.server.storage.journal import Journal, JournalPosition
from mledger.bookie.server.storage.journal_thread import JournalThread, Written

SMALL_ADDS, SMALL_BYTES = 2, 1 << 20
"""The most adds and bytes of a turn that is written on the loop. While a larger one is written, there is more to do."""

QUICK_S = 0.001
"""How long the record before may have taken to write and sync."""

_THREAD_TIMES = 20


class LoopWrites(JournalThread):
    """Writes a small turn at once, on the loop, while the disk is quick, and every other turn on the journal's thread.

    A fast disk syncs a small record in less time than it takes to wake a thread and to be woken by it. Nothing else
    runs on the loop meanwhile, so after a slow write the thread writes for twenty times as long as that took.
    """

    def __init__(
        self,
        journal: Journal,
        synced: Callable[[JournalPosition], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(journal, synced)
        self._clock = clock
        self._thread_until = 0.0

    def submit(self, sequence: int, turn: Written) -> None:
        """Write a turn as record `sequence`; it may be written when this returns."""
        if self._fits(turn):
            self.carry_out(lambda: self.write(sequence, turn))
        else:
            super().submit(sequence, turn)

    def _fits(self, turn: Written) -> bool:
        """Whether a turn is to be written on the loop: never while the thread does anything, which uses the journal."""
        journal, now = self._journal, self._clock()
        took = journal.write_s + journal.sync_s
        if took > QUICK_S:
            self._thread_until = max(self._thread_until, now + took * _THREAD_TIMES)
        small = turn.adds <= SMALL_ADDS and turn.size <= SMALL_BYTES
        return small and now >= self._thread_until and self.idle and journal.holds(turn.size)
