"""Managed-ledger and cursor records as plain values; `codec` turns them into bytes and back (formats.md)."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from msgspec import Struct

from mledger.metastore.records.position import Position, PositionRange

NO_CURSOR_LEDGER = -1

COMPACTED_LEDGER = "CompactedTopicLedger"
"""The property of a compaction's cursor that names the compacted ledger."""
REPLICATED_SUBSCRIPTION = "pulsar.replicated.subscription"
"""The property of a position that marks a subscription as replicated to other clusters."""
INTERNAL_PROPERTY = "#pulsar.internal."
"""How properties of a cursor begin that brokers set, and clients may not."""
DELAYED_BUCKET = f"{INTERNAL_PROPERTY}delayed.bucket"
"""How the properties of a cursor begin that name the ledgers with its index of delayed messages."""

OPEN_ZEROS = frozenset({"timestamp"})
"""What Pulsar writes for a ledger that it has just created: no entries, no size, and the timestamp 0."""

T = TypeVar("T")


class OffloadContext(Struct, frozen=True):
    """Where an offloaded ledger's copy is; kept as read, never interpreted."""

    encoded: bytes


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """One ledger of a topic; entries, size (payload bytes) and timestamp (close time, ms) are 0 while it is open.

    `zeros` names those of the three that are written although they are 0; comparisons of records ignore it.
    """

    ledger_id: int
    entries: int = 0
    size: int = 0
    timestamp: int = 0
    offload: OffloadContext | None = None
    properties: tuple[tuple[str, str], ...] = ()
    unknown: bytes = b""  # fields of newer versions, written back as they came
    zeros: frozenset[str] = field(default=OPEN_ZEROS, compare=False, repr=False)


class ManagedLedgerInfo(Struct, frozen=True):
    """The topic's znode: its ledgers in order, where it was terminated, its properties."""

    ledgers: tuple[LedgerInfo, ...] = ()
    terminated: Position | None = None
    properties: tuple[tuple[str, str], ...] = ()
    unknown: bytes = b""


class BatchDeletion(Struct, frozen=True):
    """Words of a bit set over one entry's batch indexes; 1 means not yet acknowledged."""

    position: Position
    words: tuple[int, ...]


class LedgerBits(Struct, frozen=True):
    """LongListMap: the deleted entries of `ledger_id`, as bit-set words (signed 64 bit) or a portable RoaringBitmap."""

    ledger_id: int
    words: tuple[int, ...] = ()
    bitmap: bytes = b""


class StateChunk(Struct, frozen=True):
    """One part of a state that did not fit in one entry; `part_index == part_count` commits the group."""

    part_index: int
    part_count: int
    payload: bytes = b""


class PositionInfo(Struct, frozen=True):
    """An entry of a cursor ledger: the cursor's whole state at one moment."""

    position: Position
    ranges: tuple[PositionRange, ...] = ()
    properties: tuple[tuple[str, int], ...] = ()
    batch_deletions: tuple[BatchDeletion, ...] = ()
    ledger_bits: tuple[LedgerBits, ...] = ()
    chunk: StateChunk | None = None
    unknown: bytes = b""


class ManagedCursorInfo(Struct, frozen=True):
    """The cursor's znode. `cursors_ledger_id` -1: the state is here (R2); otherwise `mark_delete` is a snapshot."""

    cursors_ledger_id: int = NO_CURSOR_LEDGER
    mark_delete: Position | None = None
    ranges: tuple[PositionRange, ...] = ()
    properties: tuple[tuple[str, int], ...] = ()
    last_active: int = 0
    batch_deletions: tuple[BatchDeletion, ...] = ()
    cursor_properties: tuple[tuple[str, str], ...] = ()
    last_checkpoint: Position | None = None  # lastCmCursorLedgerId, lastCmEntryId of newer versions
    unknown: bytes = b""


class Decoded(Struct, Generic[T], frozen=True):
    """A record with how it was stored."""

    value: T
    compression: str = "NONE"
    text: bool = False  # protobuf text, of very old clusters
