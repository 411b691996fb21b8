"""The nodes of namespaces' policies, `/admin/policies/TENANT/NAMESPACE`, in Pulsar's JSON.

A namespace exists if it has that node, or if topics lie in it. The first policy that is set creates the node.
`public/default` always exists.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mledger.admin.namespaces import DEFAULT_NAMESPACE, DEFAULT_TENANT, has_namespace
from mledger.broker.admin_rest.json_node import JsonObject, change_object, read_object
from mledger.broker.admin_rest.refusals import conflict, not_found
from mledger.broker.lookup.bundle_ranges import boundaries_of, decode_boundaries, plan_boundaries
from mledger.metastore.records.bookie_affinity import AFFINITY_POLICY
from mledger.metastore.records.paths import LOCAL_POLICIES, MANAGED_LEDGERS, NAMESPACE_POLICIES, PARTITIONED_TOPICS
from mledger.metastore.store import MetadataStore

MOST_BUNDLES = 10_000
"""Of a namespace."""
SHOWN: Mapping[str, Any] = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "replication_clusters": [],
    "allowed_clusters": [],
    "bundles": None,
    "backlog_quota_map": {},
    "clusterDispatchRate": {},
    "topicDispatchRate": {},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "clusterSubscribeRate": {},
    "publishMaxMessageRate": {},
    "latency_stats_sample_rate": {},
    "deleted": False,
    "encryption_required": False,
    "subscription_auth_mode": "None",
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_compatibility_strategy": "UNDEFINED",
    "is_allow_auto_update_schema": True,
    "schema_validation_enforced": False,
    "subscription_types_enabled": [],
    "properties": {},
    "migrated": False,
}
"""What Pulsar shows of policies that nobody set."""
ANTI_AFFINITY_GROUP = "namespaceAntiAffinityGroup"
LOCAL_DEFAULTS: Mapping[str, Any] = {AFFINITY_POLICY: None, ANTI_AFFINITY_GROUP: None}
"""What Java writes into local policies beside the bundles."""


def bundles_data(boundaries: Sequence[int]) -> JsonObject:
    """The bundles of a namespace as its policies have them."""
    return {"boundaries": [f"0x{each:08x}" for each in boundaries], "numBundles": len(boundaries) - 1}


def plan_new_policies(given: Mapping[str, Any], cluster: str, bundles: int) -> JsonObject:
    """The policies of a namespace that is created with what is `given`. ValueError, RecordError for bad bundles."""
    wanted = given.get("bundles") or {}
    if wanted.get("boundaries"):
        boundaries: Sequence[int] = boundaries_of(wanted, "the request")
    else:
        boundaries = plan_boundaries(wanted.get("numBundles") or bundles)
    made: JsonObject = {key: value for key, value in given.items() if value is not None}
    made["bundles"] = bundles_data(boundaries)
    made["replication_clusters"] = given.get("replication_clusters") or [cluster]
    return made


def plan_shown(policies: Mapping[str, Any], boundaries: Sequence[int], cluster: str) -> JsonObject:
    """The policies as Pulsar shows them."""
    shown = dict(SHOWN) | {key: value for key, value in policies.items() if value is not None}
    shown["auth_policies"] = {**SHOWN["auth_policies"], **(policies.get("auth_policies") or {})}
    shown["replication_clusters"] = policies.get("replication_clusters") or [cluster]
    shown["bundles"] = bundles_data(boundaries)
    return shown


def plan_without_topics(policies: JsonObject, topics: Collection[str]) -> JsonObject:
    """The policies without what is granted for these topics."""
    auth = policies.get("auth_policies")
    granted = auth.get("destination_auth") if isinstance(auth, dict) else None
    if not isinstance(auth, dict) or not isinstance(granted, dict) or granted.keys().isdisjoint(topics):
        return policies
    left = {topic: roles for topic, roles in granted.items() if topic not in topics}
    return policies | {"auth_policies": {**auth, "destination_auth": left}}


class PoliciesNodes:
    """Reads and changes policies; new namespaces have `bundles` bundles and are in `cluster`."""

    def __init__(self, store: MetadataStore, cluster: str, bundles: int) -> None:
        self._store, self.cluster, self._bundles = store, cluster, bundles

    async def tenants(self) -> list[str]:
        """All tenants, sorted."""
        listed = await self._store.children_many([NAMESPACE_POLICIES, MANAGED_LEDGERS])
        return sorted({DEFAULT_TENANT, *(name for names in listed for name in names or ())})

    async def tenant(self, name: str) -> JsonObject:
        """What is stored of a tenant, empty without a node. RecordError."""
        return await read_object(self._store, f"{NAMESPACE_POLICIES}/{name}") or {}

    async def namespaces(self, tenant: str) -> list[str]:
        """The full names of a tenant's namespaces, sorted."""
        roots = [f"{root}/{tenant}" for root in (NAMESPACE_POLICIES, MANAGED_LEDGERS, PARTITIONED_TOPICS)]
        listed = await self._store.children_many(roots)
        found = {f"{tenant}/{name}" for names in listed for name in names or ()}
        return sorted(found | ({DEFAULT_NAMESPACE} if tenant == DEFAULT_TENANT else set()))

    async def check_exists(self, namespace: str, why: str = "Namespace does not exist") -> None:
        """Raise AdminRefusal (404) if there is no such namespace."""
        if not await has_namespace(self._store, namespace):
            raise not_found(why)

    async def read(self, namespace: str) -> JsonObject:
        """The policies as they are stored, empty without a node. AdminRefusal (404)."""
        found = await read_object(self._store, policies_path(namespace))
        if found is None:
            await self.check_exists(namespace)
        return found or {}

    async def shown(self, namespace: str) -> JsonObject:
        """All policies, with Pulsar's defaults."""
        return plan_shown(await self.read(namespace), await self.boundaries(namespace), self.cluster)

    async def boundaries(self, namespace: str) -> tuple[int, ...]:
        """The boundaries of the bundles: those of its local policies, else of its policies, else the default."""
        paths = [local_policies_path(namespace), policies_path(namespace)]
        for path, node in zip(paths, await self._store.get_many(paths), strict=True):
            if node is not None and node.data:
                return decode_boundaries(node.data, path)
        return plan_boundaries(self._bundles)

    async def local(self, namespace: str) -> JsonObject | None:
        """The local policies of a namespace as they are stored, None without a node. RecordError."""
        return await read_object(self._store, local_policies_path(namespace))

    async def change_local(self, namespace: str, changed: Mapping[str, Any]) -> None:
        """Set these fields of the local policies. AdminRefusal (404, 409), RecordError, MetadataError."""
        await self.ensure(namespace)  # one with local policies only counts as one that is being deleted
        bundles = bundles_data(await self.boundaries(namespace))

        def change(found: JsonObject | None) -> JsonObject:
            return {**LOCAL_DEFAULTS, "bundles": bundles, **(found or {}), **changed}

        await change_object(self._store, local_policies_path(namespace), change)

    async def create(self, namespace: str, given: Mapping[str, Any]) -> None:
        """Write the first policies of a namespace. AdminRefusal (409) if it has some."""
        wanted = plan_new_policies(given, self.cluster, self._bundles)

        def change(found: JsonObject | None) -> JsonObject:
            if found:
                raise conflict("Namespace already exists")
            return wanted

        await change_object(self._store, policies_path(namespace), change)

    async def change(self, namespace: str, change: Callable[[JsonObject], JsonObject]) -> None:
        """Write what `change` makes of the policies. AdminRefusal (404), or what `change` raises."""
        await self.check_exists(namespace, "Namespace policies does not exist")

        def on_node(found: JsonObject | None) -> JsonObject:
            return change(found or plan_new_policies({}, self.cluster, self._bundles))

        await change_object(self._store, policies_path(namespace), on_node)

    async def ensure(self, namespace: str) -> None:
        """Write the first policies of a namespace that exists without. AdminRefusal (404)."""
        if await read_object(self._store, policies_path(namespace)) is None:
            await self.change(namespace, lambda policies: policies)

    async def remove_grants(self, namespace: str, topics: Collection[str]) -> None:
        """Take away what is granted for topics that are deleted: new ones of their names may be for other roles.

        AdminRefusal (409), MetadataError.
        """

        def without(found: JsonObject | None) -> JsonObject:
            if found is None:
                raise not_found("Namespace does not exist")
            return plan_without_topics(found, topics)

        found = await read_object(self._store, policies_path(namespace)) or {}
        if plan_without_topics(found, topics) is not found:
            await change_object(self._store, policies_path(namespace), without)


def local_policies_path(namespace: str) -> str:
    """The node of a namespace's local policies."""
    return f"{LOCAL_POLICIES}/{namespace}"


def policies_path(namespace: str) -> str:
    """The node of a namespace's policies."""
    return f"{NAMESPACE_POLICIES}/{namespace}"
