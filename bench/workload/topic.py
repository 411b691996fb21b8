"""The topic that benchmarks append to and read from."""

import asyncio
import itertools
import time
from collections.abc import Sequence

import mledger
from bench.workload.payloads import batches

NAME = "persistent://bench/bench/topic"
CONFIG = mledger.ManagedLedgerConfig(
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    retention_time_ms=-1,  # consumed ledgers are retained, to be read back
    retention_size_in_mb=-1,
)
MAX_BATCH = 500
READ_ENTRIES = 1000
READ_BYTES = 4 << 20


class AppendLoad:
    """Appends the pool's payloads in turn with `window` of them in flight: entry n holds payload n."""

    def __init__(self, ledger: mledger.ManagedLedger, payloads: list[bytes], window: int) -> None:
        self._ledger = ledger
        self._window = window
        self._size = min(MAX_BATCH, max(1, window // 8))
        self._batches = batches(payloads, self._size)
        self._in_flight = 0
        self._until = 0.0
        self._limit = 0
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.appended = 0
        self.delays: list[float] = []  # seconds from append to acknowledgement, one a batch
        self.last: mledger.Position | None = None  # the last acknowledged

    async def for_seconds(self, seconds: float) -> float:
        """Append for `seconds`; returns the seconds until the last acknowledgement."""
        return await self._run(time.perf_counter() + seconds, 1 << 62)

    async def entries(self, count: int) -> float:
        """Append at least `count` entries; returns the seconds until the last acknowledgement."""
        return await self._run(float("inf"), count)

    async def _run(self, until: float, limit: int) -> float:
        self._until, self._limit = until, limit
        start = time.perf_counter()
        self._fill()
        await self._done
        return time.perf_counter() - start

    def _fill(self) -> None:
        now = time.perf_counter()
        if now >= self._until or self.appended >= self._limit:
            if not self._in_flight and not self._done.done():
                self._done.set_result(None)
            return
        while self._in_flight + self._size <= self._window and self.appended < self._limit:
            self._in_flight += self._size
            self.appended += self._size
            self._ledger.append(next(self._batches)).add_done_callback(_Completion(self, now))

    def completed(self, where: "asyncio.Future[tuple[mledger.AppendedRange, ...]]", sent_at: float) -> None:
        """Note that a batch is acknowledged, or has failed."""
        if self._done.done():
            return
        if error := where.exception():
            self._done.set_exception(error)
            return
        self._in_flight -= self._size
        self.delays.append(time.perf_counter() - sent_at)
        end = where.result()[-1]
        self.last = mledger.Position(end.ledger_id, end.last_entry)
        self._fill()


class _Completion:
    __slots__ = ("_load", "_sent_at")

    def __init__(self, load: AppendLoad, sent_at: float) -> None:
        self._load = load
        self._sent_at = sent_at

    def __call__(self, where: "asyncio.Future[tuple[mledger.AppendedRange, ...]]") -> None:
        self._load.completed(where, self._sent_at)


class WrongEntry(Exception):
    """An entry read back differs from what was appended there."""


async def verify(ledger: mledger.ManagedLedger, payloads: Sequence[bytes], count: int) -> int:
    """Read the topic from its first entry to its last and compare each with the pool; returns the number of entries.

    Raises:
        WrongEntry: an entry differs, or the number is not `count`.
    """
    expected = itertools.cycle(payloads)
    position = mledger.Position(ledger.ledgers[0].ledger_id, 0)
    seen = 0
    while seen < count:
        entries = await ledger.read(position, READ_ENTRIES, READ_BYTES)
        if not entries:
            break
        for entry in entries:
            if entry.payload != next(expected):
                raise WrongEntry(f"entry {seen} at {entry.position} differs from what was appended there")
        seen += len(entries)
        last = entries[-1].position
        position = mledger.Position(last.ledger_id, last.entry_id + 1)
    if seen != count or await ledger.read(position, 1):
        raise WrongEntry(f"{count} entries were acknowledged, but {seen} or more were read back")
    return seen
