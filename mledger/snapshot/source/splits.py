"""How the work of reading is split into shares for workers: plain values, and their planning; pure.

Planning knows folders and the sizes of folders, never the names in them. A folder belongs to one share, which lists it
once. Only a folder of several shares' size is read by more than one, at most one for each core: each of them lists the
folder, and takes the names that a checksum assigns to it, which does not depend on what else is there.
"""

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TypeVar

from mledger.snapshot.tables.node_kinds import BOOKIE_KINDS, NodeKind
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.trees.file_selection import ReadPlan

TOPICS_A_SHARE = 10_000
LEDGERS_A_SHARE = 40_000
BYTES_A_SHARE = 2 << 20  # of a snapshot file, at least
WORTH_A_CORE = 4  # so small a part of such a share is worth a worker of its own
MOST_SHARES = 64
MOST_FILE_SHARES = 6  # of a snapshot file; each reads the whole file
SHARES_WITH_RATE = 2
RECENT_MS = 36 * 3_600_000
"""So long before a snapshot its recent changes begin: half a day more than a day, as what comes daily may be late."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The `index`th of `count` parts of the topics in a namespace's folder."""

    folder: str
    index: int = 0
    count: int = 1

    def has(self, name: str) -> bool:
        """Whether the topic whose node has this name is in this part."""
        return _falls_to(name, self.index, self.count)


@dataclass(frozen=True, slots=True)
class TopicShare:
    """Some topics and their cursors."""

    ranges: tuple[TopicRange, ...]


@dataclass(frozen=True, slots=True)
class LedgerShare:
    """The ledgers in some folders."""

    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KindShare:
    """All nodes of some kinds; there are few of them."""

    kinds: frozenset[NodeKind]


@dataclass(frozen=True, slots=True)
class FileShare:
    """The `index`th of `count` parts of the nodes in ZooKeeper's files; the first part also has the bookies.

    A part has the same nodes whichever of the server's files give the tree: their order in them may differ.
    """

    files: DataFiles
    plan: ReadPlan
    index: int
    count: int

    def has(self, kind: NodeKind, path: str) -> bool:
        """Whether the node of this kind at this path is in this part; rows of bookies combine several nodes."""
        return self.index == 0 if kind in BOOKIE_KINDS else _falls_to(path, self.index, self.count)

    @property
    def recent_from_ms(self) -> int | None:
        """From when on a change is recent, by the clock of the tree alone; None if no log has the time of its point."""
        return None if self.plan.time_ms is None else self.plan.time_ms - RECENT_MS


Share = TopicShare | LedgerShare | KindShare | FileShare


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The shares of a read; together they return each row once.

    `zxid` and `time_ms` are the tables' point in time, None for a running store, which changes meanwhile. `rate` is how
    many znodes per second each share may read.
    """

    shares: tuple[Share, ...]
    zxid: int | None = None
    time_ms: int | None = None
    rate: float | None = None
    warnings: tuple[str, ...] = ()


def split_topics(folders: Sequence[tuple[str, int]], count: int | None, cores: int = 1) -> list[TopicShare]:
    """Split folders, given with their numbers of topics, into at most `count` shares of about equal size.

    With `count` None the number of topics and that of cores decide. No share is empty.
    """
    total = sum(topics for _, topics in folders)
    wanted = count or plan_count(total, TOPICS_A_SHARE, cores)
    most = count or cores
    parts = [part for folder, topics in folders for part in _parts(folder, topics, wanted, most, max(1, total))]
    return [TopicShare(tuple(some)) for some in _even(parts, wanted)]


def split_folders(folders: Sequence[tuple[str, int]], count: int | None, cores: int = 1) -> list[LedgerShare]:
    """Split folders, given with their numbers of ledgers, into shares as `split_topics` does."""
    wanted = count or plan_count(sum(ledgers for _, ledgers in folders), LEDGERS_A_SHARE, cores)
    return [LedgerShare(tuple(some)) for some in _even(folders, wanted)]


def plan_count(items: int, size: int, cores: int) -> int:
    """Into how many shares of about `size` to split so many items; at least one for each core if that is worth it."""
    return min(MOST_SHARES, max(1, -(-items // size), min(cores, items * WORTH_A_CORE // size)))


def plan_file_count(size: int, cores: int) -> int:
    """Into how many shares to split a snapshot file of `size` bytes: at most one for each core, as each reads all."""
    return max(1, min(MOST_FILE_SHARES, cores, size // BYTES_A_SHARE))


def split_kinds(kinds: Collection[NodeKind], together: Sequence[frozenset[NodeKind]]) -> list[KindShare]:
    """The kinds of each set of `together` in one share, and each other kind in its own share."""
    shares = [KindShare(found) for each in together if (found := each & set(kinds))]
    return shares + [KindShare(frozenset([kind])) for kind in sorted(set(kinds).difference(*together))]


def _falls_to(name: str, index: int, count: int) -> bool:
    return count == 1 or zlib.crc32(name.encode("utf-8", "surrogatepass")) % count == index


def _parts(folder: str, topics: int, wanted: int, most: int, total: int) -> Iterable[tuple[TopicRange, int]]:
    """The parts of a folder: one, unless it is as large as several shares."""
    count = max(1, min(most, topics, topics * wanted // total))
    return [(TopicRange(folder, index, count), topics // count) for index in range(count)]


def _even(parts: Sequence[tuple[T, int]], count: int) -> list[list[T]]:
    """Parts, given with their sizes, in at most `count` lists of about equal size, each in the order of `parts`."""
    lists: list[list[int]] = [[] for _ in range(min(count, len(parts)))]
    lightest = [(0, index) for index in range(len(lists))]
    heapify(lightest)
    for at in sorted(range(len(parts)), key=lambda at: -parts[at][1]):
        size, index = lightest[0]
        lists[index].append(at)
        heapreplace(lightest, (size + max(1, parts[at][1]), index))
    return [[parts[at][0] for at in sorted(some)] for some in lists]
