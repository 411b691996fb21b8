"""`/admin/v2/namespaces/TENANT/NAMESPACE/…`: each policy, read and changed by itself."""

from functools import partial

from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_table import (
    NOT_FOLLOWED,
    POLICIES,
    NamespacePolicy,
    checked_quota,
    plan_quota,
    plan_set,
    plan_value,
    quota_kind,
)
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import EVERYTHING, AdminRoute
from mledger.metastore.cluster.service_policies import QuotaKind

ROOT = "/admin/v2/namespaces"
ONE = f"{ROOT}/{{tenant}}/{{namespace}}"
_SETTERS = {"delayedDelivery": Access.SUPER_USER}
"""Who sets what administrators of the tenant may not, as in Pulsar."""


class PolicyResource:
    """Answers for the policies of `nodes`."""

    def __init__(self, nodes: PoliciesNodes) -> None:
        self._nodes = nodes

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served, and what is not."""
        found = [
            AdminRoute("GET", f"{ONE}/backlogQuotaMap", Access.NAMESPACE_ADMIN, self.quotas),
            AdminRoute("POST", f"{ONE}/backlogQuota", Access.NAMESPACE_ADMIN, self.set_quota),
            AdminRoute("DELETE", f"{ONE}/backlogQuota", Access.NAMESPACE_ADMIN, self.remove_quota),
        ]
        for policy in POLICIES:
            path, access = f"{ONE}/{policy.path}", _SETTERS.get(policy.path, Access.NAMESPACE_ADMIN)
            found.append(AdminRoute("GET", path, Access.NAMESPACE_ADMIN, partial(self.show, policy)))
            found.append(AdminRoute(policy.setter, path, access, partial(self.set, policy)))
            if policy.removable:
                found.append(AdminRoute("DELETE", path, access, partial(self.remove, policy)))
        for path in NOT_FOLLOWED:
            found.append(AdminRoute("*", f"{ONE}/{path}", Access.NAMESPACE_ADMIN))
            found.append(AdminRoute("*", f"{ONE}/{path}/{EVERYTHING}", Access.NAMESPACE_ADMIN))
        return found

    async def show(self, policy: NamespacePolicy, call: AdminCall) -> AdminAnswer:
        """The value of a policy; without a body if it is not set."""
        policies = await self._nodes.read(call.namespace)
        return json_answer(plan_value(policy, policies, self._nodes.cluster))

    async def set(self, policy: NamespacePolicy, call: AdminCall) -> AdminAnswer:
        """Set a policy."""
        value = policy.check(call.request.json(required=policy.required))
        await self._nodes.change(call.namespace, lambda found: plan_set(policy, found, value, self._nodes.cluster))
        return NO_CONTENT

    async def remove(self, policy: NamespacePolicy, call: AdminCall) -> AdminAnswer:
        """Leave a policy to the broker's settings."""
        await self._nodes.change(call.namespace, lambda found: plan_set(policy, found, None, self._nodes.cluster))
        return NO_CONTENT

    async def quotas(self, call: AdminCall) -> AdminAnswer:
        """The backlog quotas by kind."""
        return json_answer((await self._nodes.read(call.namespace)).get("backlog_quota_map") or {})

    async def set_quota(self, call: AdminCall) -> AdminAnswer:
        """Set a backlog quota."""
        kind = _kind(call)
        body = call.request.json()
        value = None if body is None else checked_quota(body, f"namespace[{call.namespace}]")
        await self._nodes.change(call.namespace, lambda found: plan_quota(found, kind, value))
        return NO_CONTENT

    async def remove_quota(self, call: AdminCall) -> AdminAnswer:
        """Remove a backlog quota."""
        kind = _kind(call)
        await self._nodes.change(call.namespace, lambda found: plan_quota(found, kind, None))
        return NO_CONTENT


def _kind(call: AdminCall) -> QuotaKind:
    return quota_kind(call.request.query.get("backlogQuotaType", QuotaKind.SIZE.value))
