"""What a bookie keeps of a ledger besides its entries, as bytes in the index and the journal."""

from msgspec import Struct

_FENCED = 1
_LIMBO = 2
_KEYLESS = 4
_LACKING = 8
_NO_KEY = bytes(20)

MOST_BYTES = 21 + 36
"""The most bytes that an encoded record has: an explicit LAC packet is two numbers and a digest of at most 20 bytes."""


class LedgerData(Struct, frozen=True):
    """What a bookie keeps of a ledger besides its entries.

    `limbo`: it may have had entries that it lacks now, and the ledger was not closed yet. `lacking`: the same, for
    good: where older metadata is put back, a closed ledger is open again. `keyless`: its master key is that of the next
    request.
    """

    master_key: bytes
    fenced: bool = False
    limbo: bool = False
    explicit_lac: bytes = b""
    keyless: bool = False
    lacking: bool = False

    @staticmethod
    def without_key(*, fenced: bool, limbo: bool) -> "LedgerData":
        """The record of a ledger of which the bookie may have lost entries: its master key is not known either."""
        return LedgerData(_NO_KEY, fenced, limbo, keyless=True, lacking=True)

    def proves_absence(self, *, fencing: bool) -> bool:
        """Whether an entry that is not there never was: a fencing read (`fencing`) comes from a recovery."""
        return not (self.limbo or (fencing and self.lacking))

    def encode(self) -> bytes:
        """Encode for storage: master key 20, flags 1, explicit LAC packet if there is one."""
        flags = (_FENCED if self.fenced else 0) | (_LIMBO if self.limbo else 0) | (_KEYLESS if self.keyless else 0)
        flags |= _LACKING if self.lacking else 0
        return self.master_key + bytes((flags,)) + self.explicit_lac

    @staticmethod
    def limbo_in(value: bytes) -> bool:
        """Whether the stored bytes are of a ledger in limbo."""
        return bool(value[20] & _LIMBO)

    @staticmethod
    def decode(value: bytes) -> "LedgerData":
        """Decode the stored bytes."""
        flags = value[20]
        return LedgerData(
            value[:20],
            bool(flags & _FENCED),
            bool(flags & _LIMBO),
            value[21:],
            keyless=bool(flags & _KEYLESS),
            lacking=bool(flags & (_LACKING | _LIMBO)),  # former versions noted limbo alone
        )
