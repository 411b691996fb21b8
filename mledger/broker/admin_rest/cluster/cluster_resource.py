"""`/admin/v2/clusters`: the clusters that the metadata store knows, at `/admin/clusters`.

A cluster that only brokers of ours have served has no node: it is shown with this broker's addresses.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mledger.broker.admin_rest.body_checks import json_object
from mledger.broker.admin_rest.json_node import JsonObject, change_object, read_object
from mledger.broker.admin_rest.refusals import conflict, not_found, precondition
from mledger.broker.admin_rest.requests import (
    DONE,
    NO_CONTENT,
    Access,
    AdminAnswer,
    AdminCall,
    check_entity,
    json_answer,
)
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.lookup.broker_records import BrokerAddress
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.metastore.store import Delete, MetadataReader, MetadataStore
from mledger.metastore.write_verification import delete_own

CLUSTERS = "/admin/clusters"
GLOBAL = "global"
_ROOT = "/admin/v2/clusters"
_DEFAULTS = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
}


_DEFAULT_STORES = {
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""What Java's clients add to a cluster that they create."""


async def known_clusters(reader: MetadataReader, own: str) -> list[str]:
    """The names of the clusters, with this broker's `own`."""
    (found,) = await reader.children_many([CLUSTERS])
    return sorted({*(found or ()), own} - {GLOBAL})


def plan_in_use(tenants: Mapping[str, Mapping[str, Any]], namespaces: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether a tenant or a namespace names the cluster."""
    by_tenant = any(name in (each.get("allowedClusters") or ()) for each in tenants.values())
    return by_tenant or any(name in (each.get("replication_clusters") or ()) for each in namespaces)


class ClusterResource:
    """Answers for the clusters of `store`; this broker's is `own`, at `address`."""

    def __init__(self, store: MetadataStore, own: str, address: BrokerAddress) -> None:
        self._store, self._own, self._address = store, own, address

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        one = f"{_ROOT}/{{cluster}}"
        return [
            AdminRoute("GET", _ROOT, Access.ANYONE, self.names),
            AdminRoute("GET", one, Access.SUPER_USER, self.show),
            AdminRoute("PUT", one, Access.SUPER_USER, self.create),
            AdminRoute("POST", one, Access.SUPER_USER, self.update),
            AdminRoute("DELETE", one, Access.SUPER_USER, self.delete),
        ]

    async def names(self, _: AdminCall) -> AdminAnswer:
        """The names."""
        return json_answer(await known_clusters(self._store, self._own))

    async def show(self, call: AdminCall) -> AdminAnswer:
        """How a cluster is reached."""
        name = call.values["cluster"]
        found = await read_object(self._store, f"{CLUSTERS}/{check_entity('Cluster', name)}")
        if found is None:
            if name != self._own:
                raise not_found("Cluster does not exist")
            address = self._address
            urls = {
                "serviceUrl": address.web_url,
                "serviceUrlTls": address.web_url_tls,
                "brokerServiceUrl": address.url,
                "brokerServiceUrlTls": address.url_tls,
            }
            found = {key: url for key, url in urls.items() if url} | _DEFAULTS | _DEFAULT_STORES
        return json_answer({key: value for key, value in found.items() if value is not None})

    async def create(self, call: AdminCall) -> AdminAnswer:
        """Add a cluster."""
        given = self._data(call)

        def change(found: JsonObject | None) -> JsonObject:
            if found is not None:
                raise conflict("Cluster already exists")
            return _DEFAULTS | given

        await change_object(self._store, self._path(call), change)
        return DONE

    async def update(self, call: AdminCall) -> AdminAnswer:
        """Change how a cluster is reached."""
        given = self._data(call)

        def change(found: JsonObject | None) -> JsonObject:
            if found is None:
                raise not_found("Cluster does not exist")
            return _DEFAULTS | given

        await change_object(self._store, self._path(call), change)
        return DONE

    async def delete(self, call: AdminCall) -> AdminAnswer:
        """Remove a cluster that no tenant and no namespace names."""
        path, name = self._path(call), call.values["cluster"]
        if await self._store.exists(path) is None:
            raise not_found("Cluster does not exist")
        tenants, namespaces = await self._policies()
        if plan_in_use(tenants, namespaces, name):
            raise precondition("Cluster not empty")
        try:
            await delete_own(self._store, [Delete(path)])
        except NodeNotFound:
            raise not_found("Cluster does not exist") from None
        return NO_CONTENT

    async def _policies(self) -> tuple[dict[str, JsonObject], list[JsonObject]]:
        (tenants,) = await self._store.children_many([NAMESPACE_POLICIES])
        roots = [f"{NAMESPACE_POLICIES}/{tenant}" for tenant in tenants or ()]
        listed = await self._store.children_many(roots)
        below = [f"{root}/{name}" for root, names in zip(roots, listed, strict=True) for name in names or ()]
        of_tenants = {root: await read_object(self._store, root) or {} for root in roots}
        return of_tenants, [await read_object(self._store, path) or {} for path in below]

    def _path(self, call: AdminCall) -> str:
        return f"{CLUSTERS}/{check_entity('Cluster', call.values['cluster'])}"

    def _data(self, call: AdminCall) -> JsonObject:
        self._path(call)
        return json_object(call.request.json(), "the data of a cluster")
