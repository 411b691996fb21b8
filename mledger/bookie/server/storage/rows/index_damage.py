"""Damage that RocksDB has met while it compacted the index: from then on the index is not compacted any more.

RocksDB takes no more rows after that, and the bookie ends. It would meet the same block soon after each start. Without
compactions, only what needs that block fails. The bookie is read-only then: its index would get slower with each new
entry.
"""

import contextlib
import os

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

NAME = "DAMAGED"
"""The file in the index's directory that says so."""

_SAID = ("Corruption:", "While pread")


def says_damaged(error: BaseException) -> bool:
    """Whether an error of RocksDB says that a block cannot be read, or is not what was written."""
    return any(said in str(error) for said in _SAID)


def note_damage(index: str, error: BaseException) -> None:
    """Note in the directory `index`, where that is possible, that `error` ended its use, if it says damage."""
    if says_damaged(error):
        with contextlib.suppress(OSError), open(os.path.join(index, NAME), "w", encoding="utf-8") as file:
            file.write(f"{error}\n")


def is_damaged(index: str) -> bool:
    """Whether damage was noted in the directory `index`; the log says what to do."""
    path = os.path.join(index, NAME)
    found = os.path.exists(path)
    if found:
        hint = "the bookie is read-only: have its ledgers re-replicated and begin a new directory"
        log.error("index_damaged", path=path, hint=hint)
    return found
