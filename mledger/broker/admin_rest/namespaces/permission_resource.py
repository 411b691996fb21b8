"""Permissions of namespaces, and the clusters they are replicated to: parts of their policies."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from http import HTTPStatus
from typing import Any

from mledger.admin.system_topics import is_system_topic
from mledger.broker.admin_rest.body_checks import names as checked_names
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_resource import ONE
from mledger.broker.admin_rest.refusals import AdminRefusal, bad_request, not_found, precondition
from mledger.broker.admin_rest.requests import ADMIN, DONE, NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.metastore.records.paths import PERSISTENT, TopicName

TopicExists = Callable[[TopicName], Awaitable[bool]]
"""Whether there is a topic, partitioned or not."""
_TOPIC = f"{ADMIN}/{PERSISTENT}/{{tenant}}/{{namespace}}/{{topic}}"
ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")


def checked_actions(value: Any) -> list[str]:
    """What a role may do. AdminRefusal for an action that Pulsar does not have."""
    found = checked_names(value, "the actions")
    if unknown := [each for each in found if each not in ACTIONS]:
        raise bad_request(f"there is no action {', '.join(unknown)}: use {', '.join(ACTIONS)}")
    return found


def plan_grant(policies: JsonObject, where: Sequence[str], role: str, value: Any) -> JsonObject:
    """The policies with `value` for `role` at this place in their `auth_policies`; None takes it away."""
    auth = dict(policies.get("auth_policies") or {})
    part = auth
    for name in where:
        part[name] = dict(part.get(name) or {})
        part = part[name]
    part.pop(role, None)
    if value is not None:
        part[role] = value
    return policies | {"auth_policies": auth}


def plan_topic_permissions(auth: JsonObject, topic: str) -> JsonObject:
    """What each role may do with the topic: what the namespace allows, and what the topic does."""
    granted = {role: list(actions) for role, actions in (auth.get("namespace_auth") or {}).items()}
    for role, actions in ((auth.get("destination_auth") or {}).get(topic) or {}).items():
        granted[role] = list(dict.fromkeys([*granted.get(role, []), *actions]))
    return granted


def plan_replication(wanted: Any, clusters: Collection[str]) -> list[str]:
    """The clusters that a namespace is replicated to. AdminRefusal unless they are among `clusters`."""
    found = checked_names([] if wanted is None else wanted, "the clusters")
    if not found:
        raise precondition("ClusterIds should not be null or empty")
    if unknown := [each for each in found if each not in clusters]:
        raise AdminRefusal(HTTPStatus.FORBIDDEN, f"Invalid cluster id: {unknown[0]}")
    return found


class PermissionResource:
    """Answers for the permissions in `nodes`; those of topics need one that `exists` knows, unless `in_advance`."""

    def __init__(self, nodes: PoliciesNodes, exists: TopicExists, *, in_advance: bool = False) -> None:
        self._nodes, self._exists, self._in_advance = nodes, exists, in_advance

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        admin, of_topic = Access.NAMESPACE_ADMIN, Access.TENANT_ADMIN
        return [
            AdminRoute("GET", f"{ONE}/permissions", admin, self.granted),
            AdminRoute("POST", f"{ONE}/permissions/{{role}}", admin, self.grant),
            AdminRoute("DELETE", f"{ONE}/permissions/{{role}}", admin, self.revoke),
            AdminRoute("GET", f"{ONE}/permissions/subscription", admin, self.list_of_subscriptions),
            AdminRoute("POST", f"{ONE}/permissions/subscription/{{subscription}}", admin, self.grant_subscription),
            AdminRoute("DELETE", f"{ONE}/permissions/{{subscription}}/{{role}}", admin, self.revoke_subscription),
            AdminRoute("GET", f"{_TOPIC}/permissions", of_topic, self.granted_on_topic),
            AdminRoute("POST", f"{_TOPIC}/permissions/{{role}}", of_topic, self.grant_topic),
            AdminRoute("DELETE", f"{_TOPIC}/permissions/{{role}}", of_topic, self.revoke_topic),
            AdminRoute("GET", f"{ONE}/replication", admin, self.replication),
            AdminRoute("POST", f"{ONE}/replication", admin, self.set_replication),
        ]

    async def granted(self, call: AdminCall) -> AdminAnswer:
        """What each role may do."""
        return json_answer((await self._auth(call)).get("namespace_auth") or {})

    async def grant(self, call: AdminCall) -> AdminAnswer:
        """Say what a role may do."""
        actions, role = checked_actions(call.request.json()), call.values["role"]
        await self._nodes.change(call.namespace, lambda found: plan_grant(found, ["namespace_auth"], role, actions))
        return NO_CONTENT

    async def revoke(self, call: AdminCall) -> AdminAnswer:
        """Take everything away from a role."""
        role = call.values["role"]
        await self._nodes.change(call.namespace, lambda found: plan_grant(found, ["namespace_auth"], role, None))
        return NO_CONTENT

    async def list_of_subscriptions(self, call: AdminCall) -> AdminAnswer:
        """The roles that may use each subscription."""
        return json_answer((await self._auth(call)).get("subscription_auth_roles") or {})

    async def grant_subscription(self, call: AdminCall) -> AdminAnswer:
        """Say which roles may use a subscription."""
        roles, subscription = checked_names(call.request.json(), "the roles"), call.values["subscription"]
        where = ["subscription_auth_roles"]
        await self._nodes.change(call.namespace, lambda found: plan_grant(found, where, subscription, roles))
        return NO_CONTENT

    async def revoke_subscription(self, call: AdminCall) -> AdminAnswer:
        """Take a subscription away from a role."""
        role, subscription = call.values["role"], call.values["subscription"]
        where = ["subscription_auth_roles"]

        def change(found: JsonObject) -> JsonObject:
            auth = found.get("auth_policies") or {}
            roles = (auth.get("subscription_auth_roles") or {}).get(subscription) or []
            return plan_grant(found, where, subscription, [each for each in roles if each != role])

        await self._nodes.change(call.namespace, change)
        return NO_CONTENT

    async def granted_on_topic(self, call: AdminCall) -> AdminAnswer:
        """What each role may do with a topic, by its namespace or by itself."""
        await self._check_topic(call)
        auth = await self._auth(call)
        return json_answer(plan_topic_permissions(auth, str(call.topic)))

    async def grant_topic(self, call: AdminCall) -> AdminAnswer:
        """Say what a role may do with a topic."""
        await self._check_topic(call)
        actions, role = checked_actions(call.request.json()), call.values["role"]
        where = ["destination_auth", str(call.topic)]
        await self._nodes.change(call.namespace, lambda found: plan_grant(found, where, role, actions))
        return NO_CONTENT

    async def revoke_topic(self, call: AdminCall) -> AdminAnswer:
        """Take from a role what it may do with a topic, apart from what its namespace allows."""
        await self._check_topic(call)
        role, where = call.values["role"], ["destination_auth", str(call.topic)]
        await self._nodes.change(call.namespace, lambda found: plan_grant(found, where, role, None))
        return NO_CONTENT

    async def replication(self, call: AdminCall) -> AdminAnswer:
        """The clusters of a namespace."""
        policies = await self._nodes.read(call.namespace)
        return json_answer(policies.get("replication_clusters") or [self._nodes.cluster])

    async def set_replication(self, call: AdminCall) -> AdminAnswer:
        """Set the clusters of a namespace: this broker's only, since it does not replicate."""
        clusters = plan_replication(call.request.json(), [self._nodes.cluster])
        await self._nodes.change(call.namespace, lambda found: found | {"replication_clusters": clusters})
        return DONE

    async def _check_topic(self, call: AdminCall) -> None:
        """Raise AdminRefusal (404) if there is no such topic; one of brokers may come yet."""
        topic = call.topic
        if not self._in_advance and not is_system_topic(topic) and not await self._exists(topic):
            raise not_found(f"Topic {topic} not found")

    async def _auth(self, call: AdminCall) -> JsonObject:
        found = (await self._nodes.read(call.namespace)).get("auth_policies")
        return found if isinstance(found, dict) else {}
