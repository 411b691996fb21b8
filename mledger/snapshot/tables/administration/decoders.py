"""Decodes the nodes of administration and brokers into the records of their tables; pure. RecordError, InvalidName."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mledger.metastore.cluster.policies import StoragePolicies, decode_namespace_policies
from mledger.metastore.errors import RecordError
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.records.protobuf import parse_binary
from mledger.snapshot.tables.node_kinds import NodeKind, bundle_at, namespace_at, schema_topic_at
from mledger.snapshot.tables.records import (
    AdministrationNode,
    BrokerNode,
    BundleNode,
    FoundNode,
    NamespaceNode,
    SchemaNode,
    TenantNode,
)

HIDDEN = "(hidden)"
_CREDENTIAL = re.compile(r"credential|secret|password|token|accesskey|privatekey", re.IGNORECASE)
_BROKER_TYPES = {
    "pulsarServiceUrl": str,
    "pulsarServiceUrlTls": str,
    "webServiceUrl": str,
    "webServiceUrlTls": str,
    "brokerVersionString": str,
    "brokerVersion": str,
    "loadManagerClassName": str,
    "startTimestamp": int,
    "lastUpdate": int,
    "numTopics": int,
    "numBundles": int,
    "numProducers": int,
    "numConsumers": int,
}
_BUNDLE_TYPES = {"nativeUrl": str, "nativeUrlTls": str, "httpUrl": str, "httpUrlTls": str, "disabled": bool}


def decode_tenant(node: FoundNode) -> TenantNode:
    """A tenant; one that has only namespaces has no record of its own, and no roles."""
    found = json_object(node, "tenant") if node.data else {}
    roles, clusters = (_names(found, key, node) for key in ("adminRoles", "allowedClusters"))
    return TenantNode(node.path.rpartition("/")[2], node, roles, clusters)


def decode_namespace(node: FoundNode) -> NamespaceNode | None:
    """A namespace with its policies; None for the folder of a cluster, of the old form tenant/cluster/namespace."""
    if not node.data:
        return None
    tenant, namespace = namespace_at(node.path)
    content = json_object(node, "policies")
    policies: StoragePolicies = decode_namespace_policies(node.data, node.path)
    bundles = content.get("bundles")
    count = bundles.get("numBundles") if isinstance(bundles, dict) else None
    clusters = _names(content, "replication_clusters", node)
    return NamespaceNode(
        tenant,
        namespace,
        node,
        policies,
        count if type(count) is int else None,
        clusters,
        content.get("deleted") is True,
        _number(content, "offload_threshold"),
        json.dumps(_without_credentials(content), separators=(",", ":"), ensure_ascii=False),
    )


def _without_credentials(value: Any) -> Any:
    """The value with the texts hidden that are credentials by their names, as those of offload policies."""
    if isinstance(value, list):
        return [_without_credentials(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: HIDDEN if isinstance(each, str) and _CREDENTIAL.search(key) else _without_credentials(each)
        for key, each in value.items()
    }


def decode_schema(node: FoundNode) -> SchemaNode:
    """Where the versions of a topic's schema are stored."""
    locator = parse_binary(SchemaLocator, node.data, "schema's locator", node.path)
    return SchemaNode(*schema_topic_at(node.path), node, locator)


def decode_broker(node: FoundNode) -> BrokerNode:
    """A broker that runs, by what it said last."""
    return BrokerNode(node.path.rpartition("/")[2], node, _typed(json_object(node, "broker's node"), _BROKER_TYPES))


def decode_bundle(node: FoundNode) -> BundleNode:
    """A bundle that a broker serves."""
    namespace, bundle = bundle_at(node.path)
    content = _typed(json_object(node, "bundle's owner"), _BUNDLE_TYPES)
    return BundleNode(namespace.partition("/")[0], namespace, bundle, node, content)


DECODERS: Mapping[NodeKind, Callable[[FoundNode], AdministrationNode | None]] = {
    NodeKind.TENANT: decode_tenant,
    NodeKind.NAMESPACE: decode_namespace,
    NodeKind.SCHEMA: decode_schema,
    NodeKind.BROKER: decode_broker,
    NodeKind.BUNDLE: decode_bundle,
}


def json_object(node: FoundNode, what: str) -> dict[str, Any]:
    """The object that the node's data is in JSON. RecordError."""
    try:
        found = json.loads(node.data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the {what} at {node.path} cannot be read: {error}", node.path) from None
    if not isinstance(found, dict):
        raise RecordError(f"the {what} at {node.path} cannot be read: it is not a JSON object", node.path)
    return found


def _names(found: Mapping[str, Any], key: str, node: FoundNode) -> tuple[str, ...]:
    """A set of names, sorted. RecordError."""
    names = found.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RecordError(f"{key} at {node.path} is not a list of names", node.path)
    return tuple(sorted(names))


def _number(found: Mapping[str, Any], key: str) -> int | None:
    value = found.get(key)
    return value if type(value) is int else None


def _typed(found: Mapping[str, Any], types: Mapping[str, type]) -> dict[str, Any]:
    """The values that are of their type; programs of other versions may write others."""
    return {key: value for key, kind in types.items() if type(value := found.get(key)) is kind and value != ""}
