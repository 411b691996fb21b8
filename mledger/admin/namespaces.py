"""Tells whether a tenant or namespace exists: Pulsar has a node for it, or topics lie below it."""

from mledger.errors import NamespaceNotFound
from mledger.metastore.errors import MetadataAccessDenied
from mledger.metastore.records.paths import MANAGED_LEDGERS, NAMESPACE_POLICIES, PARTITIONED_TOPICS
from mledger.metastore.store import MetadataReader

DEFAULT_TENANT = "public"
DEFAULT_NAMESPACE = "public/default"
"""They always exist."""


async def has_namespace(reader: MetadataReader, name: str) -> bool:
    """Whether the namespace, or the tenant, has a node or topics. MetadataError."""
    roots = (NAMESPACE_POLICIES, MANAGED_LEDGERS, PARTITIONED_TOPICS)
    return name in (DEFAULT_TENANT, DEFAULT_NAMESPACE) or any(
        node is not None for node in await reader.get_many([f"{root}/{name}" for root in roots])
    )


async def require_tenant(reader: MetadataReader, tenant: str) -> None:
    """Return if the tenant exists. NamespaceNotFound, MetadataError."""
    if not await has_namespace(reader, tenant):
        raise NamespaceNotFound(f"Tenant {tenant} does not exist")


async def require_namespace(reader: MetadataReader, namespace: str) -> None:
    """Return if a broker may serve topics of the namespace.

    Raises:
        NamespaceNotFound: it does not exist.
        MetadataError: that cannot be read.
    """
    if not await has_namespace(reader, namespace):
        raise NamespaceNotFound(
            f"Policies not found for {namespace} namespace: create it (pulsar-admin namespaces create {namespace})"
        )


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
