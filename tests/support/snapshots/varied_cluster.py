"""Nodes of every kind that the tables know, from the golden data of Java, and some that are broken."""

from mledger.metastore.memory.tree import NodeRecord
from mledger.metastore.records.paths import encode_name
from mledger.metastore.rocksdb.directory import MetadataDirectory
from mledger.metastore.rocksdb.rows import Rows
from mledger.metastore.store import MetadataReader
from tests.support.recordings import golden

BROKEN = {
    "/managed-ledgers/golden/broken/persistent/topic": b"\x07not a record",
    "/managed-ledgers/golden/broken/persistent/good": b"",
    "/managed-ledgers/golden/broken/persistent/good/sub": b"\xff\xff",
    "/managed-ledgers/golden/broken/persistent/bad%name": b"",
    "/ledgers/00/0009/L9999": b"no metadata",
    "/ledgers/00/0009/stray": b"",
    "/ledgers/available/bad:1": b"\xff",
    "/admin/partitioned-topics/golden/broken/persistent/p": b"{",
}
"""Nodes that do not decode, and the topic without ledgers."""

PARTITIONED = {
    "/admin/partitioned-topics/golden/parts/persistent/" + encode_name("o r"): b'{"partitions":3,"deleted":false}',
    "/admin/partitioned-topics/golden/parts/non-persistent/n": b'{"partitions":2,"properties":{"k":"v"}}',
    "/admin/partitioned-topics/golden/cluster/ns0/persistent/old": b'{"partitions":1}',
    "/managed-ledgers/golden/parts/persistent/o+r-partition-0": b"",
    "/managed-ledgers/golden/parts/persistent/o+r-partition-2": b"",
    "/bookies": b'{"default":{"127.0.0.1:33481":{"rack":"/r1","hostname":"h"}}}',
}


def nodes() -> dict[str, bytes]:
    """All nodes by path. A path that occurs in several golden files is there once."""
    found: dict[str, bytes] = {}
    for file in golden.files("znodes/*-0.json") + golden.files("znodes/bk-*.json"):
        found |= {node.path: node.data for node in golden.nodes(file) if node.path not in ("", "/")}
    return found | BROKEN | PARTITIONED


async def copy_to_rocksdb(reader: MetadataReader, directory: str) -> int:
    """Write the same tree, with versions and times, as a RocksDB metadata directory, and return the number of nodes."""
    place = MetadataDirectory(directory)
    try:
        place.begin()
        rows = Rows(place.rows)
        count, level = 0, ["/"]
        while level:
            listed = await reader.children_many(level)
            for path, node, names in zip(level, await reader.get_many(level), listed, strict=True):
                assert node is not None
                stat = node.stat
                rows.put_node(
                    NodeRecord(path, node.data, stat.version, stat.created_ms, stat.modified_ms, 0, len(names or ()))
                )
                count += 1
            level = [
                f"{path.rstrip('/')}/{name}" for path, names in zip(level, listed, strict=True) for name in names or ()
            ]
        rows.commit()
        rows.close()
        return count
    finally:
        place.unlock()
