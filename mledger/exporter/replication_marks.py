"""The marks of under-replicated ledgers, counted some at a time: a lost bookie leaves one for each of its ledgers."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from mledger.admin.topic_names import children_of
from mledger.metastore.closed_nodes import read_open
from mledger.metastore.cluster.autorecovery import disable_path
from mledger.metastore.cluster.underreplication import NOT_KEPT, UnderreplicatedLedger, decode_underreplicated_ledger
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.store import MetadataReader

PAGE = 500
FOLDERS_AT_ONCE = 64
LEVELS = 4  # of folders above the marks

_MARK = re.compile(r"urL\d{1,19}", re.ASCII)


@dataclass(slots=True)
class ReplicationMarks:
    """Sums over the marks; `missing` are the replicas that each bookie no longer has. Times in ms since 1970."""

    ledgers: int = 0
    unreadable: int = 0
    oldest_ms: int | None = None
    missing: Counter[str] = field(default_factory=Counter)
    replicating: int = 0
    """Ledgers that a bookie replicates now."""
    enabled: bool = True
    """Whether auto-recovery is switched on."""

    def add(self, mark: UnderreplicatedLedger) -> None:
        """Count a mark."""
        self.ledgers += 1
        self.missing.update(mark.replicas)
        if mark.ctime != NOT_KEPT:
            self.oldest_ms = mark.ctime if self.oldest_ms is None else min(self.oldest_ms, mark.ctime)


async def read_marks(reader: MetadataReader) -> ReplicationMarks:
    """The sums over all marks. One that does not parse, or may not be read, counts as a ledger, and as unreadable.

    Raises:
        StoreUnavailable: the store does not answer.
        MetadataAccessDenied: the marks may not be listed.
    """
    found = ReplicationMarks()
    async for paths in _marks(reader, [f"{LEDGERS}/underreplication/ledgers"], LEVELS):
        closed: set[str] = set()
        for path, node in zip(paths, await read_open(reader.get_many, paths, closed), strict=True):
            if node is None:
                found.ledgers += path in closed
                found.unreadable += path in closed
                continue
            try:
                found.add(decode_underreplicated_ledger(node.data, path))
            except RecordError:
                found.ledgers += 1
                found.unreadable += 1
    (locks,) = await reader.children_many([f"{LEDGERS}/underreplication/locks"])
    found.replicating = len(locks or ())
    found.enabled = await reader.exists(disable_path()) is None
    return found


async def _marks(reader: MetadataReader, folders: Sequence[str], levels: int) -> AsyncIterator[list[str]]:
    """The paths of the marks below `folders`, in pages."""
    for start in range(0, len(folders), FOLDERS_AT_ONCE):
        below = await children_of(reader, folders[start : start + FOLDERS_AT_ONCE])
        if levels:
            async for page in _marks(reader, below, levels - 1):
                yield page
            continue
        marks = [path for path in below if _MARK.fullmatch(path.rpartition("/")[2])]
        for first in range(0, len(marks), PAGE):
            yield marks[first : first + PAGE]
