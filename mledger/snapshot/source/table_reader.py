"""Tables of a cluster's metadata as Arrow batches, without Spark: from a running store or from ZooKeeper's files.

`plan_tables` splits the work, `read_share` and `read_apart` carry out one share in any process, `read_tables` all
shares in this one. They block, each with an event loop of its own, and work in a notebook, whose loop runs already.
"""

import gc
import math
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from itertools import repeat
from typing import Any, TypeVar

from mledger.metastore.records.paths import MANAGED_LEDGERS
from mledger.metastore.runtime.processes.blocking_loop import BlockingLoop
from mledger.metastore.url import open_synced_reader
from mledger.snapshot.source.live_nodes import TOPIC_KINDS, LiveNodes, Nodes, read_ahead
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.source.recovery import Recovering
from mledger.snapshot.source.splits import (
    FileShare,
    KindShare,
    LedgerShare,
    Share,
    TablePlan,
    TopicShare,
    plan_file_count,
)
from mledger.snapshot.tables.node_kinds import BOOKIE_KINDS, NodeKind, kind_of
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.row_builder import Assembly, Batch, Wanted, kinds_of
from mledger.snapshot.zookeeper_files.errors import ChrootNotFound, InvalidOption
from mledger.snapshot.zookeeper_files.file_access.arrow_files import data_files
from mledger.snapshot.zookeeper_files.jute import Znode
from mledger.snapshot.zookeeper_files.trees.exact_tree import ExactTree
from mledger.snapshot.zookeeper_files.trees.file_selection import DataDirectory

NODES_BETWEEN = 512  # how often to check whether a batch is full
SESSION_S = 30.0
COLLECT_AFTER = 200_000  # objects

T = TypeVar("T")


def plan_tables(options: ReadOptions, tables: Sequence[str]) -> TablePlan:
    """How to read these tables on the cores of this process; it reads folders of a store, and only headers of files.

    Raises UnknownTable, StoreUnavailable, NodeNotFound (no such chroot), MetadataAccessDenied, SnapshotError.
    """
    kinds = kinds_of(tables)
    if options.files:
        return _plan_files(options, options.partitions)
    return _run(_plan_live(options, kinds))


def read_share(options: ReadOptions, share: Share, wanted: Wanted, rate: float | None = None) -> Iterator[Batch]:
    """The rows of a share, as (table, batch), read at most at `rate` znodes per second.

    The rows are valid only once the iterator has ended: an error before that invalidates the whole share.
    """
    with _rare_collections():
        if isinstance(share, FileShare):
            yield from (batch for _, batch in _read_files(options, share, wanted, None))
        else:
            yield from _stepwise(lambda: _read_live(options, share, wanted, rate))


def read_apart(
    options: ReadOptions, share: Share, wanted: Wanted, rate: float | None = None
) -> Iterator[tuple[bool, Batch]]:
    """As `read_share`; before each batch, whether its rows are of nodes that changed recently, as files tell.

    Recent changes begin at the share's `recent_from_ms`. A running store tells of none.
    """
    if isinstance(share, FileShare):
        with _rare_collections():
            yield from _read_files(options, share, wanted, share.recent_from_ms)
    else:
        yield from ((False, batch) for batch in read_share(options, share, wanted, rate))


def read_nodes(options: ReadOptions, kinds: frozenset[NodeKind]) -> Iterator[tuple[NodeKind, FoundNode]]:
    """The nodes of these kinds in ZooKeeper's files, as tables read them; they are verified at the end."""
    with _rare_collections():
        share = _plan_files(options, 1).shares[0]
        assert isinstance(share, FileShare)
        yield from _nodes_in_files(options, share, kinds)


def read_tables(options: ReadOptions, wanted: Wanted) -> Iterator[Batch]:
    """All rows of these tables, as (table, batch), read in this process. Files are read once for all tables."""
    plan = _plan_files(options, 1) if options.files else plan_tables(options, list(wanted))
    for share in plan.shares:
        yield from read_share(options, share, wanted, options.rate)


def _plan_files(options: ReadOptions, count: int | None) -> TablePlan:
    files = data_files(options.metadata, options.logs)
    plan = DataDirectory(files).plan(zxid=options.zxid, time_ms=options.time_ms)
    if count is None:
        with files.open(plan.snapshot) as file:
            count = plan_file_count(file.seek(0, os.SEEK_END), usable_cores())
    shares = tuple(FileShare(files, plan, index, count) for index in range(count))
    return TablePlan(shares, plan.zxid, plan.time_ms, None, plan.warnings)


async def _plan_live(options: ReadOptions, kinds: frozenset[NodeKind]) -> TablePlan:
    async with await open_synced_reader(options.metadata) as store:
        nodes = LiveNodes(store, options.scope, options.ledgers_root, options.rate)
        shares = await nodes.plan(kinds, options.partitions, options.rate, usable_cores())
    rate = options.rate / max(1, len(shares)) if options.rate is not None else None
    return TablePlan(tuple(shares), rate=rate)


async def _read_live(
    options: ReadOptions, share: TopicShare | LedgerShare | KindShare, wanted: Wanted, rate: float | None
) -> AsyncIterator[list[Batch]]:
    assembly = Assembly(wanted, options.scope, options.ledgers_root)
    async with await open_synced_reader(options.metadata, session_timeout=SESSION_S) as store:
        nodes = LiveNodes(store, options.scope, options.ledgers_root, rate)
        if isinstance(share, TopicShare) and options.state == "recovered":
            async with Recovering.open(store, options.ledgers_root, options.password) as recovering:
                cursors = NodeKind.CURSOR in kinds_of(wanted)
                async for found in nodes.topics(share, topics=True, cursors=cursors, together=True):
                    for item in await recovering.items(found):
                        assembly.add_item(item)
                    yield list(assembly.full())
        else:
            async with aclosing(read_ahead(_nodes(nodes, share, wanted))) as lists:
                async for found in lists:
                    for kind, node in found:
                        assembly.add(kind, node)
                    yield list(assembly.full())
    yield list(assembly.rest())


def _nodes(
    nodes: LiveNodes, share: TopicShare | LedgerShare | KindShare, wanted: Wanted
) -> AsyncGenerator[Nodes, None]:
    if isinstance(share, TopicShare):
        kinds = kinds_of(wanted) & TOPIC_KINDS
        return nodes.topics(share, topics=NodeKind.TOPIC in kinds, cursors=NodeKind.CURSOR in kinds)
    return nodes.ledgers(share) if isinstance(share, LedgerShare) else nodes.kinds(share)


def _read_files(
    options: ReadOptions, share: FileShare, wanted: Wanted, recent_from_ms: int | None
) -> Iterator[tuple[bool, Batch]]:
    """The batches as of `read_apart`. Bookies are never recent: their rows combine several nodes."""
    others, recent = (Assembly(wanted, options.scope, options.ledgers_root) for _ in range(2))
    from_ms = math.inf if recent_from_ms is None else recent_from_ms
    for number, (kind, node) in enumerate(_nodes_in_files(options, share, kinds_of(wanted))):
        (others if node.modified_ms < from_ms or kind in BOOKIE_KINDS else recent).add(kind, node)
        if not number % NODES_BETWEEN:
            yield from zip(repeat(False), others.full())
            yield from zip(repeat(True), recent.full())
    yield from zip(repeat(False), others.rest())
    yield from zip(repeat(True), recent.rest())


def _nodes_in_files(
    options: ReadOptions, share: FileShare, kinds: frozenset[NodeKind]
) -> Iterator[tuple[NodeKind, FoundNode]]:
    """The nodes of a share. ChrootNotFound at the end if the cluster's top nodes were missing."""
    root = options.ledgers_root
    missing = {"", MANAGED_LEDGERS, root}
    tree = ExactTree(share.files, share.plan, verify_digests=options.verify_digests and share.index == 0)
    for path, node in _below(tree.nodes(), options.chroot):
        kind = kind_of(path, root) if path else None
        if kind is None:
            missing.discard(path)
        elif kind in kinds and share.has(kind, path):
            yield kind, FoundNode.in_files(path, node)
    _check_tops(missing, options, share)


def _below(nodes: Iterator[Znode], chroot: str) -> Iterator[tuple[str, Znode]]:
    """The nodes at and below `chroot`, with paths relative to it; that of `chroot` itself is empty."""
    start = len(chroot)
    for node in nodes:
        path = node.path
        if not start:
            yield "" if path == "/" else path, node
        elif path.startswith(chroot) and path[start : start + 1] in ("", "/"):
            yield path[start:], node


def _check_tops(missing: set[str], options: ReadOptions, share: FileShare) -> None:
    where, chroot, root = share.files.where, options.chroot, options.ledgers_root
    if "" in missing:
        raise ChrootNotFound(f"the tree in {where} has no node {chroot}: correct the option chroot")
    if {MANAGED_LEDGERS, root} <= missing:
        raise ChrootNotFound(
            f"the tree in {where} has neither {MANAGED_LEDGERS} nor {root} below {chroot or '/'}: set the option "
            "chroot, or ledgersRoot"
        )


def _stepwise(begin: Callable[[], AsyncIterator[list[T]]]) -> Iterator[T]:
    """The items of an asynchronous iterator; the event loop runs only while waiting for the next list."""
    with _loop() as loop:
        steps = begin()
        try:
            while (found := loop.run(_next(steps))) is not None:
                yield from found
        finally:
            loop.run(_close(steps))


async def _next(steps: AsyncIterator[list[T]]) -> list[T] | None:
    return await anext(steps, None)


async def _close(steps: Any) -> None:
    await steps.aclose()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: the many records and rows form no cycles, and a search for some costs 25% of the time."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], COLLECT_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run(main: Coroutine[Any, Any, T]) -> T:
    with _loop() as loop:
        return loop.run(main)


def _loop() -> BlockingLoop:
    sys.setswitchinterval(0.0005)
    return BlockingLoop()


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_here(options: ReadOptions) -> None:
    """Raise InvalidOption for a store that other processes cannot reach."""
    if options.metadata.startswith("memory:"):
        raise InvalidOption("metadata in memory: workers cannot reach it; use a ZooKeeper or rocksdb:DIR")
