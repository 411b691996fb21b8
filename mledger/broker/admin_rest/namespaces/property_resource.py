"""`…/properties`, `…/property/KEY`: what clients note about a namespace, in its policies."""

from collections.abc import Callable

from mledger.broker.admin_rest.body_checks import texts
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.namespaces.policy_resource import ONE
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute

_FIELD = "properties"


def plan_properties(policies: JsonObject, added: dict[str, str], removed: str | None = None) -> JsonObject:
    """The policies with these properties beside the others, and without the one called `removed`."""
    found = {key: value for key, value in _properties(policies).items() if key != removed}
    return policies | {_FIELD: found | added}


class PropertyResource:
    """Answers for the properties of namespaces."""

    def __init__(self, nodes: PoliciesNodes) -> None:
        self._nodes = nodes

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        admin = Access.TENANT_ADMIN
        return [
            AdminRoute("GET", f"{ONE}/properties", admin, self.show_all),
            AdminRoute("PUT", f"{ONE}/properties", admin, self.set_all),
            AdminRoute("DELETE", f"{ONE}/properties", admin, self.remove_all),
            AdminRoute("GET", f"{ONE}/property/{{key}}", admin, self.show),
            AdminRoute("PUT", f"{ONE}/property/{{key}}/{{value}}", admin, self.set),
            AdminRoute("DELETE", f"{ONE}/property/{{key}}", admin, self.remove),
        ]

    async def show_all(self, call: AdminCall) -> AdminAnswer:
        """All properties."""
        return json_answer(_properties(await self._nodes.read(call.namespace)))

    async def set_all(self, call: AdminCall) -> AdminAnswer:
        """Set properties, beside those that the namespace has."""
        return await self._add(call, texts(call.request.json(), "the properties"))

    async def remove_all(self, call: AdminCall) -> AdminAnswer:
        """Remove all properties."""
        return await self._change(call, lambda found: found | {_FIELD: {}})

    async def show(self, call: AdminCall) -> AdminAnswer:
        """The value of a property; without a body if there is none."""
        return _as_it_is(_properties(await self._nodes.read(call.namespace)).get(call.values["key"]))

    async def set(self, call: AdminCall) -> AdminAnswer:
        """Set a property."""
        return await self._add(call, {call.values["key"]: call.values["value"]})

    async def remove(self, call: AdminCall) -> AdminAnswer:
        """Remove a property; the answer is its value."""
        key, values = call.values["key"], list[str | None]()

        def without(found: JsonObject) -> JsonObject:
            values.append(_properties(found).get(key))
            return plan_properties(found, {}, key)

        await self._change(call, without)
        return _as_it_is(values[-1])

    async def _add(self, call: AdminCall, wanted: dict[str, str]) -> AdminAnswer:
        return await self._change(call, lambda found: plan_properties(found, wanted))

    async def _change(self, call: AdminCall, change: Callable[[JsonObject], JsonObject]) -> AdminAnswer:
        await self._nodes.check_exists(call.namespace)
        await self._nodes.change(call.namespace, change)
        return NO_CONTENT


def _as_it_is(value: str | None) -> AdminAnswer:
    """A text without the quotes of JSON, as Pulsar answers it."""
    return AdminAnswer(body=(value or "").encode())


def _properties(policies: JsonObject) -> dict[str, str]:
    found = policies.get(_FIELD)
    return found if isinstance(found, dict) else {}
