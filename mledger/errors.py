"""Errors of managed ledgers and cursors."""

from mledger.metastore.errors import MledgerError


class ManagedLedgerError(MledgerError):
    """Root of the errors of topics and cursors."""


class ShadowTopic(MledgerError):
    """The topic shows another one's ledgers, and is not to be changed here."""


class NamespaceNotFound(MledgerError):
    """Neither Pulsar nor any topic knows the tenant or namespace."""


class TopicNotFound(ManagedLedgerError):
    """No such topic."""


class TopicExists(ManagedLedgerError):
    """A topic of that name is there already."""


class CursorNotFound(ManagedLedgerError):
    """No such cursor on this topic."""


class CursorExists(ManagedLedgerError):
    """A cursor of that name is there already."""


class ManagedLedgerFenced(ManagedLedgerError):
    """Another owner has the topic (M7): this one has stopped and touches nothing further."""


class OwnedElsewhere(ManagedLedgerError):
    """A live owner was seen (M9): take over explicitly or leave it."""


class ManagedLedgerClosed(ManagedLedgerError):
    """The topic or cursor was closed by this program."""


class TopicTerminated(ManagedLedgerError):
    """The topic takes no more entries (M8); readers end at the terminated position."""


class CursorRecoveryFailed(ManagedLedgerError):
    """The cursor's state cannot be read now (R5): retriable, and never taken for lost."""


class PoliciesUnavailable(ManagedLedgerError):
    """The policies that say what of a topic is kept cannot be read now: nothing is trimmed (M10)."""


class AckStateTooLarge(ManagedLedgerError):
    """The cursor's state does not fit one entry; it stays in memory, nothing is dropped (C5)."""


class LedgerOffloaded(ManagedLedgerError):
    """The ledger's entries are in tiered storage only, which is not read here: nothing is lost, and nothing skipped."""


class InvalidPosition(ManagedLedgerError):
    """A position that the topic does not have, or that the operation cannot take."""


class InvalidProperties(ManagedLedgerError):
    """Properties that no record of a cursor can hold; nothing was changed."""


class InvalidConfiguration(ManagedLedgerError):
    """A setting out of its range, or settings that contradict each other (M6)."""


class InvalidLedgerList(ManagedLedgerError):
    """A topic's list of ledgers that contradicts itself; it is never written (M1, M4)."""


class UndoFileError(ManagedLedgerError):
    """A file that is not an undo file, or one that cannot be written where it was to be."""


class UndoConflict(ManagedLedgerError):
    """A record is not as the command left it, so that it cannot be put back; nothing was written."""


class LedgerNamed(ManagedLedgerError):
    """A ledger that a record names, or may name, and that is therefore not deleted."""
