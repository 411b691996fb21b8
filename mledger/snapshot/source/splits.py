"""How the work of reading is split into shares for workers: plain values, and their planning; pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.zookeeper_files.file_selection import ReadPlan
from mledger.snapshot.zookeeper_files.files import DataFiles

TOPICS_A_SHARE = 10_000
FOLDERS_A_SHARE = 4  # folders of ledgers, each with at most 10,000
MOST_SHARES = 64
SHARES_WITH_RATE = 2


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The topics in a namespace's folder from `first` to `last` inclusive, by the names of their nodes."""

    folder: str
    first: str
    last: str


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
    """Every `count`th node of ZooKeeper's files, starting at the `index`th; the first share also has the bookies."""

    files: DataFiles
    plan: ReadPlan
    index: int
    count: int


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


def split_topics(folders: Sequence[tuple[str, Sequence[str]]], count: int | None) -> list[TopicShare]:
    """Split topics, given as sorted names by folder, into `count` shares of about equal size; no share is empty.

    With `count` None the number of topics decides.
    """
    total = sum(len(names) for _, names in folders)
    if not total:
        return []
    size = -(-total // min(count or _shares(total, TOPICS_A_SHARE), total))
    shares: list[TopicShare] = []
    ranges: list[TopicRange] = []
    left = size
    for folder, names in folders:
        at = 0
        while at < len(names):
            end = min(len(names), at + left)
            ranges.append(TopicRange(folder, names[at], names[end - 1]))
            left -= end - at
            at = end
            if not left:
                shares.append(TopicShare(tuple(ranges)))
                ranges, left = [], size
    if ranges:
        shares.append(TopicShare(tuple(ranges)))
    return shares


def split_folders(folders: Sequence[str], count: int | None) -> list[LedgerShare]:
    """Split folders of ledgers into `count` shares (None: by size); no share is empty.

    Older folders have fewer ledgers left, so neighbouring folders go to different shares.
    """
    count = min(count or _shares(len(folders), FOLDERS_A_SHARE), len(folders))
    return [LedgerShare(tuple(folders[at::count])) for at in range(count)]


def split_kinds(kinds: Collection[NodeKind], together: Sequence[frozenset[NodeKind]]) -> list[KindShare]:
    """The kinds of each set of `together` in one share, and each other kind in its own share."""
    shares = [KindShare(found) for each in together if (found := each & set(kinds))]
    return shares + [KindShare(frozenset([kind])) for kind in sorted(set(kinds).difference(*together))]


def _shares(items: int, size: int) -> int:
    return max(1, min(MOST_SHARES, -(-items // size)))
