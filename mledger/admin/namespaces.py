"""Checks that a tenant or namespace exists: Pulsar has a node for it, or topics lie below it."""

from mledger.errors import NamespaceNotFound
from mledger.metastore.errors import MetadataAccessDenied
from mledger.metastore.records.paths import MANAGED_LEDGERS, NAMESPACE_POLICIES, PARTITIONED_TOPICS
from mledger.metastore.store import MetadataReader


async def check_namespace(reader: MetadataReader, prefix: str) -> None:
    """Raise NamespaceNotFound unless `prefix`, tenant or tenant/namespace, is empty or names something."""
    name = "/".join(filter(None, prefix.split("/")))
    if not name or await reader.exists(f"{MANAGED_LEDGERS}/{name}") is not None:
        return
    for root in (NAMESPACE_POLICIES, PARTITIONED_TOPICS):
        try:
            if await reader.exists(f"{root}/{name}") is not None:
                return
        except MetadataAccessDenied:  # Pulsar's own nodes: a user may read topics without access to them
            return
    what = "namespace" if "/" in name else "tenant"
    raise NamespaceNotFound(f"there is no {what} {name}: `mledger topics list` shows the topics of every {what}")
