"""Nodes of every kind that the tables know, from the golden data of Java, and some that are broken."""

from mledger.metastore.memory.tree import NodeRecord
from mledger.metastore.records.paths import encode_name
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaIndexEntry, SchemaLocator, SchemaPosition
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
    "/admin/policies/unlisted": b"[]",
    "/admin/policies/golden/broken": b'{"retention_policies":{"retentionTimeInMinutes":"long"}}',
    "/schemas/golden/broken/s": b"\x0a\x01",
    "/loadbalance/brokers/broken:8080": b"",
    "/namespace/golden/broken/0x00000000_0xffffffff": b"1",
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

POLICIES = b"""{"auth_policies":{"namespace_auth":{}},"replication_clusters":["west","east"],"bundles":{"boundaries":\
["0x00000000","0x80000000","0xffffffff"],"numBundles":2},"backlog_quota_map":{"destination_storage":{"limitSize":1000,\
"limitTime":-1,"policy":"producer_exception"},"message_age":{"limitSize":-1,"limitTime":600,"policy":\
"consumer_backlog_eviction"}},"persistence":{"bookkeeperEnsemble":3,"bookkeeperWriteQuorum":2,"bookkeeperAckQuorum":2,\
"managedLedgerMaxMarkDeleteRate":1.0},"deduplicationEnabled":true,"message_ttl_in_seconds":3600,\
"retention_policies":{"retentionTimeInMinutes":60,"retentionSizeInMB":-1},"subscription_expiration_time_minutes":90,\
"compaction_threshold":4096,"offload_threshold":-1,"deleted":false}""".replace(b"\\\n", b"")
"""A namespace's policies as Pulsar writes them, shortened."""


def _locator(*versions: tuple[int, int, int]) -> bytes:
    """A schema's record with these versions: number, ledger and entry."""
    index = [
        SchemaIndexEntry(version=version, position=SchemaPosition(ledgerId=ledger, entryId=entry), hash=b"%d" % version)
        for version, ledger, entry in versions
    ]
    return SchemaLocator(info=index[-1], index=index).SerializeToString()


URLS = b'"nativeUrl":"pulsar://h:6650","nativeUrlTls":"","httpUrl":"http://h:8080","httpUrlTls":null'

ADMINISTRATION = {
    "/admin/policies/golden": b'{"adminRoles":["ops","dev"],"allowedClusters":["west"]}',
    "/admin/policies/other": b"",
    "/admin/policies/third": b"{}",
    "/admin/policies/golden/parts": POLICIES,
    "/admin/policies/golden/cluster": b"",
    "/admin/policies/golden/cluster/ns0": b'{"bundles":{"boundaries":[],"numBundles":4}}',
    "/admin/policies/other/ns": b'{"deleted":true,"replication_clusters":[]}',
    "/schemas/golden/parts/" + encode_name("o r"): _locator((0, 7, 0), (1, 9, 0)),
    "/schemas/golden/parts/n": _locator((0, 11, 0)),
    "/schemas/other/ns/t": _locator((4, 12, 3)),
    "/loadbalance/brokers/h:8080": b'{"pulsarServiceUrl":"pulsar://h:6650","webServiceUrl":"http://h:8080","numTopics":5,\
"numBundles":2,"numProducers":1,"numConsumers":3,"brokerVersionString":"4.2.0","startTimestamp":1700000000000,\
"lastUpdate":1700000001000,"loadManagerClassName":"ModularLoadManagerImpl"}'.replace(b"\\\n", b""),
    "/loadbalance/brokers/i:8080": b'{"pulsarServiceUrlTls":"pulsar+ssl://i:6651","brokerVersion":"5.0","numTopics":"many"}',
    "/loadbalance/brokers/j:8080": b"{}",
    "/namespace/golden/parts/0x00000000_0x80000000": b'{%s,"disabled":false}' % URLS,
    "/namespace/golden/parts/0x80000000_0xffffffff": b'{%s,"disabled":true}' % URLS,
    "/namespace/golden/cluster/ns0/0x00000000_0xffffffff": b"{%s}" % URLS,
}


def nodes() -> dict[str, bytes]:
    """All nodes by path. A path that occurs in several golden files is there once."""
    found: dict[str, bytes] = {}
    for file in golden.files("znodes/*-0.json") + golden.files("znodes/bk-*.json"):
        found |= {node.path: node.data for node in golden.nodes(file) if node.path not in ("", "/")}
    return found | BROKEN | PARTITIONED | ADMINISTRATION


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
