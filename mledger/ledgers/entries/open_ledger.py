"""The ledger that a topic writes to: its pushed, acknowledged and unacknowledged batches (M4, M5)."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.config import ManagedLedgerConfig
from mledger.counters import NamespaceCounters
from mledger.ledgers.entries.entry_cache import TopicCache
from mledger.ledgers.ledger_list import LedgerEnd, rollover_reason
from mledger.metastore.records.position import Position


@dataclass(frozen=True, slots=True)
class AppendedRange:
    """Entries `first_entry` to `last_entry` (inclusive) of a ledger, which hold a batch or a part of it."""

    ledger_id: int
    first_entry: int
    last_entry: int

    def __len__(self) -> int:
        return self.last_entry - self.first_entry + 1

    def positions(self) -> list[Position]:
        """The position of each entry."""
        return [Position(self.ledger_id, entry) for entry in range(self.first_entry, self.last_entry + 1)]


Appended = tuple[AppendedRange, ...]


class Batch:
    """A batch being appended: `left` of its entries are not yet acknowledged."""

    __slots__ = ("future", "left", "ranges")

    def __init__(self, future: "asyncio.Future[Appended]", left: int) -> None:
        self.future = future
        self.left = left
        self.ranges: Appended = ()

    def acknowledge(self, where: AppendedRange) -> None:
        """Note that a part of the batch is acknowledged; the last part completes the future."""
        self.ranges = (*self.ranges, where) if self.ranges else (where,)
        self.left -= len(where)
        if not self.left and not self.future.done():
            self.future.set_result(self.ranges)

    def fail(self, error: BaseException) -> None:
        """Fail the batch: a part of it is in no ledger."""
        if not self.future.done():
            self.future.set_exception(error)


class _Piece:
    """The part of a batch pushed in one append, at time `at`; `length` is the ledger's length after it.

    The writer holds the payloads of its `count` entries. If the writer rejected them, `refused`
    does.
    """

    __slots__ = ("at", "batch", "count", "first", "length", "refused")

    def __init__(
        self, batch: Batch, count: int, first: int, length: int, at: float, refused: Sequence[bytes] | None
    ) -> None:
        self.at = at
        self.batch = batch
        self.count = count
        self.first = first
        self.length = length
        self.refused = refused


class OpenLedger:
    """A writer and the unacknowledged batches pushed to it, oldest first.

    `on_confirmed` is called whenever entries are acknowledged, `on_failed` once, when an add fails.
    """

    def __init__(
        self,
        writer: LedgerWriter,
        config: ManagedLedgerConfig,
        on_confirmed: Callable[["OpenLedger"], None],
        on_failed: Callable[["OpenLedger"], None],
        now_ms: int,
        counters: NamespaceCounters,
        cache: TopicCache | None = None,
    ) -> None:
        self._cache = cache
        self._time = asyncio.get_running_loop().time
        self._counters = counters
        self.writer = writer
        self.ledger_id = writer.ledger_id
        self.pushed = 0
        self.confirmed = 0
        self.confirmed_size = 0
        self.failure: BaseException | None = None
        self.created_ms = now_ms
        self.may_roll_ms = now_ms + config.minimum_rollover_time_ms
        self._config = config
        self._on_confirmed = on_confirmed
        self._on_failed = on_failed
        self._sent: deque[_Piece] = deque()
        self._drained: asyncio.Future[None] | None = None

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Replace the settings."""
        self._config = config
        self.may_roll_ms = self.created_ms + config.minimum_rollover_time_ms

    def is_full(self, now_ms: int) -> bool:
        """Whether the ledger is due for rollover at `now_ms` (M4)."""
        return rollover_reason(self._config, self.pushed, self.writer.length, now_ms - self.created_ms) is not None

    def room(self, now_ms: int) -> int:
        """How many more entries may be pushed before the ledger is full."""
        if self.created_ms <= now_ms < self.may_roll_ms:
            return sys.maxsize  # no limit applies before the minimum rollover time
        return max(1, self._config.max_entries_per_ledger - self.pushed)

    def push(self, batch: Batch, payloads: Sequence[bytes]) -> None:
        """Append `payloads`, all or a part of `batch`, in one call."""
        writer = self.writer
        before = writer.length
        done = writer.append(payloads)
        count, at = len(payloads), self._time()
        refused = payloads if done.done() else None  # the writer has failed, and `_completed` was not called yet
        self._sent.append(_Piece(batch, count, self.pushed, writer.length, at, refused))
        if self._cache is not None and refused is None:
            self._cache.add(self.ledger_id, self.pushed, payloads, writer.length - before, at)
        self.pushed += count
        done.add_done_callback(self._completed)

    def _completed(self, done: "asyncio.Future[int]") -> None:
        failure = asyncio.CancelledError() if done.cancelled() else done.exception()
        if failure is not None:
            self.fail(failure)
            return
        if not self._sent:  # `fail_all` or `end_at` came first
            return
        piece = self._sent.popleft()
        self._count(piece)
        self.confirmed = piece.first + piece.count
        self.confirmed_size = piece.length
        self._on_confirmed(self)
        piece.batch.acknowledge(AppendedRange(self.ledger_id, piece.first, self.confirmed - 1))
        if self._drained is not None and not self._sent:
            self._end_wait()

    def _count(self, piece: _Piece) -> None:
        counters = self._counters
        counters.added += piece.count
        counters.added_bytes += piece.length - self.confirmed_size
        counters.add_times.observe(self._time() - piece.at)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest unacknowledged batch was pushed, on the loop's clock; None if there is none."""
        return self._sent[0].at if self._sent and self.failure is None else None

    def fail(self, error: BaseException) -> None:
        """Record the first failure; the owner then determines the end and adds the rest elsewhere."""
        if self.failure is None:
            self.failure = error
            self._end_wait()
            self._on_failed(self)

    def _end_wait(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def drain(self) -> None:
        """Wait until everything pushed is acknowledged or an append fails; the caller checks `failure`."""
        while self._sent and self.failure is None:
            if self._drained is None or self._drained.done():
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def end_at(self, end: LedgerEnd) -> list[tuple[Batch, Sequence[bytes]]]:
        """Acknowledge the entries before `end`; returns the others, in order, to be added elsewhere."""
        rest: list[tuple[Batch, Sequence[bytes]]] = []
        pieces = self._with_payloads()
        self._sent = deque()
        self.confirmed, self.confirmed_size = end.entries, end.size
        self._on_confirmed(self)
        for piece, payloads in pieces:
            inside = min(piece.count, end.entries - piece.first)
            if inside > 0:
                self._counters.added += inside
                self._counters.added_bytes += sum(map(len, payloads[:inside]))
                piece.batch.acknowledge(AppendedRange(self.ledger_id, piece.first, piece.first + inside - 1))
            if inside < piece.count:
                rest.append((piece.batch, payloads[max(inside, 0) :]))
        return rest

    def _with_payloads(self) -> list[tuple[_Piece, Sequence[bytes]]]:
        """The unacknowledged pieces with their payloads, from the writer or from the piece itself."""
        if not self._sent:
            return []
        base = self._sent[0].first
        held = self.writer.payloads_from(base)
        found: list[tuple[_Piece, Sequence[bytes]]] = []
        for piece in self._sent:
            at = piece.first - base
            payloads = held[at : at + piece.count] if piece.refused is None else piece.refused
            assert len(payloads) == piece.count, "the writer holds accepted entries until they are acknowledged"
            found.append((piece, payloads))
        return found

    def fail_all(self, error: BaseException) -> None:
        """Fail all unacknowledged batches."""
        self._counters.batches_failed += len(self._sent)
        for piece in self._sent:
            piece.batch.fail(error)
        self._sent.clear()
        self._end_wait()
