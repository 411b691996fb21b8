"""A bookie's counters: plain numbers, changed a few times per turn, read when metrics are requested."""

from msgspec import Struct, field

from mledger.bookie.server.storage.records.journal_record import JournalTurn
from mledger.metastore.runtime.durations import Durations


class GarbageCounters(Struct):
    """What garbage collection has done."""

    ledgers: int = 0
    ledgers_deleted: int = 0
    files_emptied: int = 0
    bytes_reclaimed: int = 0
    failures: int = 0
    damaged_files: int = 0
    times: Durations = field(default_factory=Durations)


class Counters(Struct):
    """Since the process started. Bytes are those of whole frames."""

    adds: int = 0
    add_bytes: int = 0
    adds_refused: int = 0
    add_times: Durations = field(default_factory=Durations)
    reads: int = 0
    reads_refused: int = 0
    read_bytes: int = 0
    fences: int = 0
    fences_refused: int = 0
    journal_bytes: int = 0
    writes: Durations = field(default_factory=Durations)
    syncs: Durations = field(default_factory=Durations)
    garbage: GarbageCounters = field(default_factory=GarbageCounters)
    replayed_records: int = 0
    replay_s: float = 0.0

    def written(self, turn: JournalTurn, write_s: float, sync_s: float, now: float) -> None:
        """Count a turn whose record was written and synced; `now` on the loop's clock."""
        self.journal_bytes += turn.size
        self.writes.observe(write_s)
        self.syncs.observe(sync_s)
        if turn.adds:
            self.adds += turn.adds
            self.add_bytes += turn.add_bytes
            self.add_times.observe(now - turn.begun, turn.adds)

    def read(self, size: int, *, refused: bool, count: int = 1) -> None:
        """Count answers to reads, `size` bytes in total."""
        self.reads += count
        self.read_bytes += size
        self.reads_refused += count if refused else 0
