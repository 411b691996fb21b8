"""LedgerMetadata: a ledger's ensembles, quorums and end, in all three versions BookKeeper has written (formats.md)."""

import enum
from typing import NamedTuple

from msgspec import Struct

NO_ENTRY = -1
NOT_KEPT = -1
"""`ctime` of a ledger whose creation time is not in its record."""


class LedgerState(enum.Enum):
    """Where a ledger is in its life; the numbers are the record's."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class DigestType(enum.Enum):
    """How an entry's bytes are protected; the numbers are the record's."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


class Segment(NamedTuple):
    """The ensemble in force from `first_entry` on: bookie ids, as many as the ensemble size. Made by the million."""

    first_entry: int
    bookies: tuple[str, ...]


class LedgerMetadata(Struct, frozen=True):
    """One ledger's record. `last_entry` is -1 and `length` 0 until it is closed; an empty closed ledger has -1 too."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry: int = NO_ENTRY
    length: int = 0
    digest_type: DigestType | None = DigestType.CRC32C
    password: bytes | None = b""
    ctime: int = NOT_KEPT  # ms since 1970
    custom_metadata: tuple[tuple[str, bytes], ...] = ()
    c_token: int = 0
    format_version: int = 3
    unknown: bytes = b""

    @property
    def ensemble(self) -> tuple[str, ...]:
        """The bookies of the last segment."""
        return self.segments[-1].bookies

    def segment_at(self, entry: int) -> Segment:
        """The segment in force at `entry`."""
        found = self.segments[0]
        for segment in self.segments:
            if segment.first_entry > entry:
                break
            found = segment
        return found

    @property
    def known_entries(self) -> int:
        """How many entries the record itself proves: all of a closed ledger, else those before its last segment."""
        return self.last_entry + 1 if self.state is LedgerState.CLOSED else self.segments[-1].first_entry

    def follows(self, earlier: "LedgerMetadata") -> bool:
        """Whether this may be a later record of the ledger whose record `earlier` is: closing is for good."""
        if self.custom_metadata != earlier.custom_metadata or 0 < self.ctime != earlier.ctime > 0:
            return False
        if earlier.state is LedgerState.CLOSED and self.state is not LedgerState.CLOSED:
            return False
        return self.known_entries >= earlier.known_entries
