"""Reads a running metadata store for the tables: many nodes per request, at a limited rate, in any process.

It uses only a MetadataReader, which cannot write (M9).
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import TypeVar

from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.paths import (
    MANAGED_LEDGERS,
    NAMESPACE_POLICIES,
    PARTITIONED_TOPICS,
    PERSISTENT,
    SEGMENT,
)
from mledger.metastore.runtime.rate_limiter import RateLimiter
from mledger.metastore.store import MetadataReader, Node
from mledger.snapshot.source.splits import (
    SHARES_WITH_RATE,
    KindShare,
    LedgerShare,
    Share,
    TopicRange,
    TopicShare,
    split_folders,
    split_kinds,
    split_topics,
)
from mledger.snapshot.tables.node_kinds import (
    ADMINISTRATION_KINDS,
    BOOKIE_KINDS,
    BROKERS,
    BUNDLE_RANGE,
    BUNDLES,
    DOMAINS,
    FLAT_LEDGER,
    RACKS,
    SCHEMAS,
    NodeKind,
)
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.scope import TopicScope

NODES_AT_ONCE = 4_000
FIRST_NODES = 256
BYTES_AT_ONCE = 32 << 20
TOPICS_AT_ONCE = 1_000
BURSTS_A_SECOND = 50
TOGETHER = 64  # topics that are read together with all their cursors
TOPIC_KINDS = frozenset({NodeKind.TOPIC, NodeKind.CURSOR})

_FOLDER = re.compile(r"\d{4}", re.ASCII)
_HEX_FOLDER = re.compile(r"[0-9a-f]{4}", re.ASCII)
_MARK = re.compile(r"urL.*", re.DOTALL)

T = TypeVar("T")

Nodes = list[tuple[NodeKind, FoundNode]]


class LiveNodes:
    """Finds and reads the nodes of a store."""

    def __init__(self, store: MetadataReader, scope: TopicScope, ledgers_root: str, rate: float | None = None) -> None:
        self._store = store
        self._scope = scope
        self._root = ledgers_root
        self._rate_limiter = RateLimiter(rate)
        self._steps: dict[NodeKind, int] = {}

    async def plan(
        self, kinds: frozenset[NodeKind], partitions: int | None, rate: float | None, cores: int = 1
    ) -> list[Share]:
        """The shares in which so many cores read nodes of these kinds. NodeNotFound without a cluster's tree."""
        await self._check_cluster()
        count = partitions or (SHARES_WITH_RATE if rate is not None else None)
        shares: list[Share] = []
        if kinds & TOPIC_KINDS:
            shares += split_topics(await self.topic_folders(), count, cores)
        if NodeKind.LEDGER in kinds:
            shares += split_folders(await self.ledger_folders(), count, cores)
        others = kinds - TOPIC_KINDS - {NodeKind.LEDGER}
        return shares + split_kinds(others, (BOOKIE_KINDS, ADMINISTRATION_KINDS))

    async def topic_folders(self) -> list[tuple[str, int]]:
        """The folders of topics by path, and how many topics each has."""
        found = await self._namespaces(MANAGED_LEDGERS, (PERSISTENT, SEGMENT))
        folders = [path for path in found if path.endswith(f"/{PERSISTENT}")]
        # below `segment` are topics with their segments, or the folder of an old namespace with that name
        segments = [path for path in found if path.endswith(f"/{SEGMENT}") and path.count("/") == 4]
        sized = await self._sized(folders + sorted(await self._below(segments)))
        # a scope of single topics leaves few of any folder
        return sized if self._scope.topics is None else [(folder, 1) for folder, _ in sized]

    async def ledger_folders(self) -> list[tuple[str, int]]:
        """The folders that hold ledgers, by path, and how many; the root is one if it has flat ledgers."""
        names = await self._children(self._root)
        short = [f"{self._root}/{name}" for name in names if re.fullmatch(r"\d{2}", name, re.ASCII)]
        level = [f"{self._root}/{name}" for name in names if re.fullmatch(r"\d{3}", name, re.ASCII)]
        for _ in range(3):
            level = await self._below(level, _FOLDER)
        flat = sum(FLAT_LEDGER.fullmatch(name) is not None for name in names)
        below = await self._sized(sorted(await self._below(short, _FOLDER)) + sorted(level))
        return [(self._root, flat), *below] if flat else below

    async def ledgers(self, share: LedgerShare) -> AsyncGenerator[Nodes, None]:
        """The nodes of a share of ledgers, in lists."""
        for folder in share.folders:
            names = await self._children(folder)
            if folder == self._root:
                names = [name for name in names if FLAT_LEDGER.fullmatch(name)]
            async for nodes in self._read(NodeKind.LEDGER, [f"{folder}/{name}" for name in names]):
                yield nodes

    async def topics(
        self, share: TopicShare, *, topics: bool, cursors: bool, together: bool = False
    ) -> AsyncGenerator[Nodes, None]:
        """The nodes of a share of topics, in lists; with `together`, a topic is in the same list as all its cursors."""
        for part in share.ranges:
            names = await self._topics_in(part)
            step = nodes_at_once(self._rate_limiter.per_second, TOGETHER if together else TOPICS_AT_ONCE)
            for start in range(0, len(names), step):
                paths = [f"{part.folder}/{name}" for name in names[start : start + step]]
                lists = self._topics_at(paths, topics, cursors)
                if together:
                    yield [node async for nodes in lists for node in nodes]
                else:
                    async for nodes in lists:
                        yield nodes

    async def _topics_at(self, paths: Sequence[str], topics: bool, cursors: bool) -> AsyncGenerator[Nodes, None]:
        if topics:
            parents: list[str] = []
            async for nodes in self._read(NodeKind.TOPIC, paths):
                parents += [node.path for _, node in nodes if node.num_children]
                yield nodes
            paths = parents
        if cursors:
            listed = await self._children_many(paths)
            below = [f"{path}/{name}" for path, names in zip(paths, listed, strict=True) for name in names or ()]
            async for nodes in self._read(NodeKind.CURSOR, below):
                yield nodes

    async def kinds(self, share: KindShare) -> AsyncGenerator[Nodes, None]:
        """All nodes of the kinds of a share, in lists."""
        for kind in sorted(share.kinds):
            async for paths in self._paths_of(kind):
                async for nodes in self._read(kind, paths):
                    yield nodes

    async def _check_cluster(self) -> None:
        if all([await self._store.exists(path) is None for path in (MANAGED_LEDGERS, self._root)]):
            raise NodeNotFound(
                f"{self._store.url} has neither {MANAGED_LEDGERS} nor {self._root}: give the cluster's chroot in the "
                "URL, or set the option ledgersRoot"
            )

    async def _topics_in(self, part: TopicRange) -> list[str]:
        below = part.folder[len(MANAGED_LEDGERS) + 1 :]
        admits, names = self._scope.admits_node, await self._children(part.folder)
        return [name for name in names if part.has(name) and admits(below, name)]

    async def _paths_of(self, kind: NodeKind) -> AsyncGenerator[list[str], None]:
        """The paths of all nodes of a kind, those of one folder after those of another."""
        match kind:
            case NodeKind.PARTITIONED_TOPIC:
                for folder in await self._namespaces(PARTITIONED_TOPICS, DOMAINS):
                    yield await self._names_in(folder)
            case NodeKind.UNDERREPLICATED:
                level = [f"{self._root}/underreplication/ledgers"]
                for _ in range(3):
                    level = await self._below(level, _HEX_FOLDER)
                for folder in level:
                    yield await self._below(await self._below([folder], _HEX_FOLDER), _MARK)
            case NodeKind.SCHEMA:
                for folder in await self._below(await self._tenants(SCHEMAS)):
                    yield await self._names_in(folder)
            case _:
                yield await self._few(kind)

    async def _few(self, kind: NodeKind) -> list[str]:
        """The paths of all nodes of a kind that has few."""
        match kind:
            case NodeKind.RACKS:
                return [RACKS]
            case NodeKind.BOOKIE:
                return await self._names_in(f"{self._root}/available", without=("readonly",))
            case NodeKind.READ_ONLY_BOOKIE:
                return await self._names_in(f"{self._root}/available/readonly")
            case NodeKind.COOKIE:
                return await self._names_in(f"{self._root}/cookies")
            case NodeKind.TENANT:
                return await self._tenants(NAMESPACE_POLICIES)
            case NodeKind.NAMESPACE:
                namespaces = await self._below(await self._tenants(NAMESPACE_POLICIES))
                return sorted(namespaces + await self._below(namespaces))
            case NodeKind.BROKER:
                return await self._names_in(BROKERS)
            case NodeKind.BUNDLE:
                return await self._bundles()
        raise ValueError(f"{kind} has its own kind of share")

    async def _bundles(self) -> list[str]:
        below = await self._below(await self._below(await self._tenants(BUNDLES)))
        deeper = [path for path in below if not BUNDLE_RANGE.fullmatch(path.rpartition("/")[2])]
        return sorted({*below}.difference(deeper) | {*await self._below(deeper, BUNDLE_RANGE)})

    async def _sized(self, folders: Sequence[str]) -> list[tuple[str, int]]:
        """The folders that have children, and how many: of each only its stat is read."""
        nodes: list[Node | None] = await self._in_steps(self._store.get_many, folders)
        return [
            (folder, node.stat.num_children)
            for folder, node in zip(folders, nodes, strict=True)
            if node is not None and node.stat.num_children
        ]

    async def _namespaces(self, root: str, domains: Collection[str]) -> list[str]:
        """The folders `<tenant>/<namespace>/<domain>` below `root`, and those of the old form with a cluster."""
        level = await self._tenants(root)
        found: list[str] = []
        for depth in (2, 3, 4):
            below = await self._below(level)
            if depth > 2:
                found += [path for path in below if path.rpartition("/")[2] in domains]
            level = [path for path in below if depth == 2 or path.rpartition("/")[2] not in domains]
        admits = self._scope.admits_namespace
        return sorted(path for path in found if admits(path[len(root) + 1 : path.rindex("/")]))

    async def _tenants(self, root: str) -> list[str]:
        """The nodes of the wanted tenants below `root`."""
        return [f"{root}/{name}" for name in await self._children(root) if self._scope.admits_tenant(name)]

    async def _names_in(self, folder: str, without: Collection[str] = ()) -> list[str]:
        return [f"{folder}/{name}" for name in await self._children(folder) if name not in without]

    async def _below(self, folders: Sequence[str], names: "re.Pattern[str] | None" = None) -> list[str]:
        listed = await self._children_many(folders)
        return [
            f"{folder}/{name}"
            for folder, found in zip(folders, listed, strict=True)
            for name in found or ()
            if names is None or names.fullmatch(name)
        ]

    async def _children(self, path: str) -> list[str]:
        return (await self._children_many([path]))[0] or []

    async def _children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        return await self._in_steps(self._store.children_many, paths)

    async def _read(self, kind: NodeKind, paths: Sequence[str]) -> AsyncGenerator[Nodes, None]:
        start = 0
        while start < len(paths):
            step = min(self._steps.get(kind, FIRST_NODES), nodes_at_once(self._rate_limiter.per_second))
            nodes = await self._get(kind, paths[start : start + step])
            yield nodes
            start += step
            self._steps[kind] = next_step(nodes)

    async def _get(self, kind: NodeKind, paths: Sequence[str]) -> Nodes:
        """The nodes that still exist."""
        nodes: list[Node | None] = await self._in_steps(self._store.get_many, paths)
        found: Nodes = []
        new_node = tuple.__new__  # half the time of the constructor
        for path, node in zip(paths, nodes, strict=True):
            if node is not None:
                stat = node.stat
                times, zxids = (stat.created_ms, stat.modified_ms), (stat.czxid or None, stat.mzxid or None)
                fields = (path, node.data, stat.version, *times, stat.num_children, *zxids)
                found.append((kind, new_node(FoundNode, fields)))
        return found

    async def _in_steps(self, read: Callable[[Sequence[str]], Awaitable[list[T]]], paths: Sequence[str]) -> list[T]:
        found: list[T] = []
        step = nodes_at_once(self._rate_limiter.per_second)
        for start in range(0, len(paths), step):
            some = paths[start : start + step]
            pause = self._rate_limiter.pause_before(len(some), asyncio.get_running_loop().time())
            if pause > 0:
                await asyncio.sleep(pause)
            found += await read(some)
        return found


def nodes_at_once(rate: float | None, most: int = NODES_AT_ONCE) -> int:
    """How many to request together: with a rate, 20 ms worth of nodes, because other requests wait behind them."""
    return most if rate is None else max(1, min(most, int(rate / BURSTS_A_SECOND)))


def next_step(nodes: Nodes) -> int:
    """How many nodes to request next, so that nodes of this average size stay within BYTES_AT_ONCE."""
    size = sum([len(node.data) for _, node in nodes])
    return max(1, min(NODES_AT_ONCE, BYTES_AT_ONCE * max(1, len(nodes)) // max(1, size)))


async def read_ahead(lists: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The items of `lists`; the next is requested while the caller works on the current one."""
    following = asyncio.ensure_future(_next(lists))
    try:
        while True:
            current = await following
            if current is None:
                return
            following = asyncio.ensure_future(_next(lists))
            await asyncio.sleep(0)
            yield current
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await lists.aclose()


async def _next(lists: AsyncIterator[T]) -> T | None:
    return await anext(lists, None)
