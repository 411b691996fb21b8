"""Reads ahead of a dispatcher: a consumer that is behind would otherwise wait for bookies once per read.

What bookies send beyond the read is held for the next reads. While less than one read brings is held,
and entries are taken, the next are asked for: a backlog is read while consumers work. What is held is
little, shares the memory of all subscriptions, and is dropped when the cursor moves. Entries from the cache are not
held: they are in memory anyway.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from mledger.bookie.client.plans.read_limits import is_enough
from mledger.broker.topics.subscriptions.read_ahead_memory import ReadAheadMemory
from mledger.cursors.cursor import Cursor
from mledger.ledgers.entries.entry import PayloadRun
from mledger.metastore.records.position import Position

AHEAD_ENTRIES = 1000
AHEAD_BYTES = 1 << 20


class ReadAhead:
    """The normal reads of one cursor. Entries that are held lie before the cursor's read position.

    `memory` is what all subscriptions share; without, this one has as much as it likes.
    """

    def __init__(self, cursor: Cursor, memory: ReadAheadMemory | None = None) -> None:
        self._cursor = cursor
        self._memory = memory or ReadAheadMemory()
        self._held: deque[PayloadRun] = deque()
        self._size = 0  # of what is held, in bytes
        self._awaited = 0  # bytes that what was asked for ahead may have
        self._taken: Sequence[PayloadRun] = ()
        self._coming: asyncio.Task[list[PayloadRun]] | None = None
        self._coming_from = Position(-1, -1)
        self._few = 0  # while fewer entries are held the next are asked for

    @property
    def position(self) -> Position:
        """Where the next read begins."""
        if self._held:
            return Position(self._held[0].ledger_id, self._held[0].first_entry)
        # the cursor has passed what is coming before that is held
        return self._cursor.read_position if self._coming is None else self._coming_from

    def stop(self) -> None:
        """Ask for nothing more."""
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None
        self._await(0)
        self._few = 0

    def close(self) -> None:
        """Ask for nothing more, and hold nothing."""
        self.stop()
        self._held.clear()
        self._count(-self._size)
        self._taken = ()

    def rewind(self) -> None:
        """Read again from the first entry that is not acknowledged."""
        self.close()
        self._cursor.rewind()

    def dispatched(self) -> None:
        """What was read last is dispatched: keep it no longer for `go_back`."""
        self._taken = ()

    def _hold(self, runs: Sequence[PayloadRun]) -> None:
        """Hold these behind what is held."""
        self._held.extend(runs)
        self._count(_size_of(runs))

    def _count(self, more: int) -> None:
        """So many bytes more are held, fewer if that is negative."""
        self._size += more
        self._memory.held += more

    def _await(self, size: int) -> None:
        """At most `size` bytes come now, and nothing of what came before."""
        self._memory.held += size - self._awaited
        self._awaited = size

    def read_now(self, entries: int, max_bytes: int) -> Sequence[PayloadRun]:
        """What can be read without waiting, at most `entries` and about `max_bytes`; nothing if that is nothing."""
        self._drop_acknowledged()
        if self._held:
            self._taken = self._take(entries, max_bytes)
            few = sum(len(run.payloads) for run in self._held) < self._few
            if few and self._coming is None and self._memory.room(self._size) != 0:
                self._ask(entries, max_bytes)
        elif self._coming is not None:
            self._taken = ()
        else:
            self._taken = self._cursor.read_cached(entries, max_bytes)
        return self._taken

    async def read(self, entries: int, max_bytes: int) -> Sequence[PayloadRun]:
        """Read from bookies: what is asked for, and hold what comes beyond it. Raises as `Cursor.read`."""
        coming = self._coming or self._ask(entries, max_bytes)
        await asyncio.wait([coming])
        coming.result()
        self._taken = self._take(entries, max_bytes)
        return self._taken

    def _ask(self, entries: int, max_bytes: int) -> "asyncio.Task[list[PayloadRun]]":
        """Ask for the entries behind those that are held: ahead as far as there is memory."""
        room = self._memory.room(self._size)
        max_bytes = max(min(max_bytes, AHEAD_BYTES), 1)
        if room != 0:
            entries = max(entries, AHEAD_ENTRIES)
            max_bytes = max_bytes if room is None else min(max_bytes, room)
            self._await(max_bytes)
        self._coming_from = self._cursor.read_position
        coming = asyncio.get_running_loop().create_task(self._cursor.read_runs(entries, max_bytes))
        coming.add_done_callback(lambda done: self._came(done, entries, max_bytes))
        self._coming = coming
        return coming

    def _came(self, coming: "asyncio.Task[list[PayloadRun]]", entries: int, max_bytes: int) -> None:
        """Hold what came. A failure is that of whoever waits; else the next read finds out for itself."""
        failed = coming.cancelled() or coming.exception() is not None
        if coming is not self._coming:
            return
        self._coming, self._few = None, 0
        self._await(0)
        if failed:
            return
        came = coming.result()
        self._hold(came)
        count, size = sum(len(run.payloads) for run in came), _size_of(came)
        if count >= entries or is_enough(count, size, max_bytes):  # else the end is near
            self._few = count

    def go_back(self, position: Position) -> None:
        """Make `position`, of an entry read last, the next to read."""
        back = []
        for run in self._taken:
            first = run.first_entry
            if (run.ledger_id, first + len(run.payloads)) <= position:
                continue
            skipped = position.entry_id - first if run.ledger_id == position.ledger_id else 0
            back.append(PayloadRun(run.ledger_id, first + max(0, skipped), run.payloads[max(0, skipped) :]))
        self._held.extendleft(reversed(back))
        self._count(_size_of(back))
        self._taken = ()

    def _take(self, entries: int, max_bytes: int) -> list[PayloadRun]:
        """Held entries within the limits, at least one if there is one."""
        taken: list[PayloadRun] = []
        while entries > 0 and (max_bytes > 0 or not taken):
            self._drop_acknowledged()
            if not self._held:
                break
            ledger_id, first, payloads = self._held.popleft()
            count = size = 0
            for payload in payloads[:entries]:
                if size >= max_bytes and (count or taken):
                    break
                size += len(payload)
                count += 1
            if count < len(payloads):
                self._held.appendleft(PayloadRun(ledger_id, first + count, payloads[count:]))
            if count:
                taken.append(PayloadRun(ledger_id, first, payloads[:count]))
            entries -= count
            max_bytes -= size
            self._count(-size)
            if count < len(payloads):
                break
        return taken

    def _drop_acknowledged(self) -> None:
        """Drop what was acknowledged since it was read, as by expiry, up to the first run that goes out next."""
        while self._held:
            run = self._held.popleft()
            left = self._unacknowledged(run)
            self._held.extendleft(reversed(left))
            if len(left) != 1 or left[0] is not run:
                self._count(_size_of(left) - _size_of([run]))
            if left:
                return

    def _unacknowledged(self, run: PayloadRun) -> list[PayloadRun]:
        """The parts of a run that are not acknowledged."""
        ledger_id, first, payloads = run
        live = self._cursor.acks.live_runs(ledger_id, first, first + len(payloads) - 1)
        if live == [(first, first + len(payloads) - 1)]:
            return [run]
        return [
            PayloadRun(ledger_id, each.first, payloads[each.first - first : each.last + 1 - first]) for each in live
        ]


def _size_of(runs: Sequence[PayloadRun]) -> int:
    """The bytes of all payloads."""
    return sum(sum(map(len, run.payloads)) for run in runs)
