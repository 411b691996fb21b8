"""The kind of the node at a path, decided by the path alone (formats.md, ZooKeeper tree). Pure.

Topics lie at `tenant/namespace/persistent/topic` below `/managed-ledgers`, in the old form at
`tenant/cluster/namespace/persistent/topic`; if both forms fit, the first is taken. Their children are cursors. The
tables ignore all other nodes: folders, counters, locks, other programs' nodes.
"""

import enum
import re
from functools import lru_cache
from typing import NamedTuple

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import (
    MANAGED_LEDGERS,
    NAMESPACE_POLICIES,
    PERSISTENT,
    SEGMENT,
    TopicName,
    decode_name,
    encode_name,
    managed_ledger_depth,
    split_partition,
    topic_of_element,
)

RACKS = "/bookies"
SCHEMAS = "/schemas"
BROKERS = "/loadbalance/brokers"
BUNDLES = "/namespace"
DOMAINS = (PERSISTENT, "non-persistent")

FLAT_LEDGER = re.compile(r"L\d+", re.ASCII)
"""A ledger of BookKeeper's flat ledger manager, whose tree is not read: it is reported as an error."""

BUNDLE_RANGE = re.compile(r"0x[0-9a-f]{8}_0x[0-9a-f]{8}", re.ASCII)
"""A bundle's name: the range of hashes that it has."""

_LEAF = re.compile(r"(?:\d{2}/\d{4}|\d{3}/\d{4}/\d{4}/\d{4})/[^/]+", re.ASCII)
_MARK = re.compile(r"(?:[0-9a-f]{4}/){4}urL[^/]*", re.ASCII)


class NodeKind(enum.StrEnum):
    """What kind of record a node has."""

    TOPIC = "topic"
    CURSOR = "cursor"
    LEDGER = "ledger"
    PARTITIONED_TOPIC = "partitioned topic"
    UNDERREPLICATED = "under-replication mark"
    BOOKIE = "bookie"
    READ_ONLY_BOOKIE = "read-only bookie"
    COOKIE = "cookie"
    RACKS = "racks"
    TENANT = "tenant"
    NAMESPACE = "namespace"
    SCHEMA = "schema"
    BROKER = "broker"
    BUNDLE = "bundle"

    __hash__ = str.__hash__  # an enum's own takes several times as long


BOOKIE_KINDS = frozenset({NodeKind.BOOKIE, NodeKind.READ_ONLY_BOOKIE, NodeKind.COOKIE, NodeKind.RACKS})

ADMINISTRATION_KINDS = frozenset({NodeKind.TENANT, NodeKind.NAMESPACE, NodeKind.BROKER, NodeKind.BUNDLE})
"""Kinds with few nodes, which are read together."""


class TopicKey(NamedTuple):
    """The columns that name a topic: `namespace` is `tenant/namespace`, `partition` that of a partitioned topic."""

    tenant: str
    namespace: str
    topic: str
    managed_ledger: str
    partitioned_topic: str | None
    partition: int | None


def kind_of(path: str, ledgers_root: str) -> NodeKind | None:
    """The kind of the node at `path`, None if the tables do not use it."""
    if path.startswith(ledgers_root) and path[len(ledgers_root) : len(ledgers_root) + 1] == "/":
        return _kind_below_ledgers(path[len(ledgers_root) + 1 :])
    parts = path.split("/")
    if parts[1] == "managed-ledgers":
        depth = len(parts)
        if depth > 5 and parts[4] == PERSISTENT:
            return NodeKind.TOPIC if depth == 6 else NodeKind.CURSOR if depth == 7 else None
        if depth > 6 and (parts[5] == PERSISTENT or managed_ledger_depth(parts[2:]) == 5):
            return NodeKind.TOPIC if depth == 7 else NodeKind.CURSOR if depth == 8 else None
        return None
    if parts[1:3] == ["admin", "partitioned-topics"]:
        new_form = len(parts) == 7 and parts[5] in DOMAINS
        old_form = len(parts) == 8 and parts[6] in DOMAINS and parts[5] not in DOMAINS
        return NodeKind.PARTITIONED_TOPIC if new_form or old_form else None
    return NodeKind.RACKS if path == RACKS else _kind_of_administration(parts)


def _kind_of_administration(parts: list[str]) -> NodeKind | None:
    depth = len(parts)
    match parts[1:3]:
        case ["admin", "policies"]:
            return NodeKind.TENANT if depth == 4 else NodeKind.NAMESPACE if depth in (5, 6) else None
        case ["schemas", _]:
            return NodeKind.SCHEMA if depth == 5 else None
        case ["loadbalance", "brokers"]:
            return NodeKind.BROKER if depth == 4 else None
        case ["namespace", _]:
            return NodeKind.BUNDLE if depth in (5, 6) and BUNDLE_RANGE.fullmatch(parts[-1]) else None
    return None


def _kind_below_ledgers(below: str) -> NodeKind | None:
    if below[:2].isdigit():
        return NodeKind.LEDGER if _LEAF.fullmatch(below) else None
    folder, _, name = below.partition("/")
    if not name:
        return NodeKind.LEDGER if FLAT_LEDGER.fullmatch(folder) else None
    if folder == "cookies" and "/" not in name:
        return NodeKind.COOKIE
    if folder == "available" and name != "readonly":
        if "/" not in name:
            return NodeKind.BOOKIE
        return NodeKind.READ_ONLY_BOOKIE if name.startswith("readonly/") and name.count("/") == 1 else None
    if folder == "underreplication" and name.startswith("ledgers/") and _MARK.fullmatch(name[8:]):
        return NodeKind.UNDERREPLICATED
    return None


def topic_key(path: str) -> TopicKey:
    """The topic whose managed ledger is at `path`; InvalidName for a name that no topic can have."""
    return key_of_managed_ledger(path[len(MANAGED_LEDGERS) + 1 :])


def key_at(kind: NodeKind | None, path: str) -> TopicKey | None:
    """The topic that the node of this kind belongs to, if its path shows it."""
    try:
        if kind is NodeKind.TOPIC:
            return topic_key(path)
        return topic_key(path.rpartition("/")[0]) if kind is NodeKind.CURSOR else None
    except InvalidName:
        return None


@lru_cache(maxsize=1024)
def key_of_managed_ledger(name: str) -> TopicKey:
    """The topic of the managed ledger of that name; InvalidName."""
    if f"/{SEGMENT}/" in name:
        topic = TopicName.of_managed_ledger(name)
        if topic.domain == SEGMENT:
            return TopicKey(topic.tenant, f"{topic.tenant}/{topic.namespace}", str(topic), name, None, None)
    folder, _, element = name.rpartition("/")
    try:
        tenant, namespace, prefix = namespace_of_folder(folder)
    except InvalidName:
        TopicName.of_managed_ledger(name)  # raises an error about the whole name
        raise
    local = topic_of_element(element)
    base, partition = split_partition(local)
    return TopicKey(tenant, namespace, prefix + local, name, None if partition is None else prefix + base, partition)


@lru_cache(maxsize=4096)
def namespace_of_folder(folder: str) -> tuple[str, str, str]:
    """Tenant, `tenant/namespace`, and the prefix of the full names of the topics in `folder`; InvalidName."""
    topic = TopicName.of_managed_ledger(f"{folder}/x")
    return topic.tenant, folder[: -len(PERSISTENT) - 1], str(topic)[:-1]


def partitioned_of(topic: TopicName) -> str | None:
    """The full name of the partitioned topic that `topic` is a partition of, by its name; None if it is not one."""
    return None if topic.partition_index is None else str(topic.partitioned)


def cursor_of(path: str) -> str:
    """The decoded name of the cursor at `path`; a name that is not encoded as Pulsar does is returned as it is.

    So two nodes of a topic that decode to one name have two names, each told by its own path.
    """
    node = path.rpartition("/")[2]
    try:
        name = decode_name(node)
        return name if name == node or encode_name(name) == node else node
    except InvalidName:
        return node


def partitioned_topic_at(path: str) -> tuple[str, str, str]:
    """Tenant, `tenant/namespace` and full name of the partitioned topic whose record is at `path`; InvalidName."""
    parts = path.split("/")[3:]
    tenant, domain, local = parts[0], parts[-2], decode_name(parts[-1])
    namespace = "/".join(parts[:-2])
    return tenant, namespace, f"{domain}://{namespace}/{local}"


def schema_topic_at(path: str) -> tuple[str, str, str]:
    """Tenant, `tenant/namespace` and full name, without a partition, of the topic whose schema is at `path`.

    Raises InvalidName.
    """
    tenant, namespace, name = path.removeprefix(f"{SCHEMAS}/").split("/")
    full = f"{tenant}/{namespace}"
    return tenant, full, f"{PERSISTENT}://{full}/{decode_name(name)}"


def namespace_at(path: str) -> tuple[str, str]:
    """Tenant and `tenant/namespace` of the namespace whose policies are at `path`."""
    namespace = path.removeprefix(f"{NAMESPACE_POLICIES}/")
    return namespace.partition("/")[0], namespace


def bundle_at(path: str) -> tuple[str, str]:
    """`tenant/namespace` and the range of the bundle whose owner is at `path`."""
    namespace, _, bundle = path.removeprefix(f"{BUNDLES}/").rpartition("/")
    return namespace, bundle
