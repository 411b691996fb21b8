"""Errors of managed ledgers and cursors."""

from mledger.metastore.errors import MledgerError


class ManagedLedgerError(MledgerError):
    """The base class of the errors of topics and cursors."""


class ShadowTopic(MledgerError):
    """The topic is a shadow of another one and shares its ledgers; mledger does not change it."""


class TopicNotServed(MledgerError):
    """No broker has the topic open."""


class BrokerUnavailable(MledgerError):
    """A broker does not answer, or does not say where."""


class NamespaceNotFound(MledgerError):
    """The tenant or namespace has no topics, and Pulsar does not know it."""


class TopicNotFound(ManagedLedgerError):
    """The topic does not exist."""


class TopicExists(ManagedLedgerError):
    """The topic exists or is open here already."""


class CursorNotFound(ManagedLedgerError):
    """The topic has no such cursor."""


class CursorExists(ManagedLedgerError):
    """The cursor exists already."""


class ManagedLedgerFenced(ManagedLedgerError):
    """Another owner has the topic (M7): this one has stopped and changes nothing more."""


class OwnedElsewhere(ManagedLedgerError):
    """The topic has a live owner (M9): stop it, or take the topic over explicitly."""


class TopicChanged(ManagedLedgerError):
    """The topic's record was written since its state was read; `path` names that record."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class ManagedLedgerClosed(ManagedLedgerError):
    """This program has closed the topic or cursor."""


class TopicTerminated(ManagedLedgerError):
    """The topic accepts no more entries (M8); readers end at the terminated position."""


class CursorRecoveryFailed(ManagedLedgerError):
    """The cursor's state cannot be read now (R5): retry; it is never assumed lost."""


class PoliciesUnavailable(ManagedLedgerError):
    """The topic's retention policies cannot be read now: nothing is trimmed (M10)."""


class RetentionUnknown(ManagedLedgerError):
    """No policy sets the topic's retention, and the default of the cluster's brokers is not given (M10)."""


class AckStateTooLarge(ManagedLedgerError):
    """The cursor's state does not fit into one entry; it stays in memory and nothing is dropped (C5)."""


class LedgerOffloaded(ManagedLedgerError):
    """The ledger's entries are only in tiered storage, which mledger does not read; none is skipped."""


class InvalidPosition(ManagedLedgerError):
    """The topic has no such position, or the operation does not allow it."""


class InvalidProperties(ManagedLedgerError):
    """The record of a cursor or topic cannot hold these properties; nothing was changed."""


class InvalidConfiguration(ManagedLedgerError):
    """A setting is out of range, or settings contradict each other (M6)."""


class InvalidLedgerList(ManagedLedgerError):
    """A topic's list of ledgers is inconsistent; it is never written (M1, M4)."""


class UndoFileError(ManagedLedgerError):
    """The file is not an undo file, or the undo file cannot be written."""


class UndoConflict(ManagedLedgerError):
    """A record changed after the command, so it cannot be restored; nothing was written."""


class LedgerNamed(ManagedLedgerError):
    """A record names the ledger, or may name it, so it is not deleted."""


class ForeignLedger(ManagedLedgerError):
    """A ledger that a record or a backup names is another's in this cluster; it is neither read nor deleted."""
