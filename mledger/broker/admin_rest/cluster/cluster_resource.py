"""`/admin/v2/clusters`: the clusters that the metadata store knows, at `/admin/clusters`.

A cluster that only brokers of ours have served has no node: it is shown with this broker's addresses.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from mledger.broker.admin_rest.body_checks import boolean, json_object, names
from mledger.broker.admin_rest.json_node import JsonObject, change_object, read_object
from mledger.broker.admin_rest.refusals import bad_request, conflict, not_found, precondition
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
from mledger.ledgers.bundles import CLUSTERS
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.metastore.store import Delete, MetadataReader, MetadataStore
from mledger.metastore.write_verification import delete_own

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
_URLS = {
    "serviceUrl": (("http",), "Illegal service url, example: http://pulsar.example.com:8080"),
    "serviceUrlTls": (("https",), "Illegal service tls url, example: https://pulsar.example.com:8443"),
    "brokerServiceUrl": (("pulsar",), "Illegal broker service url, example: pulsar://pulsar.example.com:6650"),
    "brokerServiceUrlTls": (
        ("pulsar+ssl",),
        "Illegal broker service tls url, example: pulsar+ssl://pulsar.example.com:6651",
    ),
    "proxyServiceUrl": (
        ("pulsar", "pulsar+ssl"),
        "Illegal proxy service url, example: pulsar+ssl://ats-proxy.example.com:4443 or "
        "pulsar://ats-proxy.example.com:4080",
    ),
}
"""The schemes that these have, and Pulsar's words where one has another."""
_PROXY_PROTOCOLS = ("SNI",)
_FLAGS = (*_DEFAULTS, "migrated")
_TEXTS = (
    *_DEFAULT_STORES,
    "authenticationPlugin",
    "authenticationParameters",
    "brokerClientTlsTrustStore",
    "brokerClientTlsTrustStorePassword",
    "brokerClientTlsKeyStore",
    "brokerClientTlsKeyStorePassword",
    "brokerClientTrustCertsFilePath",
    "brokerClientCertificateFilePath",
    "brokerClientKeyFilePath",
    "brokerClientSslFactoryPluginParams",
    "listenerName",
)
_FIELDS = frozenset((*_FLAGS, *_URLS, *_TEXTS, "proxyProtocol", "peerClusterNames", "migratedClusterUrl"))


async def known_clusters(reader: MetadataReader, own: str) -> list[str]:
    """The names of the clusters, with this broker's `own`."""
    (found,) = await reader.children_many([CLUSTERS])
    return sorted({*(found or ()), own} - {GLOBAL})


def plan_cluster(body: Any) -> JsonObject:
    """What to store of a cluster with this body, without fields that Pulsar does not know.

    AdminRefusal: Java reads nothing of a node with one wrong field.
    """
    given = json_object(body, "the data of a cluster")
    for name, (schemes, why) in _URLS.items():
        if given.get(name) not in (None, "") and _scheme(given[name]) not in schemes:
            raise bad_request(why)
    if wrong := [name for name in _TEXTS if not isinstance(given.get(name), str | None)]:
        raise bad_request(f"{wrong[0]} of a cluster is not text")
    _check_others(given)
    flags = {name: boolean(f"{name} of a cluster")(given[name]) for name in _FLAGS if given.get(name) is not None}
    return _DEFAULTS | {name: value for name, value in given.items() if name in _FIELDS} | flags


def _check_others(given: JsonObject) -> None:
    """Raise AdminRefusal if a field that is neither text nor true or false is not what Java reads there."""
    if given.get("proxyProtocol") not in (None, *_PROXY_PROTOCOLS):
        raise bad_request(f"proxyProtocol of a cluster is not one of {', '.join(_PROXY_PROTOCOLS)}")
    if (peers := given.get("peerClusterNames")) is not None:
        names(peers, "peerClusterNames of a cluster")
    if not isinstance(given.get("migratedClusterUrl"), dict | None):
        raise bad_request("migratedClusterUrl of a cluster is not a JSON object")


def _scheme(url: Any) -> str:
    try:
        return urlsplit(url).scheme if isinstance(url, str) else ""
    except ValueError:
        return ""


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
            return given

        await change_object(self._store, self._path(call), change)
        return DONE

    async def update(self, call: AdminCall) -> AdminAnswer:
        """Change how a cluster is reached."""
        given = self._data(call)

        def change(found: JsonObject | None) -> JsonObject:
            if found is None:
                raise not_found("Cluster does not exist")
            return given

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
        return plan_cluster(call.request.json())
