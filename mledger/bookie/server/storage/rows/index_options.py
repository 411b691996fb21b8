"""How RocksDB keeps the index: its options, how it compacts, and when a family's files are joined."""

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct
from rocksdict import (
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
)

from mledger.bookie.server.storage.directories.disk import LARGEST_COMPACTION
from mledger.bookie.server.storage.directories.open_files import open_file_limit, plan_index_files
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

MANY_FILES = 100
"""Files from which on those of a family are joined if they are small."""

FILES_SIZE = "rocksdb.total-sst-files-size"
"""The property with the bytes of a family's files."""

_MEMTABLES = "rocksdb.cur-size-all-mem-tables"
_FILES_AT = "rocksdb.num-files-at-level"
_LEVELS = 7
_FILES_BYTES = 8 << 20
_SPARE = ("LOG", "OPTIONS-")
_PARTS = 16
"""Full files that one compaction writes at most."""
_SMALL_PART = 8
"""Files are small that have less than this part of a full one, on average."""


class IndexConfig(Struct, frozen=True):
    """How much memory RocksDB may use, in bytes; `logs` is the directory for its log, if not the index's own."""

    memtable_bytes: int = 8 << 20
    memtables: int = 3
    block_cache_bytes: int = 16 << 20
    logs: str = ""

    @property
    def reserve_bytes(self) -> int:
        """Disk space that opening and flushing the index may take."""
        return self.memtables * self.memtable_bytes + _FILES_BYTES


def rocksdb_options(config: IndexConfig) -> Options:
    """The options of RocksDB for all families."""
    options = Options(raw_mode=True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_disable_auto_compactions(True)  # until there is known to be room for them
    options.set_target_file_size_base(LARGEST_COMPACTION // _PARTS)
    options.set_max_bytes_for_level_base(LARGEST_COMPACTION // 4)
    options.set_max_compaction_bytes(LARGEST_COMPACTION // 2)
    options.set_level_zero_slowdown_writes_trigger(1 << 30)  # the loop would stand still
    options.set_level_zero_stop_writes_trigger(1 << 30)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(config.memtable_bytes)
    options.set_max_write_buffer_number(config.memtables + 1)  # `Index.crowded`: a commit is to find room for itself
    options.set_max_background_jobs(2)
    options.set_max_open_files(plan_index_files(open_file_limit()))
    options.set_table_cache_num_shard_bits(0)  # each part of the cache would keep a file, however few are allowed
    options.set_keep_log_file_num(2)
    options.set_db_log_dir(config.logs)
    options.set_max_log_file_size(0 if config.logs else 1 << 20)  # there it begins no other: the directory may be gone
    options.set_stats_dump_period_sec(0)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(config.block_cache_bytes))
    options.set_block_based_table_factory(table)
    return options


def remove_spare_files(index: str) -> bool:
    """Remove from the directory `index`, while it is closed, what RocksDB never reads; whether there was any of it.

    It takes more room than what RocksDB must write to open the index, once its log goes elsewhere.

    Raises:
        OSError: the directory cannot be read, or a file cannot be removed.
    """
    names = [name for name in os.listdir(index) if name.startswith(_SPARE)] if os.path.isdir(index) else []
    for name in names:
        os.unlink(os.path.join(index, name))
    if names:
        log.error("index_files_removed", path=index, files=len(names), hint="the disk is full, make room")
    return bool(names)


def whole_compaction() -> CompactOptions:
    """The options of a compaction that also writes the files of the last level again: RocksDB leaves them alone.

    Such a file may hold nothing but the deletion of a ledger.
    """
    options = CompactOptions()
    options.set_bottommost_level_compaction(BottommostLevelCompaction.force_optimized())
    return options


def files_of(family: Rdict) -> tuple[list[int], int]:
    """How many files a family has at each level, and their bytes."""
    counts = [int(family.property_value(f"{_FILES_AT}{level}") or 0) for level in range(_LEVELS)]
    return counts, family.property_int_value(FILES_SIZE) or 0


def unwritten_of(families: Iterable[Rdict]) -> list[int]:
    """Bytes of each family's memtables: what a flush writes at most."""
    return [family.property_int_value(_MEMTABLES) or 0 for family in families]


def plan_joining(files: Sequence[int], size: int) -> bool:
    """Whether to join a family's files, so many at each level and of `size` bytes in all.

    RocksDB joins files that overlap. Ledgers follow one another, so that many files never do, and each has its table
    reader in memory. The larger the family, the more small files it must have gained: all are written again.
    """
    many = sum(files)
    return many >= MANY_FILES and size < many * (LARGEST_COMPACTION // _PARTS // _SMALL_PART)
