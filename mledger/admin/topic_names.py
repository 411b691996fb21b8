"""Lists topics by the paths of their records; it reads no record."""

from collections.abc import AsyncIterator, Sequence

from mledger.metastore.closed_nodes import read_open
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import MANAGED_LEDGERS, PERSISTENT, SEGMENT, TopicName, managed_ledger_depth
from mledger.metastore.store import MetadataReader

PAGE = 500
FOLDERS_AT_ONCE = 100


async def list_topics(reader: MetadataReader, prefix: str = "") -> list[TopicName]:
    """All topics, sorted by managed ledger; with `prefix` only those of a tenant or tenant/namespace."""
    found: list[TopicName] = []
    async for page in managed_ledger_paths(reader, prefix):
        found += [topic for path in page if (topic := _topic_name(path)) is not None]
    return sorted(found, key=lambda topic: topic.managed_ledger_name)


async def managed_ledger_paths(
    reader: MetadataReader, prefix: str = "", closed: set[str] | None = None
) -> AsyncIterator[list[str]]:
    """Paths of managed ledgers' records, in pages; with `prefix` only those of a tenant or tenant/namespace.

    Folders that access control closes are an error, or with `closed` added to it and passed over.

    Names that no topic can have are included. The node `persistent` is looked for at the depth of both name forms;
    below `segment` are topics, and below each of them its segments.
    """
    level = ["/".join([MANAGED_LEDGERS, *filter(None, prefix.split("/"))])]
    for _ in range(4):
        below = await children_of(reader, level, closed)
        folders = [path for path in below if _is_folder(path)]
        for first in range(0, len(folders), FOLDERS_AT_ONCE):
            names = await children_of(reader, folders[first : first + FOLDERS_AT_ONCE], closed)
            names = [path for path in names if managed_ledger_depth(path.split("/")[2:]) is not None]
            for start in range(0, len(names), PAGE):
                yield names[start : start + PAGE]
        level = [path for path in below if not _is_folder(path) and path.count("/") < 5]


def _is_folder(path: str) -> bool:
    """Whether the children of `path` are managed ledgers: those of tenant/namespace/persistent, of
    tenant/cluster/namespace/persistent, and of tenant/namespace/segment/topic.

    In the old form, a namespace called `persistent` looks the same as the folder; it is treated as the folder.
    """
    elements = path.split("/")[2:]
    if elements[-1] == PERSISTENT and len(elements) in (3, 4):
        return True
    return len(elements) == 4 and elements[2] == SEGMENT


async def children_of(reader: MetadataReader, paths: Sequence[str], closed: set[str] | None = None) -> list[str]:
    """The paths of the nodes below `paths`; a path that does not exist has none, nor a closed one with `closed`."""
    if closed is None:
        listed = await reader.children_many(paths)
    else:
        listed = await read_open(reader.children_many, paths, closed)
    return [f"{path}/{name}" for path, names in zip(paths, listed, strict=True) for name in names or ()]


def _topic_name(path: str) -> TopicName | None:
    """The topic whose record is at `path`; None for a node that cannot be one."""
    try:
        return TopicName.of_managed_ledger(path[len(MANAGED_LEDGERS) + 1 :])
    except InvalidName:
        return None
