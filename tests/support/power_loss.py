"""What a power loss leaves of files: of each what was in it when it was last synced."""

import os
from pathlib import Path
from typing import Any


class RememberedSyncs:
    """`os` for a module under test: remembers each file as it is when it is synced, by its inode."""

    def __init__(self, *directories: Path) -> None:
        """Files that are in `directories` now count as synced."""
        self._durable: dict[int, bytes] = {}
        for directory in directories:
            for path in directory.iterdir():
                self._durable[path.stat().st_ino] = path.read_bytes()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, file: int) -> None:
        """Sync, and remember."""
        os.fsync(file)
        self._remember(file)

    def fdatasync(self, file: int) -> None:
        """Sync, and remember."""
        os.fdatasync(file)
        self._remember(file)

    def _remember(self, file: int) -> None:
        found = os.fstat(file)
        path = Path(f"/proc/self/fd/{file}")
        if not path.is_dir():
            self._durable[found.st_ino] = path.read_bytes()

    def lose(self, directory: Path, copy: Path) -> None:
        """Make the files in `copy` what a loss of power leaves of those in `directory` that they are copies of."""
        for path in directory.iterdir():
            found = copy / path.name
            if found.is_file():
                found.write_bytes(self._durable.get(path.stat().st_ino, b""))
