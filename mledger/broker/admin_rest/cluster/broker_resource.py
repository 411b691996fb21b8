"""`/admin/v2/brokers`: the live brokers, this one's health, version and settings."""

from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from mledger.broker.admin_rest.json_node import change_object, read_object
from mledger.broker.admin_rest.refusals import not_built, not_found, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.dynamic_settings import CONFIGURATION, DYNAMIC_KEYS, plan_dynamic
from mledger.broker.lookup.broker_records import BrokerReport
from mledger.broker.settings import KEYS, MILLISECONDS, BrokerSettings
from mledger.known_settings import is_known
from mledger.metastore.errors import InvalidSetting
from mledger.metastore.records.paths import LEDGERS

ROOT = "/admin/v2/brokers"
LEADER = "/loadbalance/leader"
_TEXT = "text/plain"


def broker_name(report: BrokerReport) -> str:
    """How lists call a broker: the address of its HTTP, else its node's name."""
    return urlsplit(report.address.web_url or report.address.web_url_tls).netloc or report.address.name


def plan_runtime(settings: BrokerSettings) -> Mapping[str, str]:
    """The broker's settings by Pulsar's keys, as text."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {each.key: _text(each.key, each.factor, values[each.field]) for each in KEYS}


def _text(key: str, factor: int, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, int | float) and key.endswith(MILLISECONDS):
        return str(round(value * 1000))
    if isinstance(value, int | float) and factor > 1:
        return str(round(value / factor))
    return f"{value:g}" if isinstance(value, float) else str(value)


class BrokerResource:
    """Answers for the brokers that `broker` knows, and for itself."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker, self._owners = broker, broker.owners

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served, and what is not."""
        root = Access.SUPER_USER
        return [
            AdminRoute("GET", ROOT, root, self.names),
            AdminRoute("GET", f"{ROOT}/{{cluster}}", root, self.names),
            AdminRoute("GET", f"{ROOT}/leaderBroker", root, self.leader),
            AdminRoute("GET", f"{ROOT}/health", root, self.health),
            AdminRoute("GET", f"{ROOT}/ready", Access.ANYONE, self.health),
            AdminRoute("GET", f"{ROOT}/version", Access.ANYONE, self.version),
            AdminRoute("GET", f"{ROOT}/configuration", root, self.configuration_names),
            AdminRoute("GET", f"{ROOT}/configuration/values", root, self.configuration_values),
            AdminRoute("GET", f"{ROOT}/configuration/runtime", root, self.runtime),
            AdminRoute("GET", f"{ROOT}/internal-configuration", root, self.internal),
            AdminRoute("GET", f"{ROOT}/{{cluster}}/{{broker}}/ownedNamespaces", root, self.owned),
            AdminRoute("POST", f"{ROOT}/configuration/{{name}}/{{value}}", root, self.set_configuration),
            AdminRoute("DELETE", f"{ROOT}/configuration/{{name}}", root, self.remove_configuration),
            AdminRoute("GET", f"{ROOT}/backlog-quota-check", root),
            AdminRoute("POST", f"{ROOT}/shutdown", root),
        ]

    async def names(self, _: AdminCall) -> AdminAnswer:
        """The live brokers. The metadata store is that of one cluster, whatever name is asked for."""
        return json_answer(sorted(map(broker_name, await self._owners.roster.reports())))

    async def leader(self, _: AdminCall) -> AdminAnswer:
        """The leader that Java's brokers elected; brokers of ours need none."""
        found = await read_object(self._owners.store, LEADER)
        if not found:
            raise not_found("Couldn't find leader broker")
        return json_answer({key: found[key] for key in ("serviceUrl", "brokerId") if key in found})

    async def health(self, _: AdminCall) -> AdminAnswer:
        """200: clients are served."""
        return AdminAnswer(body=b"ok", content_type=_TEXT)

    async def version(self, _: AdminCall) -> AdminAnswer:
        """The version of this program."""
        return AdminAnswer(body=version("mledger").encode(), content_type=_TEXT)

    async def configuration_names(self, _: AdminCall) -> AdminAnswer:
        """The settings that can be changed while the broker runs."""
        return json_answer(list(DYNAMIC_KEYS))

    async def configuration_values(self, _: AdminCall) -> AdminAnswer:
        """The settings that were changed while brokers ran, those that this broker does not change too."""
        return json_answer(await read_object(self._owners.store, CONFIGURATION) or {})

    async def set_configuration(self, call: AdminCall) -> AdminAnswer:
        """Change a setting of all brokers; this one has it when it answers, or at its next look."""
        name, text = call.values["name"], call.values["value"]
        self._check_dynamic(call, name, "update")
        try:
            plan_dynamic(self._broker.settings, {name: text})
        except InvalidSetting as error:
            raise precondition(f"Invalid dynamic-config value: {error}") from None
        await change_object(self._owners.store, CONFIGURATION, lambda found: {**(found or {}), name: text})
        await self._broker.dynamic.read_if_possible()
        return NO_CONTENT

    async def remove_configuration(self, call: AdminCall) -> AdminAnswer:
        """Leave a setting to what each broker was started with."""
        name = call.values["name"]
        self._check_dynamic(call, name, "delete")
        await change_object(
            self._owners.store,
            CONFIGURATION,
            lambda found: {key: text for key, text in (found or {}).items() if key != name},
        )
        await self._broker.dynamic.read_if_possible()
        return NO_CONTENT

    @staticmethod
    def _check_dynamic(call: AdminCall, name: str, what: str) -> None:
        """Raise AdminRefusal for a setting that this broker cannot change: 501 if it is one of Pulsar's."""
        if name in DYNAMIC_KEYS:
            return
        if is_known(name):
            raise not_built(f"{call.request.method} {call.request.path}")
        raise precondition(f"Can't {what} non-dynamic configuration")

    async def runtime(self, _: AdminCall) -> AdminAnswer:
        """The settings in force."""
        return json_answer(plan_runtime(self._broker.settings))

    async def internal(self, _: AdminCall) -> AdminAnswer:
        """Where the metadata is."""
        url = self._owners.store.url
        return json_answer(
            {
                "zookeeperServers": url,
                "configurationStoreServers": url,
                "metadataStoreUrl": url,
                "configurationMetadataStoreUrl": url,
                "ledgersRootPath": LEDGERS,
            }
        )

    async def owned(self, call: AdminCall) -> AdminAnswer:
        """The bundles that a broker serves."""
        wanted = call.values["broker"]
        for report in await self._owners.roster.reports():
            if wanted in (broker_name(report), report.address.name):
                status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
                return json_answer(dict.fromkeys(sorted(report.bundles), status))
        raise not_found(f"Broker id '{wanted}' not found in available brokers.")
