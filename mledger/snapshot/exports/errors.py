"""Errors of exported snapshots; each names the directory and says what to do."""

from mledger.metastore.errors import MledgerError


class ExportError(MledgerError):
    """A snapshot could not be written, read or removed."""


class SnapshotNotFound(ExportError):
    """There is no complete snapshot at this path."""


class InvalidSnapshotName(ExportError):
    """A snapshot cannot have this name."""


class SnapshotExists(ExportError):
    """A snapshot of that name exists, with other contents."""


class SnapshotDoesNotFit(ExportError):
    """An export cannot continue this snapshot."""


class AmbiguousRows(ExportError):
    """An older snapshot's rows do not tell enough of a node that changed: only a full export does."""


class ExportBusy(ExportError):
    """Another export is writing to the same directory."""


class ExportCutOff(ExportError):
    """A worker process ended; finished steps are kept for the next run."""


class ExportNotWritable(ExportError):
    """The destination cannot be written."""


class DestinationNotReadable(ExportError):
    """A directory or file cannot be reached or read."""


class DestinationNotLocal(ExportError):
    """This format needs a directory on this machine."""


class InvalidManifest(ExportError):
    """A snapshot's manifest is not one that an export wrote."""


class FormatNotInstalled(ExportError):
    """A package that this format, or a query or report, needs is not installed."""


class UnknownQuery(ExportError):
    """There is no such query, or it needs an older snapshot to compare with."""


class QueryTooLarge(ExportError):
    """A query needs more memory, or more space to spill to, than it may use."""
