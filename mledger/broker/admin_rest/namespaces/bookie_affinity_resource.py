"""`…/persistence/bookieAffinity`: the groups of bookies for a namespace's ledgers, in its local policies.

Topics take them when they are opened: unload those that are open.
"""

from typing import Any

from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_resource import ONE
from mledger.broker.admin_rest.refusals import bad_request, not_found
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.metastore.records.bookie_affinity import AFFINITY_POLICY, PRIMARY_FIELD, SECONDARY_FIELD

_FIELDS = (PRIMARY_FIELD, SECONDARY_FIELD)


def plan_stored(given: Any) -> dict[str, str] | None:
    """What is stored of the groups in a body; None, without a body, takes them away. AdminRefusal."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise bad_request("the bookie affinity group is no JSON object")
    named = {key: given[key] for key in _FIELDS if given.get(key) is not None}
    if not all(isinstance(names, str) for names in named.values()):
        raise bad_request(f"{PRIMARY_FIELD} and {SECONDARY_FIELD} are texts: names of groups, separated by commas")
    return named


class BookieAffinityResource:
    """Answers for the groups of bookies of namespaces."""

    def __init__(self, nodes: PoliciesNodes) -> None:
        self._nodes = nodes

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        path, access = f"{ONE}/persistence/bookieAffinity", Access.SUPER_USER
        return [
            AdminRoute("GET", path, access, self.show),
            AdminRoute("POST", path, access, self.set),
            AdminRoute("DELETE", path, access, self.remove),
        ]

    async def show(self, call: AdminCall) -> AdminAnswer:
        """The groups; no body if there are none, and 404 without local policies."""
        await self._nodes.check_exists(call.namespace)
        local = await self._nodes.local(call.namespace)
        if local is None:
            raise not_found("Namespace local-policies does not exist")
        group = local.get(AFFINITY_POLICY)
        if not isinstance(group, dict):
            return NO_CONTENT
        return json_answer({key: group[key] for key in _FIELDS if group.get(key) is not None})

    async def set(self, call: AdminCall) -> AdminAnswer:
        """Name the groups."""
        await self._nodes.change_local(call.namespace, {AFFINITY_POLICY: plan_stored(call.request.json())})
        return NO_CONTENT

    async def remove(self, call: AdminCall) -> AdminAnswer:
        """Name no groups: the client's settings hold."""
        await self._nodes.change_local(call.namespace, {AFFINITY_POLICY: None})
        return NO_CONTENT
