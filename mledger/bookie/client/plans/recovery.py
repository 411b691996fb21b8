"""Finds an open ledger's end; decisions only, no I/O (Q4, Q5).

- First the state becomes IN_RECOVERY. Then bookies are fenced until, in every write set, so many have answered that the
  others cannot form an ack quorum: at least Wq - Aq + 1. A bookie is fenced that answers with a damaged entry, too, and
  one that cannot read its last entry if it answers a read of another.
- Reading starts after max(LAC, first entry of the last ensemble - 1), entry by entry, each with the fence flag.
- An entry that one replica has is part of the ledger and is written back.
- The end is the first entry that provably no ack quorum holds: Wq - Aq + 1 members answer that they do not have it.
- So no acknowledged entry is cut off (Q5).
- Unreachable bookies, unknown ledger state and replicas that fail their digest prove nothing. An entry that stays
  undecided is an error, never the end.
- Bookies that fail the write-back are replaced in memory; that ensemble is written together with CLOSED.
"""

import enum
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.bookie.client.plans.write_sets import write_set
from mledger.bookie.errors import Code
from mledger.metastore.records.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerState, Segment


class RecoveryRead(enum.Enum):
    """What a bookie's answer to the read of an entry proves."""

    FOUND = "found"
    MISSING = "missing"
    UNKNOWN = "unknown"
    DAMAGED = "damaged"
    """It was answered, with a copy that fails its digest or none that can be read: the bookie is fenced, and nothing is
    known of the entry."""


NOTHING_TOLD = (RecoveryRead.UNKNOWN, RecoveryRead.DAMAGED)
"""Answers that do not tell what a bookie has."""


class Finding(enum.Enum):
    """What is known of an entry after the answers so far."""

    FOUND = "found"
    END = "end"
    UNDECIDED = "undecided"
    ASK_ON = "ask on"


def answer_of(code: int) -> RecoveryRead:
    """What a response with this error code proves; an OK still has to pass its digest."""
    if code == Code.OK:
        return RecoveryRead.FOUND
    if code in (Code.NO_ENTRY, Code.NO_LEDGER):
        return RecoveryRead.MISSING
    return RecoveryRead.UNKNOWN


def plan_finding(answers: Sequence[RecoveryRead], write_quorum: int, ack_quorum: int) -> Finding:
    """What the answers of an entry's write set, so far, say about it."""
    if RecoveryRead.FOUND in answers:
        return Finding.FOUND
    if answers.count(RecoveryRead.MISSING) > write_quorum - ack_quorum:
        return Finding.END
    if len(answers) == write_quorum:
        return Finding.UNDECIDED
    return Finding.ASK_ON


def covered(answers: Sequence[RecoveryRead | None], write_quorum: int, ack_quorum: int) -> bool:
    """Whether in no write set an ack quorum can form among members that have not answered (None, UNKNOWN).

    `answers` holds one for each ensemble index.
    """
    size = len(answers)
    return all(
        sum(answers[index] in (None, RecoveryRead.UNKNOWN) for index in write_set(entry, size, write_quorum))
        < ack_quorum
        for entry in range(size)
    )


def first_entry_to_read(last_add_confirmed: int, metadata: LedgerMetadata) -> int:
    """The first entry that recovery must look for: all before it are acknowledged (Q4)."""
    return max(last_add_confirmed, metadata.segments[-1].first_entry - 1) + 1


class Reported(Struct, frozen=True):
    """A bookie's answer to the read of its last entry: that entry, and the values in its head."""

    entry: int = NO_ENTRY
    last_add_confirmed: int = NO_ENTRY
    length: int = 0


READ_AHEAD_BYTES = 32 << 20
"""Payload bytes to read ahead at once; one entry may exceed it."""


def read_ahead(
    first: int, length_before: int, reports: Sequence[Reported], limit: int, max_entry: int, most_bytes: int
) -> int:
    """The last entry to ask for at once from `first` on: one behind those that bookies reported, `limit` at most.

    No more are asked for than surely fit `most_bytes`. What the entries up to a reported one take together is told by
    its length and `length_before`, the ledger's length before `first` (0 where it is not known); otherwise each may
    have `max_entry` bytes.
    """
    highest = max((report.entry for report in reports), default=NO_ENTRY)
    length = max((report.length for report in reports if report.entry == highest), default=0)
    if length - length_before > most_bytes:
        limit = min(limit, max(1, most_bytes // max_entry))
    return max(first, min(highest + 1, first + limit - 1))


def known_length(last_entry: int, reports: Sequence[Reported]) -> int | None:
    """The ledger's length in bytes if it ends with `last_entry`, if the reports tell it; None: read that entry."""
    if last_entry == NO_ENTRY:
        return 0
    return next((report.length for report in reports if report.entry == last_entry), None)


def plan_in_recovery(metadata: LedgerMetadata) -> LedgerMetadata | None:
    """The metadata to write before the first fence; None if its state is IN_RECOVERY already."""
    if metadata.state is LedgerState.OPEN:
        return replace(metadata, state=LedgerState.IN_RECOVERY)
    return None


def plan_segments(
    before: tuple[Segment, ...], changed: tuple[Segment, ...] | None, last_entry: int
) -> tuple[Segment, ...]:
    """The segments to close with: those changed in memory, unless they begin after the ledger's last entry.

    Only the last one is changed in memory, or others follow it. Those before it are taken from `before`, which the
    store has now: re-replication may have replaced bookies in them since the recovery began (Q6).
    """
    if changed is None:
        return before
    earlier = len(before) - 1
    return (
        *before[:earlier],
        *(segment for segment in changed[earlier:] if segment.first_entry <= last_entry or segment in before),
    )


def plan_closed(
    metadata: LedgerMetadata, last_entry: int, length: int, segments: tuple[Segment, ...] | None = None
) -> LedgerMetadata:
    """The metadata of the ledger closed with `last_entry` and `length` bytes; `segments` if they changed in memory."""
    return replace(
        metadata,
        state=LedgerState.CLOSED,
        last_entry=last_entry,
        length=length,
        segments=metadata.segments if segments is None else segments,
    )
