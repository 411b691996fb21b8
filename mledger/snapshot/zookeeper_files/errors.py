"""Errors of reading ZooKeeper's own files; each names the file and the zxid, and says what to do."""

from mledger.metastore.errors import MledgerError


class SnapshotError(MledgerError):
    """ZooKeeper's files do not give the requested tree; `file` names the file concerned, if there is one."""

    def __init__(self, message: str, file: str = "") -> None:
        super().__init__(message)
        self.file = file


class FileNotReadable(SnapshotError):
    """A file or directory does not exist, or the operating system denied access to it."""


class NoSnapshotFile(SnapshotError):
    """The directory has no snapshot file."""


class CorruptFile(SnapshotError):
    """A file's bytes are not what ZooKeeper wrote: wrong checksum, wrong format, or a name that does not match."""


class TruncatedFile(SnapshotError):
    """A file ends before its end mark: ZooKeeper was still writing it, or it was not copied completely."""


class MissingLog(SnapshotError):
    """Transactions between the snapshot and the requested point are in no log file."""


class ZxidNotCovered(SnapshotError):
    """The files do not reach the requested zxid or time, or do not give the exact tree there."""


class LogDoesNotFit(SnapshotError):
    """Snapshot and log contradict each other: they come from different histories, or one of them was changed."""


class InvalidOption(SnapshotError):
    """An option is unknown, conflicts with others, or has an invalid value."""


class UnknownTable(SnapshotError):
    """There is no table of that name."""


class UnknownColumn(SnapshotError):
    """A table has no column of that name, or the column has another type."""


class ChrootNotFound(SnapshotError):
    """The tree in ZooKeeper's files does not have the given chroot."""
