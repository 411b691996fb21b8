"""What makes entries findable: RocksDB without its own log (architecture.md, A bookie's storage).

One value is one run of adds as received. Every batch names the journal sequence from which a restart replays; atomic
flush keeps all families at one such point. The journal makes durable, nothing here does.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from bookie.server.runs import StoredRun, parse_run

ENTRIES = "entries"
REPEATS = "repeats"
LEDGERS = "ledgers"
BOOKIE = "bookie"

LARGEST_RUN = 256 << 10
"""Bytes of frames in one value, unless one frame alone has more: a read of one entry fetches the whole value."""

_SEQUENCE = b"j"
_SEQUENCE_KEY = 9
_CACHE_BYTES = 24 << 20
_KEY_MAX = (1 << 63) - 1

FENCED = 1
LIMBO = 2


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """What a bookie keeps of a ledger beside its entries."""

    master_key: bytes
    fenced: bool = False
    limbo: bool = False
    explicit_lac: bytes = b""

    def encode(self) -> bytes:
        """As stored: master key 20, flags 1, explicit LAC packet if there is one."""
        flags = (FENCED if self.fenced else 0) | (LIMBO if self.limbo else 0)
        return self.master_key + bytes((flags,)) + self.explicit_lac

    @staticmethod
    def decode(value: bytes) -> "LedgerRecord":
        """From the stored bytes."""
        return LedgerRecord(value[:20], bool(value[20] & FENCED), bool(value[20] & LIMBO), value[21:])


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How much memory RocksDB may use, in bytes."""

    memtable_bytes: int = 16 << 20
    memtables: int = 3
    block_cache_bytes: int = 8 << 20


def ledger_key(ledger: int) -> bytes:
    """The key of a ledger, and what the keys of its entries begin with."""
    return ledger.to_bytes(8, "big")


def entry_key(ledger: int, entry: int) -> bytes:
    """The key of a run by its first entry, or of a repeated add."""
    return ledger.to_bytes(8, "big") + entry.to_bytes(8, "big")


class Store:
    """The RocksDB of one bookie. Everything runs on the caller's thread."""

    def __init__(self, path: str, config: StoreConfig | None = None) -> None:
        """Open the store at `path`, made if it is not there."""
        config = config or StoreConfig()
        small, large = _options(config, blobs=False), _options(config, blobs=True)
        families = {"default": small, ENTRIES: large, REPEATS: large, LEDGERS: small, BOOKIE: small}
        self._db = Rdict(path, large, column_families=families)
        self._entries = self._db.get_column_family(ENTRIES)
        self._repeats = self._db.get_column_family(REPEATS)
        self._ledgers = self._db.get_column_family(LEDGERS)
        self._bookie = self._db.get_column_family(BOOKIE)
        self._in_entries = self._db.get_column_family_handle(ENTRIES)
        self._in_repeats = self._db.get_column_family_handle(REPEATS)
        self._in_ledgers = self._db.get_column_family_handle(LEDGERS)
        self._in_bookie = self._db.get_column_family_handle(BOOKIE)
        self._options = WriteOptions()
        self._options.disable_wal = True
        self._batch: WriteBatch | None = None
        self._sequence = self._last_sequence()
        self._runs: OrderedDict[bytes, StoredRun] = OrderedDict()
        self._cached_bytes = 0

    # Writing: gathered into one batch, seen by readers after `commit`.

    @property
    def dirty(self) -> bool:
        """Whether something waits for `commit`."""
        return self._batch is not None

    def put_run(self, ledger: int, first: int, frames: bytes) -> None:
        """Keep a run of entries that are all above what the ledger holds."""
        self._open_batch().put(entry_key(ledger, first), frames, self._in_entries)

    def put_repeat(self, ledger: int, entry: int, frame: bytes) -> None:
        """Keep one entry that is not above what the ledger holds; it takes the place of one with the same id."""
        self._open_batch().put(entry_key(ledger, entry), frame, self._in_repeats)

    def put_ledger(self, ledger: int, record: LedgerRecord) -> None:
        """Keep a ledger's record."""
        self._open_batch().put(ledger_key(ledger), record.encode(), self._in_ledgers)

    def delete_ledger(self, ledger: int) -> None:
        """Forget a ledger and its entries; `reclaim` gives the space back."""
        batch, start, end = self._open_batch(), ledger_key(ledger), ledger_key(ledger + 1)
        for family in (self._in_entries, self._in_repeats):
            batch.delete_range(start, end, family)
        batch.delete(start, self._in_ledgers)
        for key in [key for key in self._runs if key.startswith(start)]:
            self._cached_bytes -= len(self._runs.pop(key).value)

    def commit(self, sequence: int) -> None:
        """Apply what was put. A restart replays the journal from record `sequence` on."""
        batch = self._open_batch()
        if sequence != self._sequence:
            batch.put(_SEQUENCE + sequence.to_bytes(8, "big"), b"", self._in_bookie)
            if self._sequence:
                batch.delete(_SEQUENCE + self._sequence.to_bytes(8, "big"), self._in_bookie)
        self._sequence = sequence
        self._batch = None
        self._db.write(batch, self._options)

    def _open_batch(self) -> WriteBatch:
        if self._batch is None:
            self._batch = WriteBatch(raw_mode=True)
        return self._batch

    # Reading.

    @property
    def sequence(self) -> int:
        """The journal record from which the store as it is would be replayed; 0 for a new store."""
        return self._sequence

    def ledger(self, ledger: int) -> LedgerRecord | None:
        """A ledger's record."""
        value = self._ledgers.get(ledger_key(ledger))
        return None if value is None else LedgerRecord.decode(value)

    def ledger_ids(self) -> list[int]:
        """All ledgers, rising."""
        found, rows = [], self._ledgers.iter()
        rows.seek_to_first()
        while rows.valid():
            found.append(int.from_bytes(rows.key(), "big"))
            rows.next()
        return found

    def run_at(self, ledger: int, entry: int) -> StoredRun | None:
        """The run that holds `entry` if the ledger has it: the last one that begins at or below."""
        rows = self._entries.iter()
        rows.seek_for_prev(entry_key(ledger, entry))
        return self._run_of(rows, ledger)

    def run_from(self, ledger: int, entry: int) -> StoredRun | None:
        """The first run that begins at or above `entry`."""
        rows = self._entries.iter()
        rows.seek(entry_key(ledger, entry))
        return self._run_of(rows, ledger)

    def last_run(self, ledger: int) -> StoredRun | None:
        """The run with the ledger's highest entries."""
        return self.run_at(ledger, _KEY_MAX)

    def repeat(self, ledger: int, entry: int) -> bytes | None:
        """The frame of a repeated add."""
        value: bytes | None = self._repeats.get(entry_key(ledger, entry))
        return value

    def repeated_entries(self, ledger: int) -> Iterator[int]:
        """The entry ids of a ledger's repeated adds, rising."""
        rows, start = self._repeats.iter(), ledger_key(ledger)
        rows.seek(start)
        while rows.valid() and (key := rows.key()).startswith(start):
            yield int.from_bytes(key[8:], "big")
            rows.next()

    def _run_of(self, rows: RdictIter, ledger: int) -> StoredRun | None:
        if not rows.valid() or not (key := rows.key()).startswith(ledger_key(ledger)):
            return None
        run = self._runs.get(key)
        if run is not None:
            self._runs.move_to_end(key)
            return run
        run = parse_run(rows.value())
        self._runs[key] = run
        self._cached_bytes += len(run.value)
        while self._cached_bytes > _CACHE_BYTES and len(self._runs) > 1:
            self._cached_bytes -= len(self._runs.popitem(last=False)[1].value)
        return run

    # What is on disk.

    def flushed_sequence(self) -> int:
        """The journal record from which a restart would replay now; 0 when nothing was flushed."""
        ends = (file["end_key"] for file in self._db.live_files())
        return max(
            (int.from_bytes(end[1:], "big") for end in ends if len(end) == 9 and end[:1] == _SEQUENCE), default=0
        )

    def flush(self) -> None:
        """Write all memtables out: a compaction of the smallest family does it without the interpreter lock. Long."""
        self._bookie.compact_range(None, None)

    def reclaim(self) -> None:
        """Give the space of deleted ledgers back: one compaction that collects blob files of every age."""
        for family in (self._entries, self._repeats):
            family.set_options({"blob_garbage_collection_age_cutoff": "1.0"})
            try:
                family.compact_range(None, None)
            finally:
                family.set_options({"blob_garbage_collection_age_cutoff": "0.0"})

    def close(self) -> None:
        """Close the store; what was not flushed is in the journal."""
        for family in (self._entries, self._repeats, self._ledgers, self._bookie, self._db):
            family.close()

    def _last_sequence(self) -> int:
        rows = self._bookie.iter()
        rows.seek_for_prev(_SEQUENCE + b"\xff" * 8)
        return int.from_bytes(rows.key()[1:], "big") if rows.valid() and rows.key()[:1] == _SEQUENCE else 0


def _options(config: StoreConfig, *, blobs: bool) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(config.memtable_bytes)
    options.set_max_write_buffer_number(config.memtables)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(config.block_cache_bytes))
    options.set_block_based_table_factory(table)
    if blobs:
        options.set_enable_blob_files(True)
        options.set_min_blob_size(512)
        options.set_enable_blob_gc(True)
        options.set_blob_gc_age_cutoff(0.0)  # only `reclaim` moves blobs: every compaction would copy live ones again
        options.set_blob_file_size(64 << 20)
    return options
