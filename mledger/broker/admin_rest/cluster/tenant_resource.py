"""`/admin/v2/tenants`: tenants, at `/admin/policies/TENANT`.

A tenant whose topics exist counts as one without a node, too: clients of our brokers need none.
"""

from collections.abc import Collection
from typing import Any

from mledger.admin.namespaces import DEFAULT_TENANT
from mledger.broker.admin_rest.body_checks import json_object, names
from mledger.broker.admin_rest.cluster.cluster_resource import known_clusters
from mledger.broker.admin_rest.json_node import JsonObject, change_object, read_object
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.refusals import conflict, not_allowed, not_found, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, check_entity, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.metastore.errors import NodeNotEmpty, NodeNotFound
from mledger.metastore.records.paths import MANAGED_LEDGERS, NAMESPACE_POLICIES
from mledger.metastore.store import Delete, MetadataStore
from mledger.metastore.write_verification import delete_own

_ROOT = "/admin/v2/tenants"


def plan_tenant(body: Any, clusters: Collection[str]) -> JsonObject:
    """What to store of a tenant with this body, where these clusters exist. AdminRefusal."""
    if body is None:
        raise precondition("TenantInfo is null")
    given = json_object(body, "a tenant")
    allowed = names(given.get("allowedClusters") or [], "allowedClusters")
    if not allowed or not all(each.strip() for each in allowed):
        raise precondition("Clusters cannot be empty or blank")
    if not set(allowed) <= set(clusters):
        raise precondition("Clusters do not exist")
    roles = names(given.get("adminRoles") or [], "adminRoles")
    if any(not role.strip() or role != role.strip() for role in roles):
        raise precondition("AdminRoles contains whitespace in the beginning or end.")
    return {"adminRoles": roles, "allowedClusters": allowed}


class TenantResource:
    """Answers for the tenants of `store`."""

    def __init__(self, store: MetadataStore, own_cluster: str, policies: PoliciesNodes) -> None:
        self._store, self._own, self._policies = store, own_cluster, policies

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        one = f"{_ROOT}/{{tenant}}"
        return [
            AdminRoute("GET", _ROOT, Access.SUPER_USER, self.names),
            AdminRoute("GET", one, Access.TENANT_ADMIN, self.show),
            AdminRoute("PUT", one, Access.TENANT_ADMIN, self.create),
            AdminRoute("POST", one, Access.TENANT_ADMIN, self.update),
            AdminRoute("DELETE", one, Access.TENANT_ADMIN, self.delete),
        ]

    async def names(self, _: AdminCall) -> AdminAnswer:
        """The names."""
        return json_answer(await self._policies.tenants())

    async def show(self, call: AdminCall) -> AdminAnswer:
        """Who administers a tenant, and its clusters."""
        tenant = call.values["tenant"]
        if tenant not in await self._policies.tenants():
            raise not_found("Tenant does not exist")
        found = await read_object(self._store, _path(tenant))
        return json_answer({"adminRoles": [], "allowedClusters": [self._own], **(found or {})})

    async def create(self, call: AdminCall) -> AdminAnswer:
        """Add a tenant."""
        path = _path(check_entity("Tenant", call.values["tenant"]))
        wanted = plan_tenant(call.request.json(), await known_clusters(self._store, self._own))

        def change(found: JsonObject | None) -> JsonObject:
            if found:
                raise conflict("Tenant already exist")
            return wanted

        await change_object(self._store, path, change)
        return NO_CONTENT

    async def update(self, call: AdminCall) -> AdminAnswer:
        """Replace who administers a tenant, and its clusters."""
        tenant = check_entity("Tenant", call.values["tenant"])
        wanted = plan_tenant(call.request.json(), await known_clusters(self._store, self._own))
        if tenant not in await self._policies.tenants():
            raise not_found(f"Tenant {tenant} not found")
        await change_object(self._store, _path(tenant), lambda found: (found or {}) | wanted)
        return NO_CONTENT

    async def delete(self, call: AdminCall) -> AdminAnswer:
        """Remove a tenant without namespaces."""
        tenant = check_entity("Tenant", call.values["tenant"])
        if call.request.flag("force"):
            raise not_allowed("Broker doesn't allow forced deletion of tenants")
        if tenant not in await self._policies.tenants():
            raise not_found("Tenant doesn't exist")
        if await self._policies.namespaces(tenant) or tenant == DEFAULT_TENANT:
            raise conflict("The tenant still has active namespaces")
        paths = [_path(tenant), f"{MANAGED_LEDGERS}/{tenant}"]
        nodes = await self._store.get_many(paths)
        doomed = [Delete(path, node.version) for path, node in zip(paths, nodes, strict=True) if node is not None]
        try:
            await delete_own(self._store, doomed)
        except NodeNotFound:
            raise not_found("Tenant doesn't exist") from None
        except NodeNotEmpty:
            raise conflict("The tenant still has active namespaces") from None
        return NO_CONTENT


def _path(tenant: str) -> str:
    return f"{NAMESPACE_POLICIES}/{tenant}"
