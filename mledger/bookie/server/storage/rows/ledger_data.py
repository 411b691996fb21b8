"""What a bookie keeps of a ledger besides its entries, as bytes in the index and the journal."""

import struct

from msgspec import Struct

_FENCED = 1
_LIMBO = 2
_KEYLESS = 4
_LACKING = 8
_WHOLE_FROM = 16
_NO_KEY = bytes(20)
_FLAGS_AT = len(_NO_KEY)
_ENTRY = struct.Struct(">Q")

NOT_BEGUN = -1
"""`whole_from` of a ledger that no owner has begun to write here since entries of it may have been lost."""

MOST_BYTES = _FLAGS_AT + 1 + _ENTRY.size + 36
"""The most bytes that an encoded record has: an explicit LAC packet is two numbers and a digest of at most 20 bytes."""


class LedgerData(Struct, frozen=True):
    """What a bookie keeps of a ledger besides its entries.

    `limbo`: it may have had entries that it lacks now, and the ledger was not closed yet. `lacking`: the same, for
    good: where older metadata is put back, a closed ledger is open again. `whole_from`: from this entry on it has all
    that it had. `keyless`: its master key is that of the next request.
    """

    master_key: bytes
    fenced: bool = False
    limbo: bool = False
    explicit_lac: bytes = b""
    keyless: bool = False
    lacking: bool = False
    whole_from: int = NOT_BEGUN

    @staticmethod
    def without_key(*, fenced: bool, limbo: bool) -> "LedgerData":
        """The record of a ledger of which the bookie may have lost entries: its master key is not known either."""
        return LedgerData(_NO_KEY, fenced, limbo, keyless=True, lacking=True)

    def proves_absence(self, entry: int | None, *, fencing: bool) -> bool:
        """Whether `entry`, which is not there, never was; None: any that is above all that are there.

        A fencing read (`fencing`) comes from a recovery.
        """
        if not (self.limbo or (fencing and self.lacking)):
            return True
        return self.whole_from != NOT_BEGUN and (entry is None or entry >= self.whole_from)

    def encode(self) -> bytes:
        """Encode for storage: master key 20, flags 1, `whole_from` 8 if known, explicit LAC packet if there is one."""
        flags = (_FENCED if self.fenced else 0) | (_LIMBO if self.limbo else 0) | (_KEYLESS if self.keyless else 0)
        flags |= _LACKING if self.lacking else 0
        if self.whole_from == NOT_BEGUN:
            return self.master_key + bytes((flags,)) + self.explicit_lac
        return self.master_key + bytes((flags | _WHOLE_FROM,)) + _ENTRY.pack(self.whole_from) + self.explicit_lac

    @staticmethod
    def limbo_in(value: bytes) -> bool:
        """Whether the stored bytes are of a ledger in limbo."""
        return bool(value[_FLAGS_AT] & _LIMBO)

    @staticmethod
    def decode(value: bytes) -> "LedgerData":
        """Decode the stored bytes."""
        flags, rest = value[_FLAGS_AT], _FLAGS_AT + 1
        whole_from = NOT_BEGUN
        if flags & _WHOLE_FROM:
            (whole_from,) = _ENTRY.unpack_from(value, rest)
            rest += _ENTRY.size
        return LedgerData(
            value[:_FLAGS_AT],
            bool(flags & _FENCED),
            bool(flags & _LIMBO),
            value[rest:],
            keyless=bool(flags & _KEYLESS),
            lacking=bool(flags & (_LACKING | _LIMBO)),  # former versions noted limbo alone
            whole_from=whole_from,
        )
