"""Reads a cursor's state from its cursor ledger (R3 to R5): does the I/O of `ledger_state.read_state`."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from mledger.bookie.errors import BookieError, NoSuchEntry, NoSuchLedger
from mledger.cursors.persistence.ledger_state import (
    CursorLedgerEmpty,
    CursorLedgerFinding,
    CursorLedgerForeign,
    CursorLedgerMissing,
    CursorLedgerUnavailable,
    EntryLost,
    EntryOutcome,
    EntryUnavailable,
    parse_entry,
    read_state,
)
from mledger.errors import ForeignLedger
from mledger.metastore.errors import MetadataError
from mledger.metastore.records.paths import is_possible_ledger
from mledger.metastore.records.position import Position


class StateLedger(Protocol):
    """A readable cursor ledger, opened with recovery or by a peek."""

    @property
    def last_entry(self) -> int:
        """The last readable entry, -1 for none."""

    async def read(self, first: int, last: int) -> list[bytes]:
        """Payloads of entries `first` to `last`."""


OpenStateLedger = Callable[[int], Awaitable[StateLedger]]
"""Opens a cursor ledger. NoSuchLedger, ForeignLedger, and the errors of reading it now."""
Sync = Callable[[], Awaitable[None]]


async def find_state(
    open_ledger: OpenStateLedger,
    sync: Sync,
    ledger_id: int,
    unconfirmed: Callable[[StateLedger], bool] = lambda _: False,
) -> CursorLedgerFinding:
    """The content of the cursor ledger `ledger_id`; an unreadable one is a finding, not an error.

    A loss counts only if it is found again after `sync` (`MetadataReader.sync`): a lagging server
    may not know a new ledger, or the bookies that a ledger's entries were moved to. `unconfirmed`
    says whether the last entry of an opened ledger may be unconfirmed.
    """
    if not is_possible_ledger(ledger_id):  # of a damaged record
        return CursorLedgerMissing(ledger_id)
    search = _StateSearch(open_ledger, unconfirmed)
    finding = await search.find(ledger_id)
    if not (search.lost or isinstance(finding, CursorLedgerMissing | CursorLedgerEmpty)):
        return finding
    try:
        await sync()
    except MetadataError as error:
        return CursorLedgerUnavailable(ledger_id, str(error))
    return await _StateSearch(open_ledger, unconfirmed).find(ledger_id)


class _StateSearch:
    """One search of a cursor ledger and older ones that its last state names; `lost`: something was missing."""

    def __init__(self, open_ledger: OpenStateLedger, unconfirmed: Callable[[StateLedger], bool]) -> None:
        self._open, self._unconfirmed = open_ledger, unconfirmed
        self._opened: dict[int, StateLedger] = {}
        self.lost = False

    async def find(self, ledger_id: int) -> CursorLedgerFinding:
        try:
            ledger = self._opened[ledger_id] = await self._open(ledger_id)
        except NoSuchLedger:
            return CursorLedgerMissing(ledger_id)
        except ForeignLedger as error:
            return CursorLedgerForeign(ledger_id, str(error))
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
            except ForeignLedger as error:  # what a checkpoint names there is not this cursor's
                outcomes += [EntryLost(str(error))] * (last - first.entry_id + 1)
            else:
                outcomes += await self._read_run(first, last)
        return outcomes

    async def _read_run(self, first: Position, last: int) -> list[EntryOutcome]:
        """Read entries `first` to `last`; if that fails, one by one, since only one may be unreadable."""
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
    """Consecutive positions of one ledger as runs: (first position, last entry id)."""
    runs: list[tuple[Position, int]] = []
    for position in positions:
        if runs and runs[-1][0].ledger_id == position.ledger_id and runs[-1][1] + 1 == position.entry_id:
            runs[-1] = (runs[-1][0], position.entry_id)
        else:
            runs.append((position, position.entry_id))
    return runs
