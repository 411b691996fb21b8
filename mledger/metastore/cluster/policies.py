"""What of Pulsar's policies of a namespace matters to storage: retention, and how many bookies hold what.

The node is JSON; `retention_policies` is {retentionTimeInMinutes, retentionSizeInMB}, -1 for no limit, or absent;
`persistence` has the quorums of ledgers, or is absent. Policies of single topics are in
`mledger.admin.policies.topic_policies`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import LOCAL_POLICIES, NAMESPACE_POLICIES, TopicName
from mledger.metastore.store import MetadataReader


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, in minutes, and how much, in MB, of what is consumed is kept: 0 none, -1 all."""

    minutes: int
    size_mb: int


@dataclass(frozen=True, slots=True)
class Persistence:
    """Bookies that a ledger is spread over, copies of each entry, and copies before it is acknowledged."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int


@dataclass(frozen=True, slots=True)
class StoragePolicies:
    """The policies of a namespace, or of a topic; None where it has none of its own."""

    retention: Retention | None = None
    persistence: Persistence | None = None


NO_POLICIES = StoragePolicies()


def namespace_policies_path(topic: TopicName) -> str:
    """The node of the policies of the topic's namespace."""
    return f"{NAMESPACE_POLICIES}/{topic.namespace_name}"


def retention_of(found: Mapping[str, Any] | None) -> Retention | None:
    """Retention as Pulsar's JSON and Avro have it; ValueError."""
    if found is None:
        return None
    minutes, size_mb = found.get("retentionTimeInMinutes", 0), found.get("retentionSizeInMB", 0)
    if type(minutes) is not int or type(size_mb) is not int or min(minutes, size_mb) < -1:
        raise ValueError("retention_policies has no minutes and no size from -1 on")
    return Retention(minutes, size_mb)


def persistence_of(found: Mapping[str, Any] | None) -> Persistence | None:
    """Persistence as Pulsar's JSON and Avro have it; None too where it leaves the quorums open. ValueError."""
    if found is None:
        return None
    sizes = [found.get(f"bookkeeper{name}", 0) for name in ("Ensemble", "WriteQuorum", "AckQuorum")]
    if any(type(size) is not int for size in sizes):
        raise ValueError("persistence has quorums that are no numbers")
    ensemble_size, write_quorum, ack_quorum = sizes
    if not ensemble_size >= write_quorum >= ack_quorum > 0:
        return None
    return Persistence(ensemble_size, write_quorum, ack_quorum)


def decode_namespace_policies(data: bytes, path: str) -> StoragePolicies:
    """What the policies at `path` say of storage. RecordError."""
    try:
        found = json.loads(data)
        return StoragePolicies(retention_of(found.get("retention_policies")), persistence_of(found.get("persistence")))
    except (ValueError, AttributeError, RecursionError) as error:
        raise RecordError(f"the policies at {path} cannot be read: {error}", path) from None


async def read_namespace_policies(reader: MetadataReader, topic: TopicName) -> StoragePolicies:
    """The policies of the topic's namespace, without any where Pulsar has none for it.

    Raises RecordError where they do not parse, or are kept in a configuration store that is not this one.
    """
    path, local = namespace_policies_path(topic), f"{LOCAL_POLICIES}/{topic.namespace_name}"
    node, local_node = await reader.get_many([path, local])
    if node is not None and node.data:
        return decode_namespace_policies(node.data, path)
    if local_node is not None:
        raise RecordError(
            f"the namespace of {topic} is known at {local}, but has no policies at {path}: they are in a configuration "
            "store that this metadata store is not, or the namespace is being deleted",
            path,
        )
    return NO_POLICIES
