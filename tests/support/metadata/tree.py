"""The whole metadata tree at one moment, to compare before and after."""

from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_reader
from tests.support.aio import run

Tree = dict[str, tuple[int, bytes]]


async def read_tree(reader: MetadataReader, start: str = "") -> Tree:
    """Version and data of every node below `start` that is not ephemeral, without ZooKeeper's own."""
    found: Tree = {}
    level = [start or "/"]
    while level:
        listed = await reader.children_many(level)
        paths = [
            f"{path.rstrip('/')}/{name}" for path, names in zip(level, listed, strict=True) for name in names or ()
        ]
        level = [path for path in paths if path != "/zookeeper"]
        nodes = await reader.get_many(level)
        for path, node in zip(level, nodes, strict=True):
            if node is not None and not node.stat.ephemeral_owner:
                found[path] = (node.version, node.data)
    return found


def tree(url: str) -> Tree:
    """Like `read_tree`, on an event loop of its own."""

    async def look() -> Tree:
        async with await open_reader(url) as reader:
            return await read_tree(reader)

    return run(look())
