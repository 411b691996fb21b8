"""How many files a bookie's storage keeps open: parts of the system's limit, most of which connections need.

And what to do when the system has none left for a while.
"""

import errno
import os
import resource
import time
from collections.abc import Callable
from typing import TypeVar

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

T = TypeVar("T")

INDEX_FILES = 256
"""The most files of the index that RocksDB keeps open."""
JOURNAL_FILES = 64
"""The most files of the journal that are kept open for reads."""

_INDEX_PART, _JOURNAL_PART = 4, 16
_FEWEST = 4
_SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_NO_THREAD = "can't start new thread"

PATIENCE_S = 60.0
"""How long to wait for what the system is short of before that counts as a failure."""
_PAUSE_S = 0.1


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


def is_passing(error: BaseException) -> bool:
    """Whether an error says that the system is short of files, threads or memory, and nothing about a disk.

    RocksDB says so only in its text.
    """
    if isinstance(error, OSError):
        return error.errno in _SHORT_OF
    texts = (_NO_THREAD, *(os.strerror(code) for code in _SHORT_OF))
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)


def patiently(call: Callable[[], T], patience_s: float) -> T:
    """What `call` returns; it is tried again while the system is short of files. Its errors otherwise, or after that.

    For threads of their own: it sleeps.
    """
    until, told = time.monotonic() + patience_s, False
    while True:
        try:
            return call()
        except OSError as error:
            if not is_passing(error) or time.monotonic() >= until:
                raise
            if not told:
                log.warning("system_short", error=error, hint="raise the limit of open files")
            told = True
        time.sleep(_PAUSE_S)
