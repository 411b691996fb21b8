"""`/admin/v2/namespaces`: namespaces, their bundles, their topics."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from mledger.admin.partitions import list_partitioned
from mledger.admin.system_topics import is_system_topic
from mledger.admin.topic_names import children_of, list_topics
from mledger.broker.admin_rest.body_checks import json_object, number_of
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.given_policies import plan_checked_policies
from mledger.broker.admin_rest.namespaces.permission_resource import plan_replication
from mledger.broker.admin_rest.namespaces.policies_node import MOST_BUNDLES, PoliciesNodes, bundles_data, policies_path
from mledger.broker.admin_rest.namespaces.policy_resource import ONE, ROOT
from mledger.broker.admin_rest.refusals import (
    AdminRefusal,
    bad_request,
    conflict,
    not_allowed,
    not_built,
    not_found,
    precondition,
)
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, check_entity, json_answer
from mledger.broker.admin_rest.route_table import EVERYTHING, AdminRoute
from mledger.broker.lookup.bundle_ranges import bundle_names
from mledger.broker.lookup.topic_list import TopicsMode
from mledger.broker.lookup.unload_request import request_bundle_unload
from mledger.ledgers.bundles import NAMESPACES
from mledger.metastore.errors import BadVersion, NodeNotEmpty, NodeNotFound, RecordError
from mledger.metastore.records.paths import (
    LOCAL_POLICIES,
    MANAGED_LEDGERS,
    NON_PERSISTENT,
    PARTITIONED_TOPICS,
    PERSISTENT,
    SEGMENT,
    TopicName,
)
from mledger.metastore.store import Delete, MetadataStore
from mledger.metastore.write_verification import delete_own

_NOT_BUILT = ("bundles/split", "allowedClusters", "scanOffloadedLedgers")
_OF_NAMESPACES = ("bundles", "replication_clusters")
TopicsOf = Callable[[str, TopicsMode], Awaitable[list[str]]]
"""The topics of a namespace."""
DeleteTopics = Callable[[AdminCall, Sequence[TopicName], Sequence[TopicName]], Awaitable[None]]
"""Deletes topics, wherever they are served: partitioned ones, and others."""


def plan_given_policies(body: object, cluster: str, allowed: Sequence[str]) -> JsonObject:
    """The policies that a namespace is created with, where its tenant may use the clusters `allowed`. AdminRefusal."""
    given = json_object({} if body is None else body, "the policies of a namespace")
    bundles = json_object(given.get("bundles") or {}, "bundles")
    if "numBundles" in bundles:
        number = number_of(bundles["numBundles"], "numBundles", low=0)
        if number > MOST_BUNDLES:
            raise precondition(
                f"Invalid number of bundles. Number of numBundles has to be in the range of (0, {MOST_BUNDLES}]"
            )
    clusters = given.get("replication_clusters") or [cluster]
    if unknown := [each for each in clusters if each not in allowed]:
        raise AdminRefusal(
            HTTPStatus.FORBIDDEN, f"Cluster {unknown} is not in the list of allowed clusters of the tenant"
        )
    checked = plan_checked_policies({name: value for name, value in given.items() if name not in _OF_NAMESPACES})
    parts = {name: given[name] for name in _OF_NAMESPACES if name in given}
    return checked | parts | {"replication_clusters": plan_replication(clusters, [cluster])}


class NamespaceResource:
    """Answers for namespaces; `delete_topics` is for what is left in one that is deleted."""

    def __init__(
        self, store: MetadataStore, nodes: PoliciesNodes, topics_of: TopicsOf, delete_topics: DeleteTopics
    ) -> None:
        self._store, self._nodes = store, nodes
        self._topics_of, self._delete_topics = topics_of, delete_topics

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served, and what is not."""
        admin = Access.TENANT_ADMIN
        found = [
            AdminRoute("GET", f"{ROOT}/{{tenant}}", admin, self.names),
            AdminRoute("GET", ONE, Access.NAMESPACE_ADMIN, self.show),
            AdminRoute("PUT", ONE, admin, self.create),
            AdminRoute("DELETE", ONE, admin, self.delete),
            AdminRoute("GET", f"{ONE}/topics", Access.LOOKUP, self.topics),
            AdminRoute("GET", f"{ONE}/bundles", Access.LOOKUP, self.bundles),
            AdminRoute("PUT", f"{ONE}/unload", Access.SUPER_USER, self.unload),
            AdminRoute("PUT", f"{ONE}/{{bundle}}/unload", Access.SUPER_USER, self.unload_bundle),
            AdminRoute("DELETE", f"{ONE}/{{bundle}}", admin),
        ]
        for path in _NOT_BUILT:
            found += [AdminRoute("*", f"{ONE}/{path}", admin), AdminRoute("*", f"{ONE}/{path}/{EVERYTHING}", admin)]
        return found

    async def names(self, call: AdminCall) -> AdminAnswer:
        """The namespaces of a tenant."""
        tenant = call.values["tenant"]
        if tenant not in await self._nodes.tenants():
            raise not_found("Tenant not found")
        return json_answer(await self._nodes.namespaces(tenant))

    async def show(self, call: AdminCall) -> AdminAnswer:
        """All policies."""
        return json_answer(await self._nodes.shown(call.namespace))

    async def create(self, call: AdminCall) -> AdminAnswer:
        """Add a namespace."""
        tenant = call.values["tenant"]
        check_entity("Namespace", call.values["namespace"])
        if tenant not in await self._nodes.tenants():
            raise not_found("Tenant does not exist")
        allowed = (await self._nodes.tenant(tenant)).get("allowedClusters") or [self._nodes.cluster]
        given = plan_given_policies(call.request.json(), self._nodes.cluster, allowed)
        try:
            await self._nodes.create(call.namespace, given)
        except (ValueError, TypeError, RecordError) as error:
            raise bad_request(f"the bundles are not valid: {error}") from None
        return NO_CONTENT

    async def topics(self, call: AdminCall) -> AdminAnswer:
        """The topics, partitions one by one: `mode` is PERSISTENT, NON_PERSISTENT or ALL."""
        mode = TopicsMode.__members__.get(call.request.query.get("mode", ""), TopicsMode.PERSISTENT)
        await self._nodes.check_exists(call.namespace)
        found = await self._topics_of(call.namespace, mode)
        if call.request.flag("includeSystemTopic") and mode is not TopicsMode.NON_PERSISTENT:
            system = filter(is_system_topic, await list_topics(self._store, call.namespace))
            found = sorted([*found, *map(str, system)])
        return json_answer(found)

    async def bundles(self, call: AdminCall) -> AdminAnswer:
        """The boundaries of the bundles."""
        await self._nodes.check_exists(call.namespace)
        return json_answer(bundles_data(await self._nodes.boundaries(call.namespace)))

    async def unload(self, call: AdminCall) -> AdminAnswer:
        """Have every bundle unloaded by the broker that serves it."""
        await self._nodes.check_exists(call.namespace, "Namespace not found")
        await self._unload(call.namespace)
        return NO_CONTENT

    async def unload_bundle(self, call: AdminCall) -> AdminAnswer:
        """Have one bundle unloaded; who gets it next is decided as for any bundle that nobody serves."""
        if call.request.query.get("destinationBroker"):
            raise not_built("destinationBroker: leave it out, and the broker with the fewest bundles gets the bundle")
        await self._nodes.check_exists(call.namespace)
        boundaries, bundle = await self._nodes.boundaries(call.namespace), call.values["bundle"]
        if bundle not in bundle_names(boundaries):
            raise precondition(f"{call.namespace} has no bundle {bundle}: GET {ROOT}/{call.namespace}/bundles")
        await request_bundle_unload(self._store, f"{NAMESPACES}/{call.namespace}/{bundle}")
        return NO_CONTENT

    async def delete(self, call: AdminCall) -> AdminAnswer:
        """Remove an empty namespace, with its system topics."""
        namespace = call.namespace
        if call.request.flag("force"):
            raise not_allowed("Broker doesn't allow forced deletion of namespaces")
        await self._nodes.check_exists(namespace, f"Namespace {namespace} does not exist.")
        topics = await list_topics(self._store, namespace)
        partitioned = [topic for topic, _ in await list_partitioned(self._store, namespace, [])]
        unstored = await list_partitioned(self._store, namespace, [], NON_PERSISTENT)
        in_use = await self._topics_of(namespace, TopicsMode.NON_PERSISTENT)
        if unstored or in_use or not all(map(is_system_topic, [*topics, *partitioned])):
            raise conflict("Cannot delete non empty namespace")
        await self._delete_topics(call, partitioned, [each for each in topics if each.partitioned not in partitioned])
        await self._unload(namespace)
        await self._delete_nodes(namespace)
        return NO_CONTENT

    async def _unload(self, namespace: str) -> None:
        folder = f"{NAMESPACES}/{namespace}"
        (bundles,) = await self._store.children_many([folder])
        await asyncio.gather(*(request_bundle_unload(self._store, f"{folder}/{each}") for each in bundles or ()))

    async def _delete_nodes(self, namespace: str) -> None:
        paths = [f"{LOCAL_POLICIES}/{namespace}", policies_path(namespace)]
        segments = f"{MANAGED_LEDGERS}/{namespace}/{SEGMENT}"
        paths += [*await children_of(self._store, [segments]), segments]  # empty folders of topics that are gone
        for root in (MANAGED_LEDGERS, PARTITIONED_TOPICS):
            paths += [f"{root}/{namespace}/{domain}" for domain in (PERSISTENT, NON_PERSISTENT)]
            paths.append(f"{root}/{namespace}")
        nodes = await self._store.get_many(paths)
        doomed = [Delete(path, node.version) for path, node in zip(paths, nodes, strict=True) if node is not None]
        try:
            await delete_own(self._store, doomed)
        except NodeNotEmpty:
            raise conflict("Cannot delete non empty namespace") from None
        except (BadVersion, NodeNotFound):
            raise conflict(f"{namespace} was changed while it was being deleted: try again") from None
