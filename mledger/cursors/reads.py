"""A cursor's reads: its read position, reads across holes and ledgers, waiting reads (C10, C11, D6)."""

import asyncio
from collections.abc import Awaitable, Callable, Sized
from typing import Protocol, TypeVar

from mledger.bookie.client.plans.read_limits import is_enough
from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.host import CursorHost
from mledger.cursors.positions import next_valid
from mledger.errors import LedgerOffloaded, TopicTerminated
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.offload import is_offloaded
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position

MANY = 1 << 30
WINDOW_FACTOR = 4
SMALL_GAP = 32
Found = TypeVar("Found", bound=Sized)


class ReadingCursor(Protocol):
    """The interface of a cursor that its reads use."""

    @property
    def name(self) -> str:
        """The cursor's name."""

    @property
    def acks(self) -> AckState:
        """The acknowledgement state."""

    def check(self) -> None:
        """Raise the error that stopped the cursor, if any."""

    def lose(self, ledger_id: int, first: int, last: int, reason: str) -> None:
        """Acknowledge lost entries without reading them."""


class _Read:
    """One read under way: its runs of entries so far, and how much it may still read."""

    __slots__ = ("at_once", "count", "last", "max_bytes", "moves", "position", "runs", "size", "wanted")

    def __init__(
        self, position: Position, wanted: int, max_bytes: int | None, last: Position | None, moves: int
    ) -> None:
        self.runs: list[PayloadRun] = []
        self.count = 0
        self.moves = moves
        self.position = position
        self.wanted = wanted
        self.max_bytes = max_bytes
        self.size = 0
        self.last = last
        self.at_once = MANY

    @property
    def is_full(self) -> bool:
        if self.count >= self.wanted:
            return True
        return self.max_bytes is not None and is_enough(self.count, self.size, self.max_bytes)

    @property
    def bytes_left(self) -> int | None:
        return None if self.max_bytes is None else self.max_bytes - self.size

    def take_whole(self, runs: list[PayloadRun]) -> None:
        """Add `runs`, which follow each other and of which no entry is deleted."""
        self.runs += runs
        for run in runs:
            self.count += len(run.payloads)
            if self.max_bytes is not None:
                self.size += sum(map(len, run.payloads))
        ledger_id, first, payloads = runs[-1]
        self.position = Position(ledger_id, first + len(payloads))

    def take(self, run: PayloadRun, acks: AckState) -> None:
        """Add those entries of `run` that are not deleted; a run without deleted ones is not copied."""
        ledger_id, first, payloads = run
        end = first + len(payloads)
        for live in acks.live_runs(ledger_id, first, end - 1):
            count = live.last - live.first + 1
            part = payloads if count == len(payloads) else payloads[live.first - first : live.last - first + 1]
            self.runs.append(PayloadRun(ledger_id, live.first, part))
            self.count += count
            if self.max_bytes is not None:
                self.size += sum(map(len, part))
        self.position = Position(ledger_id, end)


class CursorReads:
    """Reads of one cursor. A reset during a read keeps that read from moving the read position."""

    def __init__(self, cursor: ReadingCursor, host: CursorHost, position: Position) -> None:
        self._cursor = cursor
        self._host = host
        self._moves = 0
        self._active = False
        self.position = position

    @property
    def active(self) -> bool:
        """Whether the cache keeps new entries until this cursor has read them (D6)."""
        return self._active

    def set_active(self, active: bool) -> None:
        """Follow the end of the topic, or no longer."""
        self._active = active
        if (cache := self._host.reader.cache) is not None:
            (cache.follow if active else cache.unfollow)(self)

    def move_to(self, position: Position) -> None:
        """Read from `position` on."""
        self._moves += 1
        self._move(position)

    def _move(self, position: Position) -> None:
        self.position = position
        if self._active and (cache := self._host.reader.cache) is not None:
            cache.evict_read()

    def pass_deleted(self) -> None:
        """Keep the read position above mark-delete."""
        if self.position <= self._cursor.acks.mark_delete:
            self._move(next_valid(self._host.ledger_list, self._cursor.acks.mark_delete))

    async def read_runs(
        self, max_entries: int, max_bytes: int | None, max_position: Position | None
    ) -> list[PayloadRun]:
        """As `Cursor.read_runs`."""
        self._cursor.check()
        read = _Read(self.position, max_entries, max_bytes, max_position, self._moves)
        while (span := self._next_span(read)) is not None:
            first, last, _ = span
            try:
                got = await self._read_span(read, first, min(last, first + read.at_once - 1))
            except MledgerError:
                self._cursor.check()  # if it was closed or fenced meanwhile, that is why
                raise
            self._cursor.check()
            if got is None:
                break
            if got:
                read.at_once = min(MANY, 2 * read.at_once)
            for run in got:
                read.take(run, self._cursor.acks)
        return self._end(read)

    def read_cached(self, max_entries: int, max_bytes: int | None, max_position: Position | None) -> list[PayloadRun]:
        """As `Cursor.read_cached`."""
        self._cursor.check()
        read = _Read(self.position, max_entries, max_bytes, max_position, self._moves)
        while (span := self._next_span(read)) is not None:
            first, last, is_live = span
            got = self._host.reader.cached(read.position.ledger_id, first, last, read.bytes_left)
            if not got:
                break
            if is_live:
                read.take_whole(got)
                continue
            for run in got:
                read.take(run, self._cursor.acks)
        return self._end(read)

    def _end(self, read: _Read) -> list[PayloadRun]:
        if read.moves == self._moves:
            self._move(read.position)
            self.pass_deleted()
        return read.runs

    async def wait(self, read: Callable[[], Awaitable[Found]], max_position: Position | None) -> Found:
        """What `read` finds, once it finds something: as `Cursor.read_or_wait`."""
        looked_again = False
        while True:
            found = await read()
            if found or (max_position is not None and self.position > max_position):
                return found
            if self._host.terminated is not None:
                raise TopicTerminated(
                    f"{self._host.name} is terminated and cursor {self._cursor.name} has read it to the end"
                )
            arrival = self._host.next_arrival()  # no await since the read: no arrival was missed
            delay = None if looked_again else self._host.config.new_entries_check_delay_ms / 1000
            try:
                await asyncio.wait([arrival], timeout=delay)
            finally:
                arrival.cancel()
            looked_again = True

    def _next_span(self, read: _Read) -> tuple[int, int, bool] | None:
        """The next entries to read in one request, of the ledger of the read's position; None at the end.

        Whether none of them is deleted is the third value.
        """
        while not read.is_full and self._find_entry(read):
            first, last, is_live = self._span(read)
            if first <= last:
                return first, last, is_live
            read.position = Position(read.position.ledger_id, last + 1)  # all deleted up to there
        return None

    def _find_entry(self, read: _Read) -> bool:
        """Advance the position to an existing entry, past empty ledgers (C11); False if there is none to read."""
        ledgers = self._host.ledger_list
        if not ledgers.exists(read.position):
            following = next_valid(ledgers, Position(read.position.ledger_id, read.position.entry_id - 1))
            if following <= read.position or not ledgers.exists(following):
                return False
            read.position = following
        return read.last is None or read.position <= read.last

    def _span(self, read: _Read) -> tuple[int, int, bool]:
        """The entries to read in one request, from the first undeleted one, across small gaps.

        Whether none of them is deleted is the third value.

        If all are deleted, an empty span; the search continues after its end.
        """
        ledger_id, start = read.position
        wanted = read.wanted - read.count
        last = min(self._host.ledger_list.entries(ledger_id) - 1, start + WINDOW_FACTOR * wanted + SMALL_GAP)
        if read.last is not None and ledger_id == read.last.ledger_id:
            last = min(last, read.last.entry_id)
        runs = self._cursor.acks.live_runs(ledger_id, start, last)
        if not runs:
            live = self._cursor.acks.nth_live(ledger_id, last + 1, 1)  # one step, even past a million deleted entries
            return live, live - 1, False
        end = runs[0].first - 1
        for run in runs:
            if run.first - end - 1 > SMALL_GAP:
                break
            end = min(run.last, run.first + wanted - 1)
            wanted -= end - run.first + 1
            if not wanted:
                break
        return runs[0].first, end, end <= runs[0].last

    async def _read_span(self, read: _Read, first: int, last: int) -> list[PayloadRun] | None:
        """Read entries of one ledger; an empty list means try again, None means end the read here.

        If one of several entries is missing, later attempts read fewer, until it is read alone.
        """
        ledger_id = read.position.ledger_id
        try:
            return await self._host.reader.read_runs(ledger_id, first, last, read.bytes_left)
        except (NoSuchLedger, NoSuchEntry) as error:
            if isinstance(error, NoSuchEntry) and first < last:
                read.at_once = (last - first + 1) // 2
                return []
            if read.runs:
                return None
        try:
            return [PayloadRun(ledger_id, first, [await self._host.reader.read_afresh(ledger_id, first)])]
        except (NoSuchLedger, NoSuchEntry) as error:
            self._cursor.check()  # one that was closed or fenced meanwhile must not acknowledge
            if isinstance(error, NoSuchLedger):
                self._lost_ledger(ledger_id, error)
            else:
                self._lost_entry(Position(ledger_id, first), error)
        return []

    def _lost_ledger(self, ledger_id: int, error: NoSuchLedger) -> None:
        """Acknowledge a listed ledger that no bookie has, or name it (C11)."""
        host = self._host
        if ledger_id not in host.ledger_list:  # trimmed during the read
            return
        info = host.ledger_list.info(ledger_id)
        if is_offloaded(info):
            raise LedgerOffloaded(
                f"{host.name}: ledger {ledger_id} is offloaded: its {info.entries} entries are in tiered storage, "
                "which mledger does not read; none of them is acknowledged"
            ) from error
        count = host.ledger_list.entries(ledger_id)
        if not host.config.auto_skip_non_recoverable_data:
            raise NoSuchLedger(
                f"{host.name}: ledger {ledger_id} is in the topic's list but does not exist: {error}; to acknowledge "
                f"its {count} entries unread, set autoSkipNonRecoverableData"
            ) from error
        self._cursor.lose(ledger_id, 0, count - 1, str(error))

    def _lost_entry(self, position: Position, error: NoSuchEntry) -> None:
        """Acknowledge an entry that no bookie has, or name it (C11)."""
        host = self._host
        if position.ledger_id not in host.ledger_list:  # trimmed during the read
            return
        if not host.config.auto_skip_non_recoverable_data:
            raise NoSuchEntry(
                f"{host.name}: entry {position} is lost and cursor {self._cursor.name} cannot pass it: {error}; to "
                "acknowledge it unread, set autoSkipNonRecoverableData or use `mledger cursors skip`"
            ) from error
        self._cursor.lose(position.ledger_id, position.entry_id, position.entry_id, str(error))
