"""What the compactions of one topic read, wrote and removed, since this broker opened it."""

from dataclasses import dataclass


@dataclass(slots=True)
class CompactionWork:
    """What one compaction has done so far: bytes read (each entry twice) and written, entries kept, messages removed.

    `done` is False if there was nothing to compact.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    kept: int = 0
    removed: int = 0
    done: bool = False


class CompactionCounts:
    """Totals, and what the last compaction did. `entries` and `size` are those of the compacted ledger it left."""

    __slots__ = ("duration_ms", "entries", "failed", "last", "removed", "size", "succeeded")

    def __init__(self) -> None:
        self.succeeded = self.failed = self.removed = 0
        self.duration_ms = 0
        self.last = CompactionWork()
        self.entries = self.size = 0

    @property
    def any(self) -> bool:
        """Whether a compaction has ended."""
        return bool(self.succeeded or self.failed)

    def ended(self, work: CompactionWork, took_s: float, *, succeeded: bool) -> None:
        """A compaction has ended after so many seconds."""
        self.last, self.duration_ms = work, round(took_s * 1000)
        self.removed += work.removed
        if not succeeded:
            self.failed += 1
            return
        self.succeeded += 1
        if work.done:
            self.entries, self.size = work.kept, work.written_bytes

    def per_second(self, size: int) -> float:
        """So many bytes of the last compaction a second."""
        return size * 1000 / self.duration_ms if self.duration_ms else 0.0
