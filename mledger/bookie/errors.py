"""Errors of the bookie client and server, and the codes of protocol version 2."""

import enum

from mledger.metastore.errors import MledgerError


class Code(enum.IntEnum):
    """Error codes of a version 2 response."""

    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO_ERROR = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_LEDGER_STATE = 107


class BookieError(MledgerError):
    """Root of the bookie client's and server's errors."""


class NoSuchLedger(BookieError):
    """The ledger has no metadata: it never existed, or was deleted."""


class NoSuchEntry(BookieError):
    """The entry provably does not exist: it is beyond the ledger's end, or was never written."""


class LedgerFenced(BookieError):
    """Another client opened the ledger with recovery: this writer must stop."""


class LedgerClosed(BookieError):
    """The handle or the ledger is closed: it takes no more entries."""


class Unauthorized(BookieError):
    """The password, and so the master key, does not match the ledger's."""


class DigestMismatch(BookieError):
    """Every replica asked holds bytes that fail the digest."""


class NotEnoughBookies(BookieError):
    """Fewer bookies than the ensemble or a quorum needs; retriable (R5)."""


class NotEnoughRacks(NotEnoughBookies):
    """The bookies are on fewer racks than each write quorum is to span; retriable (R5)."""


class BookieUnavailable(BookieError):
    """A bookie cannot be reached or did not answer in time; retriable (R5)."""


class LedgerConflict(BookieError):
    """Another client changed the ledger's metadata so that this client cannot continue (M7)."""


class RecoveryUndecided(BookieError):
    """Too few bookies answered to say whether an entry was acknowledged; retriable (Q4, R5)."""


class EntryTooLarge(BookieError):
    """An entry exceeds the frame limit."""


class InvalidQuorum(BookieError):
    """The quorums do not satisfy E >= Wq >= Aq >= 1."""


class BookieRefused(BookieError):
    """A bookie answered with an error that has no class of its own; the message holds code and bookie."""


class LedgerStateUnknown(BookieRefused):
    """A bookie began anew with empty directories, and does not know whether it had an entry that it lacks now."""


class DiskFull(BookieError):
    """A bookie's disk has no room for a write; make room."""


class IndexUnreadable(BookieError):
    """A bookie's index is damaged where it has a ledger: what the bookie holds of it is not known."""


class InvalidBookieDirectory(BookieError):
    """A bookie's directory belongs to another bookie, has an unknown format, or is damaged."""


class CorruptJournal(InvalidBookieDirectory):
    """A bad journal record followed by a valid later one: not a torn tail."""


class EncryptionRefused(ConnectionError):
    """A connection cannot be encrypted, or the bookie refuses this client; the message says what to do where."""
