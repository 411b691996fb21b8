"""Reads a whole metadata tree to copy it, while others write to it.

Each node is copied as it is when it is read. A node created meanwhile may be missing, and one deleted meanwhile
may be in the copy. Ledgers are copied before the topics that name them, and new ledgers once more after the topics.
So a topic of the copy names no ledger that the copy lacks, unless that ledger was created and deleted in between.
Ledgers that are not closed are copied after the topics, too: their ensembles may change meanwhile, and a restored
ledger is recovered from the bookies that its copy names.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence

from msgspec.structs import replace

from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import LEDGERS, ledger_id_from_path
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
    open_ledgers: dict[str, BackupNode] = {}
    copied = 0

    async def copy(nodes: Sequence[BackupNode]) -> None:
        nonlocal copied
        acls = await reader.acl_many([node.path for node in nodes])
        for node, acl in zip(nodes, acls, strict=True):
            add(replace(node, acl=acl))
        copied += len(nodes)
        count(len(nodes))

    parts = _parts(start)
    for part, without, only_new in parts:
        async for nodes in walk(reader, part, without):
            if len(parts) > 1 and part == LEDGERS and not only_new:
                open_ledgers |= {node.path: node for node in nodes if _is_open_ledger(node)}
                nodes = [node for node in nodes if node.path not in open_ledgers]
                known.update(node.path for node in nodes)
            elif only_new:
                nodes = [node for node in nodes if node.path not in known]
                for node in nodes:
                    open_ledgers.pop(node.path, None)
            await copy(nodes)
    await copy(list(open_ledgers.values()))  # deleted meanwhile, and a topic of the copy may name them
    return copied


def _is_open_ledger(node: BackupNode) -> bool:
    """Whether a node holds a ledger that is not closed."""
    try:
        ledger_id_from_path(node.path)
        return decode_ledger_metadata(node.data, node.path).state is not LedgerState.CLOSED
    except (InvalidName, RecordError):
        return False


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
