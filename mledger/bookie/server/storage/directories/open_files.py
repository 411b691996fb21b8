"""How many files a bookie's storage keeps open: parts of the system's limit, most of which connections need."""

import resource

INDEX_FILES = 256
"""The most files of the index that RocksDB keeps open."""
JOURNAL_FILES = 64
"""The most files of the journal that are kept open for reads."""

_INDEX_PART, _JOURNAL_PART = 4, 16
_FEWEST = 4


def plan_index_files(limit: int) -> int:
    """Files of the index to keep open where the system allows `limit` files. RocksDB keeps some ten in any case."""
    return max(min(INDEX_FILES, limit // _INDEX_PART), _FEWEST)


def plan_journal_files(limit: int) -> int:
    """Files of the journal to keep open where the system allows `limit` files."""
    return max(min(JOURNAL_FILES, limit // _JOURNAL_PART), _FEWEST)


def open_file_limit() -> int:
    """How many files the system lets this process open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft
