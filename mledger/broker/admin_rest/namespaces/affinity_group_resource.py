"""`…/antiAffinity`: the anti-affinity group of a namespace, in its local policies.

Pulsar's load managers keep the namespaces of one group on different brokers. Ours move no bundles: they only keep the
group for them.
"""

import json

from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.policies_node import ANTI_AFFINITY_GROUP, PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_resource import ONE, ROOT
from mledger.broker.admin_rest.refusals import bad_request, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute


def plan_group(body: bytes) -> str:
    """The group that a body names: a text as it is, or JSON's. AdminRefusal."""
    try:
        text = body.decode().strip()
    except UnicodeDecodeError:
        raise bad_request("the anti-affinity group is not UTF-8") from None
    if text.startswith('"'):
        try:
            text = json.loads(text)
        except ValueError as error:
            raise bad_request(f"the body is not JSON: {error}") from None
    if not text:
        raise precondition("Anti-affinity group can't be empty")
    return text


class AffinityGroupResource:
    """Answers for the groups of namespaces."""

    def __init__(self, nodes: PoliciesNodes) -> None:
        self._nodes = nodes

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        path, admin = f"{ONE}/antiAffinity", Access.NAMESPACE_ADMIN
        return [
            AdminRoute("GET", path, admin, self.show),
            AdminRoute("POST", path, admin, self.set),
            AdminRoute("DELETE", path, admin, self.remove),
            AdminRoute("GET", f"{ROOT}/{{cluster}}/antiAffinity/{{group}}", Access.SUPER_USER, self.members),
        ]

    async def show(self, call: AdminCall) -> AdminAnswer:
        """The group, without the quotes of JSON as Pulsar answers it; no body if there is none."""
        await self._nodes.check_exists(call.namespace)
        group = _group_of(await self._nodes.local(call.namespace))
        return NO_CONTENT if group is None else AdminAnswer(body=group.encode())

    async def set(self, call: AdminCall) -> AdminAnswer:
        """Put the namespace into a group."""
        await self._nodes.change_local(call.namespace, {ANTI_AFFINITY_GROUP: plan_group(call.request.body)})
        return NO_CONTENT

    async def remove(self, call: AdminCall) -> AdminAnswer:
        """Take the namespace out of its group."""
        await self._nodes.check_exists(call.namespace)
        if await self._nodes.local(call.namespace) is not None:
            await self._nodes.change_local(call.namespace, {ANTI_AFFINITY_GROUP: None})
        return NO_CONTENT

    async def members(self, call: AdminCall) -> AdminAnswer:
        """The namespaces of a tenant in a group, whatever the case of its letters."""
        if call.values["cluster"] != self._nodes.cluster:
            raise precondition(f"Cluster {call.values['cluster']} does not exist.")
        tenant = call.request.query.get("tenant", "")
        if not tenant:
            raise bad_request("Tenant should not be null")
        wanted, found = call.values["group"].lower(), []
        for namespace in await self._nodes.namespaces(tenant):
            group = _group_of(await self._nodes.local(namespace))
            if group is not None and group.lower() == wanted:
                found.append(namespace)
        return json_answer(found)


def _group_of(policies: JsonObject | None) -> str | None:
    group = (policies or {}).get(ANTI_AFFINITY_GROUP)
    return group if isinstance(group, str) and group else None
