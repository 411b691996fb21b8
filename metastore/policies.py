"""What of Pulsar's policies of a namespace matters to storage: retention. Policies of single topics are not here.

The node is JSON; `retention_policies` is {retentionTimeInMinutes, retentionSizeInMB}, -1 for no limit, or absent.
"""

import json
from dataclasses import dataclass

from metastore.errors import RecordError
from metastore.paths import NAMESPACE_POLICIES, TopicName
from metastore.store import MetadataReader


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, in minutes, and how much, in MB, of what is consumed is kept: 0 none, -1 all."""

    minutes: int
    size_mb: int


def namespace_policies_path(topic: TopicName) -> str:
    """The node of the policies of the topic's namespace."""
    parts = (topic.tenant, topic.cluster, topic.namespace)
    return "/".join([NAMESPACE_POLICIES, *(part for part in parts if part is not None)])


def decode_retention(data: bytes, path: str) -> Retention | None:
    """The namespace's retention in its policies, None where it has none of its own. RecordError."""
    try:
        found = json.loads(data).get("retention_policies")
        if found is None:
            return None
        minutes, size_mb = found.get("retentionTimeInMinutes", 0), found.get("retentionSizeInMB", 0)
        if type(minutes) is not int or type(size_mb) is not int or min(minutes, size_mb) < -1:
            raise ValueError("retention_policies has no minutes and no size from -1 on")
    except (ValueError, AttributeError, RecursionError) as error:
        raise RecordError(f"the policies at {path} cannot be read: {error}", path) from None
    return Retention(minutes, size_mb)


async def namespace_retention(reader: MetadataReader, topic: TopicName) -> Retention | None:
    """The retention of the topic's namespace, None where Pulsar keeps none of its own for it. RecordError."""
    path = namespace_policies_path(topic)
    (node,) = await reader.get_many([path])
    return None if node is None or not node.data else decode_retention(node.data, path)
