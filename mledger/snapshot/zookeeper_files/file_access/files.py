"""Access to ZooKeeper's files as names and streams of bytes, for the local and for other file systems."""

import os
from typing import BinaryIO, Protocol

from mledger.snapshot.zookeeper_files.errors import FileNotReadable


class DataFiles(Protocol):
    """A server's snapshot and log files by name; it must be picklable if other processes read."""

    @property
    def where(self) -> str:
        """The directory's path or URI for messages."""

    def names(self) -> list[str]:
        """The names of all files; FileNotReadable."""

    def open(self, name: str) -> BinaryIO:
        """The file's bytes, seekable; FileNotReadable."""


class LocalFiles:
    """Files in a directory on this machine: a `dataDir` (with `version-2` in it), a `version-2`, or a backup.

    `log_directory` is the `dataLogDir`, if the logs are elsewhere.
    """

    def __init__(self, directory: str, log_directory: str | None = None) -> None:
        self.directory = _version_2(directory)
        self.log_directory = _version_2(log_directory) if log_directory else None

    @property
    def where(self) -> str:
        """The directory."""
        return self.directory

    def names(self) -> list[str]:
        """The names of all files; if there is a log directory, logs come only from it."""
        names = _listing(self.directory)
        if self.log_directory:
            names = [name for name in names if not name.startswith("log.")]
            names += [name for name in _listing(self.log_directory) if name.startswith("log.")]
        return names

    def open(self, name: str) -> BinaryIO:
        """The file's bytes; FileNotReadable."""
        directory = self.log_directory if self.log_directory and name.startswith("log.") else self.directory
        try:
            return open(os.path.join(directory, name), "rb", buffering=0)
        except OSError as error:
            raise FileNotReadable(f"{os.path.join(directory, name)} cannot be read: {error.strerror}", name) from error


def _version_2(directory: str) -> str:
    inner = os.path.join(directory, "version-2")
    return inner if os.path.isdir(inner) else directory


def _listing(directory: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(directory) if entry.is_file())
    except OSError as error:
        raise FileNotReadable(f"{directory} cannot be read: {error.strerror}", directory) from error
