"""Errors of exported snapshots; each names the directory and says what to do."""

from mledger.metastore.errors import MledgerError


class ExportError(MledgerError):
    """A snapshot could not be written, read or removed."""


class SnapshotNotFound(ExportError):
    """There is no whole snapshot at this place."""


class InvalidSnapshotName(ExportError):
    """A snapshot cannot have this name."""


class SnapshotExists(ExportError):
    """A snapshot of that name is there, of something else."""


class ExportBusy(ExportError):
    """Another export writes to the same place."""


class ExportCutOff(ExportError):
    """A worker process ended; what was finished is kept for the next try."""


class ExportNotWritable(ExportError):
    """The destination cannot be written."""


class DestinationNotReadable(ExportError):
    """A place on some file system cannot be reached or read."""


class InvalidManifest(ExportError):
    """A snapshot's manifest is not what an export writes."""


class FormatNotInstalled(ExportError):
    """What writes this format, or answers questions, is not installed."""


class UnknownQuery(ExportError):
    """There is no such question, or it needs a snapshot before."""
