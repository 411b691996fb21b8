"""A node as every input gives it, and the decoded records that rows are made of. Values only; no I/O."""

from typing import NamedTuple

from mledger.admin.inspect import CursorInspection, LedgerInspection
from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.cookies import Cookie
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.partitioned_topic import PartitionedTopic as PartitionedRecord
from mledger.metastore.records.values import Decoded, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.store import Node
from mledger.snapshot.tables.node_kinds import NodeKind, TopicKey


class FoundNode(NamedTuple):
    """A node that was read: data and what the tables show of its stat; times in ms since 1970."""

    path: str
    data: bytes
    version: int
    created_ms: int
    modified_ms: int
    num_children: int

    @classmethod
    def of(cls, path: str, node: Node) -> "FoundNode":
        """The node of a metadata store."""
        stat = node.stat
        return cls(path, node.data, stat.version, stat.created_ms, stat.modified_ms, stat.num_children)


class Topic(NamedTuple):
    """A topic's record; `seen` are its ledgers as its bookies show them, None where they were not asked."""

    key: TopicKey
    node: FoundNode
    record: Decoded[ManagedLedgerInfo]
    seen: dict[int, LedgerInspection] | None = None
    problem: str | None = None


class CursorNode(NamedTuple):
    """A cursor's record; `recovered` is what opening its topic would find, None where it was not looked for."""

    key: TopicKey
    cursor: str
    node: FoundNode
    record: ManagedCursorInfo
    recovered: CursorInspection | None = None
    problem: str | None = None


class Ledger(NamedTuple):
    """A ledger's metadata; `key` where it says that a topic's managed ledger wrote it."""

    ledger_id: int
    node: FoundNode
    metadata: LedgerMetadata
    custom: dict[str, str]
    key: TopicKey | None


class PartitionedTopicNode(NamedTuple):
    """How many partitions a topic was given."""

    tenant: str
    namespace: str
    topic: str
    node: FoundNode
    record: PartitionedRecord


class Underreplicated(NamedTuple):
    """The mark that a ledger lacks the replicas of these bookies, since `since_ms` (None: not said)."""

    ledger_id: int
    node: FoundNode
    missing_replicas: tuple[str, ...]
    since_ms: int | None


class BookieNode(NamedTuple):
    """A bookie that is registered, or has a cookie, or both."""

    bookie_id: str
    registration: BookieRegistration | None
    registered: FoundNode | None
    cookie: Cookie | None
    rack: str | None


class UnreadableNode(NamedTuple):
    """A node whose bytes or name could not be read as what its place says it is."""

    kind: NodeKind
    key: TopicKey | None
    node: FoundNode
    error: str
