"""Which tenant, namespace and topic a node belongs to, by its path alone; pure."""

from typing import NamedTuple

from mledger.metastore.errors import InvalidName
from mledger.snapshot.tables.node_kinds import (
    NodeKind,
    TopicKey,
    bundle_at,
    key_at,
    namespace_at,
    partitioned_topic_at,
    schema_topic_at,
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
    if (key := key_at(kind, path)) is not None:
        return place_of_topic(key)
    try:
        match kind:
            case NodeKind.PARTITIONED_TOPIC:
                return NodePlace(*partitioned_topic_at(path))
            case NodeKind.SCHEMA:
                return NodePlace(*schema_topic_at(path))
            case NodeKind.BUNDLE:
                namespace = bundle_at(path)[0]
                return NodePlace(namespace.partition("/")[0], namespace)
            case NodeKind.NAMESPACE:
                return NodePlace(*namespace_at(path))
            case NodeKind.TENANT:
                return NodePlace(path.rpartition("/")[2])
    except InvalidName:
        pass
    return NOWHERE
