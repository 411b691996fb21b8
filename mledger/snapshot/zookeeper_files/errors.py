"""Errors of reading ZooKeeper's own files; each names the file and the zxid, and says what to do."""

from mledger.metastore.errors import MledgerError


class SnapshotError(MledgerError):
    """ZooKeeper's files could not be read as the tree that was asked for; `file` names the one concerned, if any."""

    def __init__(self, message: str, file: str = "") -> None:
        super().__init__(message)
        self.file = file


class FileNotReadable(SnapshotError):
    """A file or directory is not there, or the operating system refused it."""


class NoSnapshotFile(SnapshotError):
    """The directory holds no snapshot file to begin with."""


class CorruptFile(SnapshotError):
    """A file's bytes are not what ZooKeeper wrote: wrong checksum, wrong form, or a name that does not fit."""


class TruncatedFile(SnapshotError):
    """A file ends before its end mark: ZooKeeper was still writing it, or it was not copied whole."""


class MissingLog(SnapshotError):
    """Transactions between the snapshot and the point asked for are in no log file."""


class ZxidNotCovered(SnapshotError):
    """The files do not reach the zxid or time asked for, or cannot give it exactly."""


class LogDoesNotFit(SnapshotError):
    """Snapshot and log contradict each other: they are not of one server's history, or one of them was changed."""


class InvalidOption(SnapshotError):
    """An option that is not known, does not fit the others, or has a value that it cannot have."""


class UnknownTable(SnapshotError):
    """A table of that name is not among those there are."""


class UnknownColumn(SnapshotError):
    """A table has no column of that name, or it is of another type than was asked for."""


class ChrootNotFound(SnapshotError):
    """The tree in ZooKeeper's files has no such node as the chroot that was named."""
