"""Reads a whole metadata tree to copy it, while others write to it.

Each node is copied as it is when it is read. A node created meanwhile may be missing, and one deleted meanwhile
may be in the copy. Ledgers are copied before the topics that name them, and new ledgers once more after the topics.
So a topic of the copy names no ledger that the copy lacks, unless that ledger was created and deleted in between.
"""

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace

from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.store import MetadataReader

PAGE = 500
ZOOKEEPERS_OWN = "/zookeeper"


def ignore_count(count: int) -> None:
    """Ignore the number of nodes copied."""


async def copy_tree(
    reader: MetadataReader,
    add: Callable[[BackupNode], None],
    start: str = "/",
    count: Callable[[int], None] = ignore_count,
) -> int:
    """Hand every node at and below `start` to `add`, parents first; return their number. StoreUnavailable."""
    known: set[str] = set()
    copied = 0
    parts = _parts(start)
    for part, without, only_new in parts:
        async for nodes in walk(reader, part, without):
            fresh = [node for node in nodes if not (only_new and node.path in known)]
            acls = await reader.acl_many([node.path for node in fresh])
            fresh = [replace(node, acl=acl) for node, acl in zip(fresh, acls, strict=True)]
            if len(parts) > 1 and part == LEDGERS and not only_new:
                known.update(node.path for node in fresh)
            for node in fresh:
                add(node)
            copied += len(fresh)
            count(len(fresh))
    return copied


def _parts(start: str) -> list[tuple[str, tuple[str, ...], bool]]:
    """The walks in order: where each begins, what it leaves out, and whether it counts only new nodes."""
    if start != "/":
        return [(start, (), False)]
    return [(LEDGERS, (), False), ("/", (ZOOKEEPERS_OWN, LEDGERS), False), (LEDGERS, (), True)]


async def walk(reader: MetadataReader, start: str, without: Collection[str] = ()) -> AsyncIterator[list[BackupNode]]:
    """Yield the nodes at and below `start` in pages, parents first, without their access control lists.

    Yields no node if `start` does not exist.
    """
    pending = [start]
    while pending:
        page, pending = pending[-PAGE:], pending[:-PAGE]
        nodes = await reader.get_many(page)
        there = [(path, node) for path, node in zip(page, nodes, strict=True) if node is not None]
        yield [
            BackupNode(path, node.data, node.version, ephemeral=node.stat.ephemeral_owner != 0) for path, node in there
        ]
        parents = [path for path, node in there if node.stat.num_children]
        for parent, names in zip(parents, await reader.children_many(parents), strict=True):
            below = (f"{parent.rstrip('/')}/{name}" for name in names or ())
            pending += [path for path in below if path not in without]
