"""What a power loss leaves of files: each file's contents when it was last synced."""

import os
from pathlib import Path
from typing import Any


class RememberedSyncs:
    """Replaces `os` in a module under test, and remembers each file's contents at each sync, by inode."""

    def __init__(self, *directories: Path) -> None:
        """Count the files in `directories` as synced."""
        self._durable: dict[int, bytes] = {}
        for directory in directories:
            for path in directory.iterdir():
                self._durable[path.stat().st_ino] = path.read_bytes()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, file: int) -> None:
        """Sync the file and remember it."""
        os.fsync(file)
        self._remember(file)

    def fdatasync(self, file: int) -> None:
        """Sync the file and remember it."""
        os.fdatasync(file)
        self._remember(file)

    def _remember(self, file: int) -> None:
        found = os.fstat(file)
        path = Path(f"/proc/self/fd/{file}")
        if not path.is_dir():
            self._durable[found.st_ino] = path.read_bytes()

    def lose(self, directory: Path, copy: Path) -> None:
        """Make the files in `copy` what a power loss leaves of those in `directory` that they are copies of."""
        for path in directory.iterdir():
            found = copy / path.name
            if found.is_file():
                found.write_bytes(self._durable.get(path.stat().st_ino, b""))


class ListedAtSync:
    """Replaces `os` in a module under test, and remembers what a directory held when it was last synced."""

    def __init__(self, directory: Path) -> None:
        """Remember the names in `directory`, which need not exist yet."""
        self._directory = directory
        self.durable: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, file: int) -> None:
        """Sync the file; note the names if it is the directory."""
        os.fsync(file)
        if os.path.samestat(os.fstat(file), os.stat(self._directory)):
            self.durable = os.listdir(self._directory)
