"""`/admin/v2/bookies`: the bookies, and their racks as Pulsar keeps them at `/bookies`."""

from mledger.broker.admin_rest.body_checks import known_fields
from mledger.broker.admin_rest.json_node import JsonObject, change_object, read_object
from mledger.broker.admin_rest.refusals import not_found, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.racks import RACKS_PATH
from mledger.metastore.records.paths import check_bookie_id
from mledger.metastore.store import MetadataStore

_ROOT = "/admin/v2/bookies"
_NO_RACK = "Bookie rack placement configuration not found: "


def plan_rack(groups: JsonObject, bookie: str, group: str, rack: JsonObject) -> JsonObject:
    """The groups with the bookie in this one only, and none that is empty."""
    others = {name: {each: known for each, known in of.items() if each != bookie} for name, of in groups.items()}
    others[group] = others.get(group, {}) | {bookie: rack}
    return _without_empty(others)


def plan_no_rack(groups: JsonObject, bookie: str) -> JsonObject:
    """The groups without the bookie, and none that is empty. AdminRefusal if none has it."""
    if not any(bookie in of for of in groups.values()):
        raise not_found(_NO_RACK + bookie)
    return _without_empty(
        {name: {each: known for each, known in of.items() if each != bookie} for name, of in groups.items()}
    )


def _without_empty(groups: JsonObject) -> JsonObject:
    return {name: of for name, of in groups.items() if of}


class BookieResource:
    """Answers for the bookies of `store`."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        one = f"{_ROOT}/racks-info/{{bookie}}"
        return [
            AdminRoute("GET", f"{_ROOT}/all", Access.SUPER_USER, self.names),
            AdminRoute("GET", f"{_ROOT}/racks-info", Access.SUPER_USER, self.racks),
            AdminRoute("GET", one, Access.SUPER_USER, self.rack),
            AdminRoute("POST", one, Access.SUPER_USER, self.set_rack),
            AdminRoute("DELETE", one, Access.SUPER_USER, self.remove_rack),
        ]

    async def names(self, _: AdminCall) -> AdminAnswer:
        """The ids of all registered bookies."""
        return json_answer({"bookies": [{"bookieId": each.bookie_id} for each in await list_bookies(self._store)]})

    async def racks(self, _: AdminCall) -> AdminAnswer:
        """The racks of all bookies, by group."""
        return json_answer(await read_object(self._store, RACKS_PATH) or {})

    async def rack(self, call: AdminCall) -> AdminAnswer:
        """The rack of one bookie."""
        bookie = call.values["bookie"]
        groups = await read_object(self._store, RACKS_PATH) or {}
        found = next((of[bookie] for of in groups.values() if bookie in of), None)
        if found is None:
            raise not_found(_NO_RACK + bookie)
        return json_answer(found)

    async def set_rack(self, call: AdminCall) -> AdminAnswer:
        """Put a bookie into a rack."""
        bookie, group = check_bookie_id(call.values["bookie"]), call.request.query.get("group", "")
        rack = known_fields(call.request.json(), "a rack", {"rack": "", "hostname": ""})
        if not group:
            raise precondition("Bookie 'group' parameters is missing")
        if not rack["rack"].strip("/"):
            raise precondition("Bookie 'rack' parameters is missing")
        await change_object(self._store, RACKS_PATH, lambda found: plan_rack(found or {}, bookie, group, rack))
        return NO_CONTENT

    async def remove_rack(self, call: AdminCall) -> AdminAnswer:
        """Take a bookie out of its rack."""
        bookie = call.values["bookie"]
        await change_object(self._store, RACKS_PATH, lambda found: plan_no_rack(found or {}, bookie))
        return NO_CONTENT
