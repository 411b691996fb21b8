"""Reading a cursor's state out of its cursor ledger, step by step (R3, R4, R5); no I/O.

The last entry is the state. If it is missing, or its bytes verify but are not a state (damaged, or
of a newer format), the reader returns the latest earlier state and reports what it skipped.

Newer Pulsar splits a large state into chunks. A last chunk whose part index equals the part count
commits them; entries after the last commit were left by a crash and are skipped. It may also write
one entry per data ledger (property `entry-type` 1) and, as the commit, a checkpoint marker
(`entry-type` 2) whose `values` name those entries as [cursor ledger id, entry id], also in older
cursor ledgers. These two forms are implemented from the public source (CursorWal in Pulsar's
managed-ledger), not from a real record.
"""

from collections.abc import Generator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import decode_position_info
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import BatchDeletion, LedgerBits, PositionInfo, StateChunk

ENTRY_TYPE = "entry-type"
DATA_ENTRY = 1
CHECKPOINT_MARKER = 2
SCAN_BACK_BATCH = 100


class ReadEntries(Struct, frozen=True):
    """The entries to read next, each (cursor ledger, entry); expects one outcome each, in this order."""

    positions: tuple[Position, ...]


class EntryLost(Struct, frozen=True):
    """The entry or its ledger provably does not exist, or its bytes verify but are not a state (R4)."""

    reason: str


class EntryUnavailable(Struct, frozen=True):
    """The entry cannot be read now: unavailable bookies, a time-out, bad digests on all replicas (R5)."""

    reason: str


EntryOutcome = PositionInfo | EntryLost | EntryUnavailable


class CursorLedgerMissing(Struct, frozen=True):
    """The cursor ledger that the znode names does not exist (R4)."""

    ledger_id: int

    def describe(self) -> str:
        """The finding in one line."""
        return f"cursor ledger {self.ledger_id} does not exist"


class CursorLedgerForeign(Struct, frozen=True):
    """The ledger that the znode names says of itself that it is another's: its state is not this cursor's (R4)."""

    ledger_id: int
    reason: str

    def describe(self) -> str:
        """The finding in one line."""
        return f"the cursor's record names a ledger that is not its own: {self.reason}"


class CursorLedgerEmpty(Struct, frozen=True):
    """The cursor ledger has no entry (R4)."""

    ledger_id: int

    def describe(self) -> str:
        """The finding in one line."""
        return f"cursor ledger {self.ledger_id} is empty"


class StateUnreadable(Struct, frozen=True):
    """The last entry is missing, or its bytes verify but do not parse (R4)."""

    at: Position
    reason: str

    def describe(self) -> str:
        """The finding in one line."""
        return f"entry {self.at} of the cursor ledger is not a state: {self.reason}"


class CursorLedgerUnavailable(Struct, frozen=True):
    """The cursor ledger cannot be read now (R5)."""

    ledger_id: int
    reason: str

    def describe(self) -> str:
        """The finding in one line."""
        return f"cursor ledger {self.ledger_id} cannot be read now: {self.reason}"


class StateFound(Struct, frozen=True):
    """The state (R3) and the entry that commits it.

    `unconfirmed`: a peek could not prove that the entry is confirmed. `passed_over` is the last
    entry if it cannot be read; the state is then an older one (R4).
    """

    state: PositionInfo
    at: Position
    unconfirmed: bool = False
    warnings: tuple[str, ...] = ()
    passed_over: StateUnreadable | None = None

    def describe(self) -> str:
        """The finding in one line."""
        return (
            f"entry {self.at.entry_id} of cursor ledger {self.at.ledger_id}"
            + (", an older state" if self.passed_over is not None else "")
            + (", unconfirmed" if self.unconfirmed else "")
        )


CursorLedgerFinding = (
    CursorLedgerMissing
    | CursorLedgerForeign
    | CursorLedgerEmpty
    | StateUnreadable
    | CursorLedgerUnavailable
    | StateFound
)
StateReading = Generator[ReadEntries, Sequence[EntryOutcome], CursorLedgerFinding]


def parse_entry(payload: bytes, at: Position) -> EntryOutcome:
    """Parse the payload of a cursor ledger's entry."""
    try:
        return decode_position_info(payload, f"entry {at}").value
    except RecordError as error:
        return EntryLost(str(error))


def read_state(ledger_id: int, last_entry: int, *, unconfirmed: bool = False) -> StateReading:
    """Find the last committed state of cursor ledger `ledger_id`, whose last entry is `last_entry` (-1: empty).

    A generator: it yields the entries to read, receives the outcomes, and returns the finding.
    `unconfirmed`: a peek found the last entry and could not prove that it is confirmed.
    """
    if last_entry < 0:
        return CursorLedgerEmpty(ledger_id)
    passed_over: StateUnreadable | None = None
    uncommitted = 0
    end, count = Position(ledger_id, last_entry), 1
    while end.entry_id >= 0:
        for at, outcome in reversed((yield from _read_back(end, count))):
            if isinstance(outcome, PositionInfo) and _is_uncommitted(outcome):
                uncommitted += 1
                continue
            warnings = [f"{uncommitted} uncommitted entries at the end of cursor ledger {ledger_id} skipped"]
            committed = outcome
            if isinstance(outcome, PositionInfo):
                committed = yield from _committed(at, outcome, warnings)
            if isinstance(committed, EntryUnavailable):
                return CursorLedgerUnavailable(ledger_id, committed.reason)
            if isinstance(committed, EntryLost):
                passed_over = passed_over or StateUnreadable(at, committed.reason)
                uncommitted = 0
                continue
            if _entry_type(committed) == DATA_ENTRY:  # in chunks, which are committed without its marker
                uncommitted += 1
                continue
            proven = at.entry_id < last_entry
            told = tuple(warnings if uncommitted else warnings[1:])
            return StateFound(committed, at, unconfirmed and not proven, told, passed_over)
        end, count = Position(end.ledger_id, end.entry_id - count), SCAN_BACK_BATCH
    return passed_over or StateUnreadable(Position(ledger_id, last_entry), "no entry of the ledger commits a state")


def _committed(
    at: Position, info: PositionInfo, warnings: list[str]
) -> Generator[ReadEntries, Sequence[EntryOutcome], EntryOutcome]:
    """The complete state that `info`, read at `at`, commits."""
    state = yield from _assemble(at, info)
    if isinstance(state, PositionInfo) and _entry_type(state) == CHECKPOINT_MARKER:
        return (yield from _merge(state, warnings))
    return state


def _read_back(
    last: Position, count: int
) -> Generator[ReadEntries, Sequence[EntryOutcome], list[tuple[Position, EntryOutcome]]]:
    first = max(0, last.entry_id - count + 1)
    positions = tuple(Position(last.ledger_id, entry) for entry in range(first, last.entry_id + 1))
    return list(zip(positions, (yield ReadEntries(positions)), strict=True))


def _entry_type(info: PositionInfo) -> int | None:
    return dict(info.properties).get(ENTRY_TYPE)


def _is_uncommitted(info: PositionInfo) -> bool:
    if info.chunk is not None:
        return info.chunk.part_index != info.chunk.part_count
    return _entry_type(info) == DATA_ENTRY


def _assemble(at: Position, info: PositionInfo) -> Generator[ReadEntries, Sequence[EntryOutcome], EntryOutcome]:
    """The state that `info`, read at `at`, commits: itself, or the chunks before it joined."""
    if info.chunk is None:
        return info
    count = info.chunk.part_count
    if count <= 0 or count > at.entry_id:
        return EntryLost(f"it commits {count} chunks, but only {at.entry_id} entries precede it")
    parts = yield from _read_back(Position(at.ledger_id, at.entry_id - 1), count)
    payload = bytearray()
    for index, (where, part) in enumerate(parts):
        if not isinstance(part, PositionInfo):
            return part
        if part.chunk is None or (part.chunk.part_index, part.chunk.part_count) != (index, count):
            return EntryLost(f"entry {where} should be chunk {index} of {count} but is {_describe(part.chunk)}")
        payload += part.chunk.payload
    return parse_entry(bytes(payload), at)


def _describe(chunk: StateChunk | None) -> str:
    return "not a chunk" if chunk is None else f"chunk {chunk.part_index} of {chunk.part_count}"


def _merge(
    marker: PositionInfo, warnings: list[str]
) -> Generator[ReadEntries, Sequence[EntryOutcome], PositionInfo | EntryUnavailable]:
    """The marker's position and properties, with the content of the entries that it names.

    If such an entry is lost, the acknowledgements in its data ledger are lost too: those messages
    are delivered again, and none is skipped.
    """
    named = tuple(Position(*bits.words[:2]) for bits in marker.ledger_bits if len(bits.words) >= 2)
    if len(named) < len(marker.ledger_bits):
        warnings.append("the checkpoint marker names an entry without ledger or entry id: that part is omitted")
    outcomes: Sequence[EntryOutcome] = (yield ReadEntries(named)) if named else ()
    bits: list[LedgerBits] = []
    batches: list[BatchDeletion] = list(marker.batch_deletions)
    for at, first in zip(named, outcomes, strict=True):
        outcome = first
        if isinstance(outcome, PositionInfo):
            if outcome.chunk is not None and outcome.chunk.part_index != outcome.chunk.part_count:
                outcome = EntryLost("it is an uncommitted chunk")
            else:
                outcome = yield from _assemble(at, outcome)
        if isinstance(outcome, EntryUnavailable):
            return outcome
        if isinstance(outcome, EntryLost):
            warnings.append(f"entry {at}, which the checkpoint marker names, is lost ({outcome.reason}): omitted")
            continue
        bits += outcome.ledger_bits
        batches += outcome.batch_deletions
    return replace(
        marker,
        properties=tuple(item for item in marker.properties if item[0] != ENTRY_TYPE),
        ledger_bits=tuple(bits),
        batch_deletions=tuple(batches),
    )
