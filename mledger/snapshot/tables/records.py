"""A node as every input gives it, and the decoded records that rows are made of. Values only; no I/O."""

from typing import NamedTuple

from mledger.admin.inspect import CursorInspection, LedgerInspection
from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.cluster.cookies import Cookie
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.partitioned_topic import PartitionedTopic as PartitionedRecord
from mledger.metastore.records.values import Decoded, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.store import Node
from mledger.snapshot.tables.node_kinds import Kind, TopicKey


class Found(NamedTuple):
    """A node that was read: data and what the tables show of its stat; times in ms since 1970."""

    path: str
    data: bytes
    version: int
    created_ms: int
    modified_ms: int
    num_children: int

    @classmethod
    def of(cls, path: str, node: Node) -> "Found":
        """The node of a metadata store."""
        stat = node.stat
        return cls(path, node.data, stat.version, stat.created_ms, stat.modified_ms, stat.num_children)


class Topic(NamedTuple):
    """A topic's record; `seen` are its ledgers as its bookies show them, None where they were not asked."""

    key: TopicKey
    node: Found
    record: Decoded[ManagedLedgerInfo]
    seen: dict[int, LedgerInspection] | None = None
    problem: str | None = None


class Cursor(NamedTuple):
    """A cursor's record; `recovered` is what opening its topic would find, None where it was not looked for."""

    key: TopicKey
    cursor: str
    node: Found
    record: ManagedCursorInfo
    recovered: CursorInspection | None = None
    problem: str | None = None


class Ledger(NamedTuple):
    """A ledger's metadata; `key` where it says that a topic's managed ledger wrote it."""

    ledger_id: int
    node: Found
    metadata: LedgerMetadata
    custom: dict[str, str]
    key: TopicKey | None


class PartitionedTopic(NamedTuple):
    """How many partitions a topic was given."""

    tenant: str
    namespace: str
    topic: str
    node: Found
    record: PartitionedRecord


class Underreplicated(NamedTuple):
    """The mark that a ledger lacks the replicas of these bookies, since `since_ms` (None: not said)."""

    ledger_id: int
    node: Found
    missing_replicas: tuple[str, ...]
    since_ms: int | None


class Bookie(NamedTuple):
    """A bookie that is registered, or has a cookie, or both."""

    bookie_id: str
    registration: BookieRegistration | None
    registered: Found | None
    cookie: Cookie | None
    rack: str | None


class Unreadable(NamedTuple):
    """A node whose bytes or name could not be read as what its place says it is."""

    kind: Kind
    key: TopicKey | None
    node: Found
    error: str
