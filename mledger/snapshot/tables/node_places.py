"""Which tenant, namespace and topic a node belongs to, by its path alone; pure."""

from typing import NamedTuple

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.snapshot.tables.node_kinds import (
    NodeKind,
    TopicKey,
    bundle_at,
    partitioned_topic_at,
    schema_topic_at,
    topic_key,
)


class NodePlace(NamedTuple):
    """Names, each None if the node belongs to none: `namespace` is `tenant/namespace`, topics have full names."""

    tenant: str | None = None
    namespace: str | None = None
    topic: str | None = None
    managed_ledger: str | None = None
    partitioned_topic: str | None = None


NOWHERE = NodePlace()


def place_of_topic(key: TopicKey) -> NodePlace:
    """The place of all nodes of a topic."""
    return NodePlace(key.tenant, key.namespace, key.topic, key.managed_ledger, key.partitioned_topic)


def place_at(kind: NodeKind | None, path: str) -> NodePlace:
    """The place of the node of this kind at `path`; a ledger's path does not show it."""
    try:
        match kind:
            case NodeKind.TOPIC:
                return place_of_topic(topic_key(path))
            case NodeKind.CURSOR:
                return place_of_topic(topic_key(path.rpartition("/")[0]))
            case NodeKind.PARTITIONED_TOPIC:
                return NodePlace(*partitioned_topic_at(path))
            case NodeKind.SCHEMA:
                return NodePlace(*schema_topic_at(path))
            case NodeKind.BUNDLE:
                namespace = bundle_at(path)[0]
                return NodePlace(namespace.partition("/")[0], namespace)
            case NodeKind.NAMESPACE:
                namespace = path.removeprefix(f"{NAMESPACE_POLICIES}/")
                return NodePlace(namespace.partition("/")[0], namespace)
            case NodeKind.TENANT:
                return NodePlace(path.rpartition("/")[2])
    except InvalidName:
        pass
    return NOWHERE
