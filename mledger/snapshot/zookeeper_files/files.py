"""Where ZooKeeper's files lie: names and streams of bytes, so that other file systems can stand in for the local."""

import os
from typing import BinaryIO, Protocol

from mledger.snapshot.zookeeper_files.errors import FileNotReadable


class DataFiles(Protocol):
    """A server's snapshot and log files by name; must be picklable where other processes are to read."""

    @property
    def where(self) -> str:
        """The place as a person would name it."""

    def names(self) -> list[str]:
        """The names of all files there; FileNotReadable."""

    def open(self, name: str) -> BinaryIO:
        """The file's bytes, seekable; FileNotReadable."""


class LocalFiles:
    """Files in a directory of this machine: a `dataDir` (with `version-2` in it) or a `version-2` itself, or a backup.

    `log_directory` is the `dataLogDir`, where the logs lie elsewhere.
    """

    def __init__(self, directory: str, log_directory: str | None = None) -> None:
        self.directory = _version_2(directory)
        self.log_directory = _version_2(log_directory) if log_directory else None

    @property
    def where(self) -> str:
        """The directory."""
        return self.directory

    def names(self) -> list[str]:
        """The names of all files; logs come from the log directory only, where there is one."""
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
