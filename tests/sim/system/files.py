"""A simulated file: what a reader sees, and what a power loss leaves of it, torn at sectors."""

from dataclasses import dataclass, field
from random import Random

SECTOR = 512
ZEROS = bytes(1 << 16)
"""What new files are filled with. Writing this very object behind a file's data costs nothing."""


@dataclass(eq=False)
class SimFile:
    """A file's bytes: `data` as it is read, `durable` as a power loss leaves it."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    size: int = 0
    """Allocated bytes; those behind `data` are zeros."""
    bad: bool = False
    """Whether reading it fails."""

    def write(self, offset: int, data: bytes) -> None:
        """Write, not durably."""
        end = offset + len(data)
        _put(self.data, offset, data)
        if self.size < end:
            self.size = end
        self.pending.append((offset, data))

    def read(self, offset: int, length: int) -> bytes:
        """Read; short at the end."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        found = bytes(self.data[offset : offset + length])
        return found if len(found) == length else found + bytes(length - len(found))

    def sync(self) -> None:
        """Make everything durable."""
        for offset, data in self.pending:
            _put(self.durable, offset, data)
        self.pending.clear()

    def drop_unsynced(self) -> None:
        """A sync failed: what was not durable never will be, though it is still read."""
        self.pending.clear()

    def lose_power(self, rng: Random) -> None:
        """Keep what is durable, and some of the rest."""
        for offset, data in self.pending:
            kept = rng.random()
            if kept < 0.4:
                _put(self.durable, offset, data)
            elif kept < 0.7:
                for at in range(0, len(data), SECTOR):
                    if rng.random() < 0.5:
                        _put(self.durable, offset + at, data[at : at + SECTOR])
        self.pending.clear()
        self.data = bytearray(self.durable)
        self.size = max(self.size, len(self.data))


def _put(where: bytearray, offset: int, data: bytes) -> None:
    """Write into the bytes of a file, behind which it has zeros."""
    size = len(where)
    if size <= offset:
        if data is ZEROS:
            return
        where.extend(bytes(offset - size))
    where[offset : offset + len(data)] = data
