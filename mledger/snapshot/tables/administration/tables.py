"""The tables `tenants`, `namespaces`, `schemas`, `brokers` and `bundles`."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from mledger.snapshot.tables.columns import BYTES, FLAG, INT, LONG, LONGS, TEXT, TEXTS, TIME, Column, Table
from mledger.snapshot.tables.records import BrokerNode, BundleNode, NamespaceNode, SchemaNode, TenantNode
from mledger.snapshot.tables.topics import node_columns, znode_columns


def _policy(name: str) -> Callable[[NamespaceNode], Any]:
    """A field of a policy that may be missing, such as `retention.minutes`."""
    policy, _, field = name.rpartition(".")
    found, value = attrgetter(f"policies.{policy}"), attrgetter(field)
    return lambda row: None if (part := found(row)) is None else value(part)


def _quota_policy(row: NamespaceNode) -> str | None:
    service = row.policies.service
    quota = service.size_quota or service.age_quota
    return None if quota is None else quota.policy.value


TENANTS: Table[TenantNode] = Table(
    "tenants",
    "a tenant",
    (
        Column("tenant", TEXT, "the tenant", attrgetter("tenant")),
        *node_columns(),
        Column("admin_roles", TEXTS, "the roles that administer it", attrgetter("admin_roles")),
        Column("allowed_clusters", TEXTS, "the clusters that it may use", attrgetter("allowed_clusters")),
        *znode_columns(versioned=True),
    ),
)

NAMESPACES: Table[NamespaceNode] = Table(
    "namespaces",
    "a namespace with its policies, null where it has none of its own and its brokers' settings apply",
    (
        Column("tenant", TEXT, "the tenant", attrgetter("tenant")),
        Column("namespace", TEXT, "`tenant/namespace`", attrgetter("namespace")),
        *node_columns(),
        Column(
            "retention_minutes", LONG, "how long consumed data is kept; -1: without end", _policy("retention.minutes")
        ),
        Column("retention_mb", LONG, "how much of it is kept; -1: all", _policy("retention.size_mb")),
        Column("ensemble_size", INT, "bookies of a new ledger", _policy("persistence.ensemble_size")),
        Column("write_quorum", INT, "copies of each entry", _policy("persistence.write_quorum")),
        Column("ack_quorum", INT, "copies before an entry is acknowledged", _policy("persistence.ack_quorum")),
        Column("message_ttl_s", LONG, "after how many seconds messages expire", _policy("service.message_ttl_s")),
        Column("backlog_quota_bytes", LONG, "the most bytes of a backlog", _policy("service.size_quota.limit_bytes")),
        Column(
            "backlog_quota_s", LONG, "the greatest age of a backlog, in seconds", _policy("service.age_quota.limit_s")
        ),
        Column("backlog_quota_policy", TEXT, "what happens above the quota", _quota_policy),
        Column(
            "subscription_expiration_minutes",
            LONG,
            "after how long without use a subscription is deleted",
            _policy("service.subscription_expiration_minutes"),
        ),
        Column("deduplication", FLAG, "whether repeated messages are dropped", _policy("service.deduplication")),
        Column(
            "compaction_threshold",
            LONG,
            "from how many bytes topics are compacted",
            _policy("service.compaction_threshold"),
        ),
        Column(
            "offload_threshold",
            LONG,
            "from how many bytes ledgers are offloaded; negative: never",
            attrgetter("offload_threshold"),
        ),
        Column("bundles", INT, "how many bundles it had when it was created", attrgetter("bundles")),
        Column("replication_clusters", TEXTS, "the clusters that it is in", attrgetter("clusters")),
        Column("deleted", FLAG, "whether it is being deleted", attrgetter("deleted")),
        Column("policies", TEXT, "all policies, in Pulsar's JSON; credentials are `(hidden)`", attrgetter("text")),
        *znode_columns(versioned=True),
    ),
)

SCHEMAS: Table[SchemaNode] = Table(
    "schemas",
    "a topic that has a schema; the schemas themselves are in ledgers",
    (
        Column("tenant", TEXT, "the tenant", attrgetter("tenant")),
        Column("namespace", TEXT, "`tenant/namespace`", attrgetter("namespace")),
        Column("topic", TEXT, "the topic's full name, without a partition", attrgetter("topic")),
        *node_columns(),
        Column("schema_version", LONG, "the newest version", attrgetter("locator.info.version")),
        Column("ledger_id", LONG, "where it is stored: ledger", attrgetter("locator.info.position.ledgerId")),
        Column("entry_id", LONG, "the same: entry", attrgetter("locator.info.position.entryId")),
        Column("hash", BYTES, "its hash", attrgetter("locator.info.hash")),
        Column(
            "schema_versions",
            LONGS,
            "the versions that are listed, in their order",
            lambda row: [each.version for each in row.locator.index],
        ),
        Column(
            "ledger_ids",
            LONGS,
            "the ledgers of all of them, in ascending order",
            lambda row: sorted({each.position.ledgerId for each in (row.locator.info, *row.locator.index)}),
        ),
        *znode_columns(versioned=True),
    ),
)


def _said(key: str, other: str = "") -> Callable[[BrokerNode], Any]:
    return lambda row: row.said.get(key, row.said.get(other))


BROKERS: Table[BrokerNode] = Table(
    "brokers",
    "a broker that runs, by what it last wrote to its znode",
    (
        Column("broker", TEXT, "the broker, `host:port`", attrgetter("broker")),
        *node_columns(),
        Column("service_url", TEXT, "where clients reach it", _said("pulsarServiceUrl")),
        Column("service_url_tls", TEXT, "the same by TLS", _said("pulsarServiceUrlTls")),
        Column("web_url", TEXT, "where its administration is", _said("webServiceUrl")),
        Column("web_url_tls", TEXT, "the same by TLS", _said("webServiceUrlTls")),
        Column("broker_version", TEXT, "its version", _said("brokerVersionString", "brokerVersion")),
        Column("load_manager", TEXT, "the class of its load manager", _said("loadManagerClassName")),
        Column("started", TIME, "when it started", _said("startTimestamp")),
        Column("updated", TIME, "when it last reported its load", _said("lastUpdate")),
        Column("topics", INT, "how many topics it serves", _said("numTopics")),
        Column("bundles", INT, "how many bundles it serves", _said("numBundles")),
        Column("producers", INT, "how many producers it has", _said("numProducers")),
        Column("consumers", INT, "how many consumers it has", _said("numConsumers")),
        *znode_columns(versioned=True),
    ),
)


def _owner(key: str) -> Callable[[BundleNode], Any]:
    return lambda row: row.owner.get(key)


BUNDLES: Table[BundleNode] = Table(
    "bundles",
    "a bundle of a namespace's topics that a broker serves",
    (
        Column("tenant", TEXT, "the tenant", attrgetter("tenant")),
        Column("namespace", TEXT, "`tenant/namespace`", attrgetter("namespace")),
        Column("bundle", TEXT, "the range of hashes, `0x…_0x…`", attrgetter("bundle")),
        *node_columns(),
        Column("service_url", TEXT, "where clients reach its owner", _owner("nativeUrl")),
        Column("service_url_tls", TEXT, "the same by TLS", _owner("nativeUrlTls")),
        Column("web_url", TEXT, "where its owner's administration is", _owner("httpUrl")),
        Column("web_url_tls", TEXT, "the same by TLS", _owner("httpUrlTls")),
        Column("disabled", FLAG, "whether its owner is about to give it up", _owner("disabled")),
        *znode_columns(versioned=True),
    ),
)
