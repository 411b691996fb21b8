"""Reads a cursor's state out of its cursor ledger (R3 to R5): carries out what `cursor_state.read_state` asks for."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from bookie.errors import BookieError, NoSuchEntry, NoSuchLedger
from metastore.errors import MetadataError
from metastore.position import Position
from mledger.cursor_state import (
    CursorLedgerFinding,
    CursorLedgerMissing,
    CursorLedgerUnavailable,
    EntryLost,
    EntryOutcome,
    EntryUnavailable,
    parse_entry,
    read_state,
)


class StateLedger(Protocol):
    """A cursor ledger that can be read: opened with recovery, or peeked at."""

    @property
    def last_entry(self) -> int:
        """The last entry that can be read, -1 for none."""

    async def read(self, first: int, last: int) -> list[bytes]:
        """Payloads of entries `first` to `last`."""


OpenStateLedger = Callable[[int], Awaitable[StateLedger]]


async def find_state(
    open_ledger: OpenStateLedger, ledger_id: int, unconfirmed: Callable[[StateLedger], bool] = lambda _: False
) -> CursorLedgerFinding:
    """What the cursor ledger `ledger_id` holds; what cannot be read now is a finding too, not an error.

    `unconfirmed` tells of an opened ledger whether its last entry is not proven to stay.
    """
    try:
        ledger = await open_ledger(ledger_id)
    except NoSuchLedger:
        return CursorLedgerMissing(ledger_id)
    except (BookieError, MetadataError) as error:
        return CursorLedgerUnavailable(ledger_id, str(error))
    opened = {ledger_id: ledger}
    reading = read_state(ledger_id, ledger.last_entry, unconfirmed=unconfirmed(ledger))
    try:
        asked = next(reading)
        while True:
            asked = reading.send(await _read(open_ledger, opened, asked.positions))
    except StopIteration as stop:
        finding: CursorLedgerFinding = stop.value
        return finding


async def _read(
    open_ledger: OpenStateLedger, opened: dict[int, StateLedger], positions: tuple[Position, ...]
) -> list[EntryOutcome]:
    outcomes: list[EntryOutcome] = []
    for first, last in _runs(positions):
        try:
            if first.ledger_id not in opened:
                opened[first.ledger_id] = await open_ledger(first.ledger_id)
        except NoSuchLedger as error:
            outcomes += [EntryLost(str(error))] * (last - first.entry_id + 1)
        except (BookieError, MetadataError) as error:
            outcomes += [EntryUnavailable(str(error))] * (last - first.entry_id + 1)
        else:
            outcomes += await _read_run(opened[first.ledger_id], first, last)
    return outcomes


async def _read_run(ledger: StateLedger, first: Position, last: int) -> list[EntryOutcome]:
    """Entries `first` to `last`; where they cannot be read together each is read alone: one may be the reason."""
    try:
        payloads = await ledger.read(first.entry_id, last)
    except (BookieError, MetadataError) as error:
        if first.entry_id == last:
            lost = isinstance(error, NoSuchLedger | NoSuchEntry)
            return [EntryLost(str(error)) if lost else EntryUnavailable(str(error))]
        found: list[EntryOutcome] = []
        for entry in range(first.entry_id, last + 1):
            found += await _read_run(ledger, Position(first.ledger_id, entry), entry)
        return found
    return [
        parse_entry(payload, Position(first.ledger_id, entry)) for entry, payload in enumerate(payloads, first.entry_id)
    ]


def _runs(positions: tuple[Position, ...]) -> list[tuple[Position, int]]:
    """Consecutive positions of one ledger together: (the first, the last one's entry id)."""
    runs: list[tuple[Position, int]] = []
    for position in positions:
        if runs and runs[-1][0].ledger_id == position.ledger_id and runs[-1][1] + 1 == position.entry_id:
            runs[-1] = (runs[-1][0], position.entry_id)
        else:
            runs.append((position, position.entry_id))
    return runs
