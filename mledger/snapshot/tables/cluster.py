"""The tables `bookies`, `partitioned_topics`, `underreplicated` and `errors`."""

from operator import attrgetter

from mledger.snapshot.tables.columns import BYTES, FLAG, INT, LONG, TEXT, TEXT_MAP, TEXTS, TIME, Column, Table
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.records import BookieNode, PartitionedTopicNode, Underreplicated, UnreadableNode
from mledger.snapshot.tables.topics import node_columns, znode_columns

DATA_SHOWN = 1024
"""How many bytes of a node that does not decode are shown."""


def _data(row: UnreadableNode) -> bytes | None:
    return None if row.kind is NodeKind.NAMESPACE else row.node.data[:DATA_SHOWN]


def _bookie_state(row: BookieNode) -> str:
    if row.registration is None:
        return "away"
    return "read-only" if row.registration.read_only else "writable"


BOOKIES: Table[BookieNode] = Table(
    "bookies",
    "a bookie that is registered, or has a cookie",
    (
        Column("bookie_id", TEXT, "the bookie", attrgetter("bookie_id")),
        Column("state", TEXT, "`writable`, `read-only`, or `away` (a cookie but no registration)", _bookie_state),
        Column("host", TEXT, "the host of its service", lambda row: row.registration and row.registration.host),
        Column("port", INT, "the port of its service", lambda row: row.registration and row.registration.port),
        Column("registered", TIME, "when it registered", lambda row: row.registered and row.registered.created_ms),
        Column("rack", TEXT, "its rack, if `/bookies` names one", attrgetter("rack")),
        Column("instance_id", TEXT, "its cookie's cluster", lambda row: row.cookie and row.cookie.instance_id),
        Column("journal_directory", TEXT, "its journals", lambda row: row.cookie and row.cookie.journal_dir),
        Column(
            "ledger_directories", TEXTS, "its ledger directories", lambda row: row.cookie and row.cookie.ledger_dirs
        ),
        Column("cookie_version", INT, "its cookie's layout version", lambda row: row.cookie and row.cookie.version),
        *znode_columns(),
    ),
)

PARTITIONED_TOPICS: Table[PartitionedTopicNode] = Table(
    "partitioned_topics",
    "a partitioned topic",
    (
        Column("tenant", TEXT, "the tenant", attrgetter("tenant")),
        Column("namespace", TEXT, "`tenant/namespace`", attrgetter("namespace")),
        Column("topic", TEXT, "its full name, `persistent://…` or `non-persistent://…`", attrgetter("topic")),
        *node_columns(),
        Column("partitions", INT, "how many partitions it has", attrgetter("record.partitions")),
        Column("deleted", FLAG, "whether it is being deleted", attrgetter("record.deleted")),
        Column("properties", TEXT_MAP, "its properties", lambda row: dict(row.record.properties or ())),
        *znode_columns(versioned=True),
    ),
)

UNDERREPLICATED: Table[Underreplicated] = Table(
    "underreplicated",
    "a ledger that the auditor or a reader has marked as under-replicated",
    (
        Column("ledger_id", LONG, "the ledger", attrgetter("ledger_id")),
        *node_columns(),
        Column("missing_replicas", TEXTS, "the bookies whose replicas are missing", attrgetter("missing_replicas")),
        Column("since", TIME, "since when, if the mark has a time", attrgetter("since_ms")),
        *znode_columns(versioned=True),
    ),
)

ERRORS: Table[UnreadableNode] = Table(
    "errors",
    "a znode whose data or name is not valid for its path",
    (
        Column("path", TEXT, "the znode", attrgetter("node.path")),
        Column("kind", TEXT, "what it was read as: topic, cursor, ledger, …", attrgetter("kind.value")),
        Column("tenant", TEXT, "the tenant, if its name is known", attrgetter("place.tenant")),
        Column("namespace", TEXT, "`tenant/namespace`, likewise", attrgetter("place.namespace")),
        Column("topic", TEXT, "the topic, likewise", attrgetter("place.topic")),
        *node_columns(),
        Column("error", TEXT, "what is wrong with it", attrgetter("error")),
        Column("bytes", LONG, "how many bytes it has", lambda row: len(row.node.data)),
        Column(
            "data", BYTES, f"the first {DATA_SHOWN} of them; null for a namespace, which may hold credentials", _data
        ),
        *znode_columns(versioned=True),
    ),
)
