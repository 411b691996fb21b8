"""A node in the form that all sources share, and the decoded records that rows are built from; no I/O."""

from typing import Any, NamedTuple

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import LedgerInspection
from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.cookies import Cookie
from mledger.metastore.cluster.policies import StoragePolicies
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.partitioned_topic import PartitionedTopic as PartitionedRecord
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.records.values import Decoded, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.store import Node
from mledger.snapshot.tables.node_kinds import NodeKind, TopicKey
from mledger.snapshot.tables.node_places import NodePlace
from mledger.snapshot.zookeeper_files.jute import Znode


class FoundNode(NamedTuple):
    """A node that was read: data and what the tables show of its stat; times in ms since 1970.

    `czxid` and `mzxid` are None if the store has no zxids.
    """

    path: str
    data: bytes
    version: int
    created_ms: int
    modified_ms: int
    num_children: int
    czxid: int | None = None
    mzxid: int | None = None

    @classmethod
    def of(cls, path: str, node: Node) -> "FoundNode":
        """The node of a metadata store."""
        stat = node.stat
        times = stat.created_ms, stat.modified_ms
        return cls(path, node.data, stat.version, *times, stat.num_children, stat.czxid or None, stat.mzxid or None)

    @classmethod
    def in_files(cls, path: str, node: Znode) -> "FoundNode":
        """A node of ZooKeeper's files; `path` is below the chroot."""
        _, data, czxid, mzxid, ctime, mtime, version, _, _, _, _, _, num_children = node
        # Half the time of the constructor.
        return tuple.__new__(cls, (path, data or b"", version, ctime, mtime, num_children, czxid, mzxid))


class Topic(NamedTuple):
    """A topic's record; `seen` are its ledgers as its bookies report them, None if they were not read."""

    key: TopicKey
    node: FoundNode
    record: Decoded[ManagedLedgerInfo]
    seen: dict[int, LedgerInspection] | None = None
    problem: str | None = None


class CursorNode(NamedTuple):
    """A cursor's record; `recovered` is what opening its topic would find, None if it was not requested."""

    key: TopicKey
    cursor: str
    node: FoundNode
    record: ManagedCursorInfo
    recovered: CursorInspection | None = None
    problem: str | None = None


class Ledger(NamedTuple):
    """A ledger's metadata; `key` is the topic that its custom metadata names, None if it names none."""

    ledger_id: int
    node: FoundNode
    metadata: LedgerMetadata
    custom: dict[str, str]
    key: TopicKey | None


class PartitionedTopicNode(NamedTuple):
    """The record of a partitioned topic."""

    tenant: str
    namespace: str
    topic: str
    node: FoundNode
    record: PartitionedRecord


class Underreplicated(NamedTuple):
    """The mark that a ledger lacks the replicas of these bookies, since `since_ms` (None: not recorded)."""

    ledger_id: int
    node: FoundNode
    missing_replicas: tuple[str, ...]
    since_ms: int | None


class BookieNode(NamedTuple):
    """A bookie that has a registration, a cookie, or both; `node` is that of its registration, if it has one."""

    bookie_id: str
    registration: BookieRegistration | None
    registered: FoundNode | None
    cookie: Cookie | None
    rack: str | None
    node: FoundNode | None = None


class TenantNode(NamedTuple):
    """A tenant; the names are sorted."""

    tenant: str
    node: FoundNode
    admin_roles: tuple[str, ...]
    allowed_clusters: tuple[str, ...]


class NamespaceNode(NamedTuple):
    """A namespace, `tenant/namespace`; sizes in bytes, None where it has no policy of its own.

    `text` is the JSON of all policies, without credentials.
    """

    tenant: str
    namespace: str
    node: FoundNode
    policies: StoragePolicies
    bundles: int | None
    clusters: tuple[str, ...]
    deleted: bool
    offload_threshold: int | None
    text: str


class SchemaNode(NamedTuple):
    """The record of a topic's schema; `topic` is the full name, without a partition."""

    tenant: str
    namespace: str
    topic: str
    node: FoundNode
    locator: SchemaLocator


class BrokerNode(NamedTuple):
    """A broker that runs; `said` are fields of its node by their names in JSON."""

    broker: str
    node: FoundNode
    said: dict[str, Any]


class BundleNode(NamedTuple):
    """A bundle that a broker serves; `owner` are fields of its node by their names in JSON."""

    tenant: str
    namespace: str
    bundle: str
    node: FoundNode
    owner: dict[str, Any]


AdministrationNode = TenantNode | NamespaceNode | SchemaNode | BrokerNode | BundleNode


class UnreadableNode(NamedTuple):
    """A node whose data or name is not valid for its path; `place` is where its path says that it belongs."""

    kind: NodeKind
    place: NodePlace
    node: FoundNode
    error: str
