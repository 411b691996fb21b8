"""Reads a cursor's state out of its cursor ledger (R3 to R5): carries out what `cursor_state.read_state` asks for."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from mledger.bookie.errors import BookieError, NoSuchEntry, NoSuchLedger
from mledger.cursors.ledger_state import (
    CursorLedgerEmpty,
    CursorLedgerFinding,
    CursorLedgerMissing,
    CursorLedgerUnavailable,
    EntryLost,
    EntryOutcome,
    EntryUnavailable,
    parse_entry,
    read_state,
)
from mledger.metastore.errors import MetadataError
from mledger.metastore.records.position import Position


class StateLedger(Protocol):
    """A cursor ledger that can be read: opened with recovery, or peeked at."""

    @property
    def last_entry(self) -> int:
        """The last entry that can be read, -1 for none."""

    async def read(self, first: int, last: int) -> list[bytes]:
        """Payloads of entries `first` to `last`."""


OpenStateLedger = Callable[[int], Awaitable[StateLedger]]
Sync = Callable[[], Awaitable[None]]


async def find_state(
    open_ledger: OpenStateLedger,
    sync: Sync,
    ledger_id: int,
    unconfirmed: Callable[[StateLedger], bool] = lambda _: False,
) -> CursorLedgerFinding:
    """What the cursor ledger `ledger_id` holds; what cannot be read now is a finding too, not an error.

    That something is lost is believed only when it is so after `sync` too (`MetadataReader.sync`): a server that lags
    knows neither a new ledger nor the bookies that a ledger's entries were moved to. `unconfirmed` tells of an opened
    ledger whether its last entry is not proven to stay.
    """
    looked = _StateLook(open_ledger, unconfirmed)
    finding = await looked.find(ledger_id)
    if not (looked.lost or isinstance(finding, CursorLedgerMissing | CursorLedgerEmpty)):
        return finding
    try:
        await sync()
    except MetadataError as error:
        return CursorLedgerUnavailable(ledger_id, str(error))
    return await _StateLook(open_ledger, unconfirmed).find(ledger_id)


class _StateLook:
    """One look at a cursor ledger, and at older ones that its last state names; `lost` once something was missing."""

    def __init__(self, open_ledger: OpenStateLedger, unconfirmed: Callable[[StateLedger], bool]) -> None:
        self._open, self._unconfirmed = open_ledger, unconfirmed
        self._opened: dict[int, StateLedger] = {}
        self.lost = False

    async def find(self, ledger_id: int) -> CursorLedgerFinding:
        try:
            ledger = self._opened[ledger_id] = await self._open(ledger_id)
        except NoSuchLedger:
            return CursorLedgerMissing(ledger_id)
        except (BookieError, MetadataError) as error:
            return CursorLedgerUnavailable(ledger_id, str(error))
        reading = read_state(ledger_id, ledger.last_entry, unconfirmed=self._unconfirmed(ledger))
        try:
            asked = next(reading)
            while True:
                asked = reading.send(await self._read(asked.positions))
        except StopIteration as stop:
            finding: CursorLedgerFinding = stop.value
            return finding

    async def _read(self, positions: tuple[Position, ...]) -> list[EntryOutcome]:
        outcomes: list[EntryOutcome] = []
        for first, last in _runs(positions):
            try:
                if first.ledger_id not in self._opened:
                    self._opened[first.ledger_id] = await self._open(first.ledger_id)
            except (BookieError, MetadataError) as error:
                outcomes += [self._not_read(error)] * (last - first.entry_id + 1)
            else:
                outcomes += await self._read_run(first, last)
        return outcomes

    async def _read_run(self, first: Position, last: int) -> list[EntryOutcome]:
        """Entries `first` to `last`; where they cannot be read together each is read alone: one may be the reason."""
        try:
            payloads = await self._opened[first.ledger_id].read(first.entry_id, last)
        except (BookieError, MetadataError) as error:
            if first.entry_id == last:
                return [self._not_read(error)]
            found: list[EntryOutcome] = []
            for entry in range(first.entry_id, last + 1):
                found += await self._read_run(Position(first.ledger_id, entry), entry)
            return found
        return [
            parse_entry(payload, Position(first.ledger_id, entry))
            for entry, payload in enumerate(payloads, first.entry_id)
        ]

    def _not_read(self, error: BookieError | MetadataError) -> EntryOutcome:
        if isinstance(error, NoSuchLedger | NoSuchEntry):
            self.lost = True
            return EntryLost(str(error))
        return EntryUnavailable(str(error))


def _runs(positions: tuple[Position, ...]) -> list[tuple[Position, int]]:
    """Consecutive positions of one ledger together: (the first, the last one's entry id)."""
    runs: list[tuple[Position, int]] = []
    for position in positions:
        if runs and runs[-1][0].ledger_id == position.ledger_id and runs[-1][1] + 1 == position.entry_id:
            runs[-1] = (runs[-1][0], position.entry_id)
        else:
            runs.append((position, position.entry_id))
    return runs
