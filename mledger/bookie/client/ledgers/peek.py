"""Looks at a ledger without changing it: no fence, no recovery, no write (Q3)."""

import asyncio
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from mledger.bookie.client.connections.frames import StoredEntry
from mledger.bookie.client.ledgers.last_confirmed import EndReader, Ends, troubles_text
from mledger.bookie.client.ledgers.reader import Bounds, LedgerReader
from mledger.bookie.client.plans.recovery import (
    NOTHING_TOLD,
    READ_AHEAD_BYTES,
    Finding,
    first_entry_to_read,
    known_length,
    read_ahead,
)
from mledger.bookie.errors import RecoveryUndecided
from mledger.bookie.wire import MAX_FRAME
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState

AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Peek:
    """A ledger as its bookies show it now; a live ledger may have more entries the next moment.

    `last_entry` is -1 for none; `unconfirmed` says that it is beyond what is proven acknowledged; `length` counts the
    payload bytes up to it. `undecided` says why more entries may be acknowledged: too few bookies answer, and recovery
    would fail. Empty where they do.
    """

    ledger_id: int
    last_entry: int
    last_add_confirmed: int
    length: int
    closed: bool
    unconfirmed: bool
    warnings: tuple[str, ...]
    undecided: str
    reader: LedgerReader = field(repr=False, compare=False)

    async def read(self, entry: int) -> bytes:
        """The payload of one entry up to `last_entry`; errors as of `LedgerReader.read`."""
        return (await self.reader.read(entry, entry))[0]

    def decided(self) -> "Peek":
        """This one, for who takes `last_entry` for the end. RecoveryUndecided where that is not known (R5)."""
        if self.undecided:
            raise RecoveryUndecided(self.undecided)
        return self


class PeekedEnd(Struct, frozen=True):
    """Where a ledger ends, as far as its bookies show."""

    last_entry: int
    last_add_confirmed: int
    length: int
    warnings: tuple[str, ...] = ()
    undecided: str = ""

    def bounds(self, metadata: LedgerMetadata) -> Bounds:
        """The bounds for a reader up to that end."""
        return Bounds(metadata, self.last_entry, self.length)


async def find_confirmed_end(metadata: LedgerMetadata, reader: EndReader) -> PeekedEnd:
    """The last-add-confirmed of a ledger that is not closed: the highest that its bookies report (Q3).

    Raises:
        BookieUnavailable: no bookie of the last ensemble answers.
    """
    return await _confirmed_end(metadata, reader, await reader.known_ends(metadata))


async def find_unconfirmed_end(metadata: LedgerMetadata, reader: EndReader) -> PeekedEnd:
    """The end that recovery would have found when the call began, by reads that change nothing (Q3).

    Entries that a writer adds meanwhile are not included.

    Raises:
        BookieUnavailable: as of `find_confirmed_end`.
    """
    ends = await reader.known_ends(metadata)
    confirmed = await _confirmed_end(metadata, reader, ends)
    warnings = list(confirmed.warnings)
    last: StoredEntry | None = None
    finding, entry, troubles = Finding.END, confirmed.last_entry + 1, list[str]()
    known = _is_end_known(metadata, ends)
    bound = max((report.entry for report in ends.reports), default=confirmed.last_entry)
    if not known:  # bookies that do not answer may have more; but a writer is not followed for ever
        bound = max(bound, confirmed.last_entry) + AT_ONCE
    before = confirmed.length
    while entry <= bound:
        until = min(read_ahead(entry, before, ends.reports, AT_ONCE, MAX_FRAME, READ_AHEAD_BYTES), bound)
        found = await asyncio.gather(*(reader.entry(metadata, each) for each in range(entry, until + 1)))
        for outcome in found:
            finding, stored, troubles = outcome
            if stored is None:
                break
            last, entry, before = stored, entry + 1, stored.length
        if finding is not Finding.FOUND:
            break
    undecided = ""
    if finding is Finding.UNDECIDED or (finding is Finding.FOUND and not known):
        why = troubles_text(troubles or [f"it grows, and {troubles_text(ends.troubles)}"])
        undecided = f"whether ledger {reader.ledger_id} has entry {entry} cannot be decided: {why}"
        warnings.append(undecided)
    if last is None:
        return replace(confirmed, warnings=tuple(warnings), undecided=undecided)
    return PeekedEnd(last.entry, confirmed.last_entry, last.length, tuple(warnings), undecided)


async def _confirmed_end(metadata: LedgerMetadata, reader: EndReader, ends: Ends) -> PeekedEnd:
    last = first_entry_to_read(ends.last_add_confirmed, metadata) - 1
    warnings = list(ends.troubles)
    length = known_length(last, ends.reports)
    if length is None:
        _, stored, troubles = await reader.entry(metadata, last)
        warnings += troubles
        length = 0 if stored is None else stored.length
        if stored is None:
            warnings.append(f"ledger {reader.ledger_id}: entry {last} is confirmed but could not be read")
    return PeekedEnd(last, last, length, tuple(warnings))


def _is_end_known(metadata: LedgerMetadata, ends: Ends) -> bool:
    """Whether no entry above those that the bookies reported was acknowledged when they were asked."""
    silent = sum(answer in NOTHING_TOLD for answer in ends.answers)
    return silent < metadata.ack_quorum


def closed_end(metadata: LedgerMetadata) -> PeekedEnd:
    """The end that a closed ledger's metadata names."""
    return PeekedEnd(metadata.last_entry, metadata.last_entry, metadata.length)


def peeked(ledger_id: int, metadata: LedgerMetadata, end: PeekedEnd, reader: LedgerReader) -> Peek:
    """The result for the caller."""
    return Peek(
        ledger_id=ledger_id,
        last_entry=end.last_entry,
        last_add_confirmed=end.last_add_confirmed,
        length=end.length,
        closed=metadata.state is LedgerState.CLOSED,
        unconfirmed=end.last_entry > end.last_add_confirmed,
        warnings=end.warnings,
        undecided=end.undecided,
        reader=reader,
    )
