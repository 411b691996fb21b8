"""Reads of scattered positions as few requests (D3): from the cache first, across small gaps.

A position without an entry, or whose ledger is trimmed during the read, is missing: that is a
result, not an error.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.errors import LedgerOffloaded
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.entries.entry_reader import EntryReader
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.offload import is_offloaded
from mledger.metastore.records.position import Position

GAP = 16  # entries that nobody asked for are read if this many lie between two that are wanted
REQUESTS_AT_ONCE = 16


class EntryRequest(Struct, frozen=True):
    """Entries `first` to `last` of a ledger that one request reads, and those `wanted` of them as pairs."""

    ledger_id: int
    first: int
    last: int
    wanted: tuple[tuple[int, int], ...]


class PositionPlan(Struct, frozen=True):
    """The requests that read all wanted positions, in order, and the positions without an entry."""

    requests: tuple[EntryRequest, ...]
    missing: tuple[Position, ...]


class PositionsFound(Struct, frozen=True):
    """The entries found, in order, and the positions without one: trimmed, never written, or lost."""

    runs: tuple[PayloadRun, ...]
    missing: tuple[Position, ...]


def plan_positions(ledgers: LedgerList, positions: Iterable[Position]) -> PositionPlan:
    """Group `positions`, in any order, into requests; each position is read once."""
    wanted: list[list[int]] = []  # ledger, first, last of consecutive positions
    missing: list[Position] = []
    for position in sorted(set(positions)):
        ledger_id, entry_id = position
        if not ledgers.exists(position):
            missing.append(position)
        elif wanted and wanted[-1][0] == ledger_id and wanted[-1][2] + 1 == entry_id:
            wanted[-1][2] = entry_id
        else:
            wanted.append([ledger_id, entry_id, entry_id])
    groups: list[tuple[int, list[tuple[int, int]]]] = []
    for ledger_id, first, last in wanted:
        if groups and groups[-1][0] == ledger_id and first - groups[-1][1][-1][1] - 1 <= GAP:
            groups[-1][1].append((first, last))
        else:
            groups.append((ledger_id, [(first, last)]))
    requests = (EntryRequest(ledger_id, parts[0][0], parts[-1][1], tuple(parts)) for ledger_id, parts in groups)
    return PositionPlan(tuple(requests), tuple(missing))


def cut(run: PayloadRun, wanted: Sequence[tuple[int, int]]) -> list[PayloadRun]:
    """The parts of `run` that are wanted; all of it, uncopied, if nothing else is in it."""
    found: list[PayloadRun] = []
    end = run.first_entry + len(run.payloads)
    for first, last in wanted:
        low, high = max(first, run.first_entry), min(last + 1, end)
        if low < high:
            whole = high - low == len(run.payloads)
            part = run.payloads if whole else run.payloads[low - run.first_entry : high - run.first_entry]
            found.append(PayloadRun(run.ledger_id, low, part))
    return found


class PositionReader:
    """Reads positions of one topic; with `skip_lost`, entries that no bookie has are missing, else an error."""

    def __init__(self, reader: EntryReader, ledgers: Callable[[], LedgerList], *, skip_lost: bool) -> None:
        self._reader = reader
        self._ledgers = ledgers
        self._skip_lost = skip_lost

    async def read(self, positions: Iterable[Position]) -> PositionsFound:
        """The entries at `positions`.

        Raises:
            NoSuchLedger, NoSuchEntry: a listed ledger or an entry of one is lost.
            LedgerOffloaded: a ledger is in tiered storage only.
            BookieError: bookies do not answer; retriable.
        """
        plan = plan_positions(self._ledgers(), positions)
        at_once = asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def read(part: EntryRequest) -> PositionsFound:
            async with at_once:
                return await self._read_request(part)

        if len(plan.requests) == 1:
            parts = [await self._read_request(plan.requests[0])]
        else:
            parts = await asyncio.gather(*map(read, plan.requests))
        missing = sorted([*plan.missing, *(position for part in parts for position in part.missing)])
        return PositionsFound(tuple(run for part in parts for run in part.runs), tuple(missing))

    async def _read_request(self, part: EntryRequest) -> PositionsFound:
        runs: list[PayloadRun] = []
        entry = part.first
        try:
            while entry <= part.last:
                for run in await self._reader.read_runs(part.ledger_id, entry, part.last, None):
                    runs += cut(run, part.wanted)
                    entry = run.first_entry + len(run.payloads)
        except (NoSuchLedger, NoSuchEntry):
            return await self._read_singly(part)
        return PositionsFound(tuple(runs), ())

    async def _read_singly(self, part: EntryRequest) -> PositionsFound:
        """Read each entry with the ledger's latest metadata, to tell which are lost."""
        runs: list[PayloadRun] = []
        missing: list[Position] = []
        for first, last in part.wanted:
            for entry in range(first, last + 1):
                try:
                    payload = await self._reader.read_afresh(part.ledger_id, entry)
                except (NoSuchLedger, NoSuchEntry) as error:
                    self._check_missing(part.ledger_id, error)
                    missing.append(Position(part.ledger_id, entry))
                else:
                    runs.append(PayloadRun(part.ledger_id, entry, [payload]))
        return PositionsFound(tuple(runs), tuple(missing))

    def _check_missing(self, ledger_id: int, error: NoSuchLedger | NoSuchEntry) -> None:
        """Raise `error` unless the ledger was trimmed meanwhile or lost entries are skipped."""
        ledgers = self._ledgers()
        if ledger_id not in ledgers:
            return
        if isinstance(error, NoSuchLedger) and is_offloaded(ledgers.info(ledger_id)):
            raise LedgerOffloaded(
                f"ledger {ledger_id} is offloaded: its entries are in tiered storage, which mledger does not read"
            ) from error
        if not self._skip_lost:
            raise error
