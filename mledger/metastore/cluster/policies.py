"""Pulsar's policies of a namespace: those of storage, retention and persistence (quorums), and those of service.

The node is JSON. `retention_policies` is {retentionTimeInMinutes, retentionSizeInMB}, -1 for no limit, or absent.
`persistence` has the quorums of ledgers, or is absent. Policies of single topics are in
`mledger.admin.policies.topic_policies`.
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mledger.metastore.cluster.service_policies import (
    NO_SERVICE_POLICIES,
    ServicePolicies,
    namespace_service_policies,
)
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import LOCAL_POLICIES, NAMESPACE_POLICIES, TopicName
from mledger.metastore.store import MetadataReader


class Retention(Struct, frozen=True):
    """How long, in minutes, and how much, in MB, of consumed data is kept: 0 none, -1 without limit."""

    minutes: int
    size_mb: int


class Persistence(Struct, frozen=True):
    """Ensemble size, write quorum, and ack quorum of ledgers."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int


class StoragePolicies(Struct, frozen=True):
    """The policies of a namespace or of a topic; None where it has none of its own.

    Those that concern a broker's service only are in `service`.
    """

    retention: Retention | None = None
    persistence: Persistence | None = None
    service: ServicePolicies = NO_SERVICE_POLICIES


NO_POLICIES = StoragePolicies()


def namespace_policies_path(topic: TopicName) -> str:
    """The node that holds the policies of the topic's namespace."""
    return f"{NAMESPACE_POLICIES}/{topic.namespace_name}"


def retention_of(found: Mapping[str, Any] | None) -> Retention | None:
    """Read retention from Pulsar's JSON or Avro; ValueError."""
    if found is None:
        return None
    minutes, size_mb = found.get("retentionTimeInMinutes", 0), found.get("retentionSizeInMB", 0)
    if type(minutes) is not int or type(size_mb) is not int or min(minutes, size_mb) < -1:
        raise ValueError("retention_policies needs minutes and a size of -1 or more")
    return Retention(minutes, size_mb)


def persistence_of(found: Mapping[str, Any] | None) -> Persistence | None:
    """Read persistence from Pulsar's JSON or Avro; also None where the quorums are not set. ValueError."""
    if found is None:
        return None
    sizes = [found.get(f"bookkeeper{name}", 0) for name in ("Ensemble", "WriteQuorum", "AckQuorum")]
    if any(type(size) is not int for size in sizes):
        raise ValueError("the quorums of persistence are not numbers")
    ensemble_size, write_quorum, ack_quorum = sizes
    if not ensemble_size >= write_quorum >= ack_quorum > 0:
        return None
    return Persistence(ensemble_size, write_quorum, ack_quorum)


def decode_namespace_policies(data: bytes, path: str, cluster: str = "") -> StoragePolicies:
    """Decode the policies at `path`, for a broker of `cluster`. RecordError."""
    try:
        found = json.loads(data)
        return StoragePolicies(
            retention_of(found.get("retention_policies")),
            persistence_of(found.get("persistence")),
            namespace_service_policies(found, cluster),
        )
    except (ValueError, AttributeError, RecursionError) as error:
        raise RecordError(f"the policies at {path} cannot be read: {error}", path) from None


async def read_namespace_policies(reader: MetadataReader, topic: TopicName, cluster: str = "") -> StoragePolicies:
    """Read the policies of the topic's namespace for a broker of `cluster`; empty where Pulsar has none for it.

    RecordError where they do not parse, or where they are kept in a configuration store other than this one.
    """
    path, local = namespace_policies_path(topic), f"{LOCAL_POLICIES}/{topic.namespace_name}"
    node, local_node = await reader.get_many([path, local])
    if node is not None:
        return decode_namespace_policies(node.data, path, cluster)
    if local_node is not None:
        raise RecordError(
            f"the namespace of {topic} exists at {local}, but has no policies at {path}: they are in a separate "
            "configuration store, or the namespace is being deleted",
            path,
        )
    return NO_POLICIES
