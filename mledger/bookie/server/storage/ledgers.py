"""What a bookie knows of each ledger, and which adds it takes. The plans do no I/O.

- The bookie keeps the first master key that it sees for a ledger; others are answered 102.
- A fenced ledger takes recovery adds only (104 otherwise). A fence is permanent, even if the ledger is deleted: a
  fenced writer may wake long afterwards and must not begin the ledger anew. Recovery adds may.
- An entry above all others of its ledger belongs to a run; any other is a repeated add and is kept separately.
"""

import itertools
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy
from msgspec import Struct, field
from msgspec.structs import replace

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import Code, IndexUnreadable
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.ledger_data import NOT_BEGUN, LedgerData
from mledger.bookie.server.storage.rows.runs import StoredRun, parse_run
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

MOST_LEDGERS = 65_536
"""Ledgers that a bookie keeps in memory, unless more have turns in progress."""

NO_ENTRY = -1
_LARGEST_DIGEST = 20
_RECOVERY_ADD, _HIGH_PRIORITY = int(wire.Flag.RECOVERY_ADD), int(wire.Flag.HIGH_PRIORITY)
_LAC = struct.Struct(">qq")
"""Ledger, last add confirmed: the head of an explicit LAC packet; its digest follows."""

LARGEST_RUN = 256 << 10
"""Bytes of frames in one run, unless one frame alone has more: a read of one entry fetches the whole run."""


class Commit(Protocol):
    """The turn that makes accepted changes durable."""

    synced: bool


class PendingRun(Struct):
    """Accepted adds that are not in the index yet."""

    first: int
    last: int
    frames: bytes
    repeated: bool
    _parsed: StoredRun | None = None

    @property
    def run(self) -> StoredRun:
        """The frames as a run in which entries can be found."""
        if self._parsed is None:
            self._parsed = parse_run(self.frames)
        return self._parsed


class LedgerDescriptor(Struct):
    """A ledger in memory: its record (None: never seen, or deleted), its highest entry, whether it has repeated adds.

    `was_fenced`: it is deleted, and owners may not begin it anew.
    `may_lack`: this bookie, or a former one of its name, may have had entries of it although it has no record.
    `confirmed` is the last add confirmed, None until it is asked for.
    `commit` is the last turn that changed it; `pending` is what the index gets once the turns in progress are synced.
    """

    ledger: int
    record: LedgerData | None
    highest: int
    repeats: bool
    commit: Commit | None = None
    pending: list[PendingRun] = field(default_factory=list)
    last_read: Row | None = None
    was_fenced: bool = False
    may_lack: bool = False
    confirmed: int | None = None

    def keyed(self, master_key: bytes, run: request_frames.AddRun | None = None) -> LedgerData:
        """The ledger's record for a request that its check let pass: it brings the master key if there is none yet.

        `run`: adds. An owner sends its entries in ascending order, and all again that do not count yet. So from the
        first one that it sends here on, there never was one here that is not.
        """
        record = self.record
        if record is None:
            record = LedgerData(master_key, fenced=self.was_fenced, lacking=self.may_lack)
        if record.lacking and record.whole_from == NOT_BEGUN and run is not None and not run.flags & _RECOVERY_ADD:
            record = replace(record, whole_from=run.lowest)
        return replace(record, master_key=master_key, keyless=False) if record.keyless else record

    @property
    def durable(self) -> bool:
        """Whether all known changes of the ledger are synced."""
        return self.commit is None or self.commit.synced


Sighting = tuple[LedgerDescriptor, Commit | None]
"""A ledger in memory and the last turn that changed it: another one later shows that something was added."""

Needs = Mapping[int, int]
"""Bytes that a ledger's rows name, by the number of the journal file."""

Measured = tuple[Sighting, Needs]
"""A ledger in memory, and what it needed then."""


class RequestSpan(Struct, frozen=True):
    """Requests `first` to `last` - 1 of a run; `repeated`: one entry that is not above the ledger's highest."""

    first: int
    last: int
    repeated: bool


def check_add(state: LedgerDescriptor, run: request_frames.AddRun, *, read_only: bool = False) -> Code:
    """Whether the ledger takes the adds of a run, which share version, flags and master key."""
    if run.version > wire.VERSION:
        return Code.BAD_VERSION
    if read_only and not run.flags & _HIGH_PRIORITY:
        return Code.READ_ONLY
    if run.ledger < 0:
        return Code.BAD_REQUEST
    record, recovery = state.record, run.flags & _RECOVERY_ADD
    if record is None:
        return Code.FENCED if state.was_fenced and not recovery else Code.OK
    if not record.keyless and record.master_key != run.master_key:
        return Code.UNAUTHORIZED
    if record.fenced and not recovery:
        return Code.FENCED
    return Code.OK


def check_master_key(state: LedgerDescriptor, master_key: bytes) -> Code:
    """Whether this master key permits fencing the ledger or setting its last add confirmed."""
    record = state.record
    if record is not None and not record.keyless and record.master_key != master_key:
        return Code.UNAUTHORIZED
    return Code.OK


def check_write_lac(state: LedgerDescriptor, master_key: bytes, *, read_only: bool) -> Code:
    """Whether a ledger takes an explicit last add confirmed; a fenced one does."""
    if read_only:
        return Code.READ_ONLY
    if state.record is None and state.was_fenced:
        return Code.NO_LEDGER
    return check_master_key(state, master_key)


def explicit_confirmed(packet: bytes) -> int:
    """The last add confirmed in an explicit LAC packet; none in one that is too short."""
    return int(_LAC.unpack_from(packet)[1]) if len(packet) >= _LAC.size else NO_ENTRY


def explicit_lac_of(ledger: int, packet: bytes) -> bool:
    """Whether a packet may be the ledger's explicit LAC; readers check its digest."""
    return _LAC.size <= len(packet) <= _LAC.size + _LARGEST_DIGEST and _LAC.unpack_from(packet)[0] == ledger


def plan_spans(highest: int, run: request_frames.AddRun) -> Iterator[RequestSpan]:
    """Cut a run into new entries, each span of at most LARGEST_RUN bytes, and repeated ones, one by one."""
    entries = run.entries
    if run.rising and entries[0] > highest:
        yield from _pieces(run, 0, len(entries))
        return
    before = numpy.maximum.accumulate(numpy.concatenate(([highest], entries[:-1])))
    new = (entries > before).tolist()
    first = 0
    while first < len(new):
        last = first + 1
        if new[first]:
            while last < len(new) and new[last]:
                last += 1
            yield from _pieces(run, first, last)
        else:
            yield RequestSpan(first, last, True)
        first = last


def _pieces(run: request_frames.AddRun, first: int, last: int) -> Iterator[RequestSpan]:
    starts = run.starts
    while starts[last] - starts[first] > LARGEST_RUN:
        cut = int(numpy.searchsorted(starts, starts[first] + LARGEST_RUN, side="right")) - 1
        cut = min(max(cut, first + 1), last)
        yield RequestSpan(first, cut, False)
        if cut == last:
            return
        first = cut
    yield RequestSpan(first, last, False)


class Ledgers:
    """The recently used ledgers; the index has the rest."""

    def __init__(self, index: Index, most: int | None = None) -> None:
        """Keep `most` ledgers in memory; all if it is None, and then the index may lack their last changes."""
        self._index, self._most = index, most
        self._states: OrderedDict[int, LedgerDescriptor] = OrderedDict()
        self._tolerated = 0  # ledgers above `most` before the next look at which can go

    def get(self, ledger: int) -> LedgerDescriptor:
        """The state of a ledger, read from the index when it is not in memory; IndexUnreadable."""
        state = self._states.get(ledger)
        if state is None:
            self.shrink()
            try:
                state = self._load(ledger)
            except Exception as error:  # RocksDB's have no class of their own
                log.error("ledger_unreadable", ledger=ledger, error=error, hint="the index is damaged")
                raise IndexUnreadable(f"ledger {ledger}: the index cannot be read: {error}") from error
            self._states[ledger] = state
        return state

    def forget(self, ledger: int) -> None:
        """Drop a ledger from memory."""
        self._states.pop(ledger, None)

    def shrink(self) -> None:
        """Drop the ledgers longest in memory when there are too many, except those that wait for a turn.

        Where most of them wait, it looks again when there are a quarter more, not for each further one.
        """
        most = self._most
        if most is None or len(self._states) < most + self._tolerated:
            return
        part = max(most // 4, 1)
        durable = [ledger for ledger, state in itertools.islice(self._states.items(), part) if state.durable]
        for ledger in durable:
            del self._states[ledger]
        self._tolerated = 0 if 2 * len(durable) >= part else max(len(self._states) + part - most, 0)

    def _load(self, ledger: int) -> LedgerDescriptor:
        record = self._index.ledger(ledger) if ledger >= 0 else None
        if record is None:
            was_fenced = ledger >= 0 and self._index.was_fenced(ledger)
            may_lack = was_fenced or ledger < self._index.known_from
            return LedgerDescriptor(ledger, None, NO_ENTRY, False, was_fenced=was_fenced, may_lack=may_lack)
        run = self._index.last_run(ledger)
        repeats = next(self._index.repeats(ledger), None) is not None
        return LedgerDescriptor(ledger, record, NO_ENTRY if run is None else run.last, repeats)
