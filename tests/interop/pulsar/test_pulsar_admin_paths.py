"""Every path of Pulsar's admin REST API is served by our broker, or refused with 501 and its name."""

import re
import subprocess
from collections.abc import Iterable
from http import HTTPStatus
from itertools import chain

import pytest

from mledger.broker.admin_rest.admin_api import AdminApi
from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import AdminRequest
from mledger.broker.admin_rest.route_table import RouteTable
from tests.support.aio import HANG_S, run
from tests.support.brokers.served_broker import served

pytestmark = pytest.mark.interop

PACKAGE = "org.apache.pulsar.broker.admin"
RESOURCES = {
    "v2.Bookies": "bookies",
    "v2.BrokerStats": "broker-stats",
    "v2.Brokers": "brokers",
    "v2.Clusters": "clusters",
    "v2.Functions": "functions",
    "v2.Namespaces": "namespaces",
    "v2.NonPersistentTopics": "non-persistent",
    "v2.PersistentTopics": "persistent",
    "v2.ResourceGroups": "resourcegroups",
    "v2.ResourceQuotas": "resource-quotas",
    "v2.SchemasResource": "schemas",
    "v2.Tenants": "tenants",
    "v2.Worker": "worker",
    "v2.WorkerStats": "worker-stats",
}
"""Classes of the broker whose methods answer requests, and the paths that these are below."""
BASES = {
    "v2.BrokerStats": ["impl.BrokerStatsBase"],
    "v2.Brokers": ["impl.BrokersBase"],
    "v2.Clusters": ["impl.ClustersBase"],
    "v2.NonPersistentTopics": ["v2.PersistentTopics"],
    "v2.ResourceQuotas": ["impl.ResourceQuotasBase"],
    "v2.Tenants": ["impl.TenantsBase"],
}
"""The classes that have inherited methods."""
CLASS = re.compile(r"^Classfile ", re.MULTILINE)
MEMBER = re.compile(r"^  \S.*;$", re.MULTILINE)
METHOD = re.compile(r"ws\.rs\.(GET|PUT|POST|DELETE)$", re.MULTILINE)
PATH = re.compile(r"ws\.rs\.Path\(\s*value=\"([^\"]*)\"", re.MULTILINE)
PARAMETER = re.compile(r"\{\s*(\w+)[^}]*\}")


def paths_of(class_path: str, names: Iterable[str]) -> dict[str, set[tuple[str, str]]]:
    """The methods and paths in the annotations of each class, below the path of the class."""
    classes = [f"{PACKAGE}.{name}" for name in names]
    command = ["javap", "-v", "-p", "-cp", class_path, *classes]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    found: dict[str, set[tuple[str, str]]] = {}
    for name, text in zip(names, CLASS.split(shown)[1:], strict=True):
        found[name] = set()
        for member in MEMBER.split(text):
            if method := METHOD.search(member):
                path = PATH.search(member)
                found[name].add((method[1], path[1].strip("/") if path else ""))
    return found


@pytest.fixture(scope="module")
def of_pulsar(broker_class_path) -> list[AdminRequest]:
    """A request for each path."""
    paths = paths_of(broker_class_path, dict.fromkeys((*RESOURCES, *chain.from_iterable(BASES.values()))))
    found = set()
    for name, below in RESOURCES.items():
        for each in (name, *BASES.get(name, ())):
            found |= {(method, f"/admin/v2/{below}/{path}".rstrip("/")) for method, path in paths[each]}
    return [AdminRequest(method, PARAMETER.sub(r"\1", path)) for method, path in sorted(found)]


def test_every_path_is_served_or_refused_by_name(of_pulsar, our_bookies):
    async def routes():
        async with served(our_bookies.tree.url) as broker:
            return AdminApi(broker.broker, broker.cluster).routes

    table, unknown = RouteTable(run(routes())), {}
    for request in of_pulsar:
        try:
            table.call(request)
        except AdminRefusal as refusal:
            if refusal.status is not HTTPStatus.NOT_IMPLEMENTED:
                unknown[f"{request.method} {request.path}"] = str(refusal)
    assert not unknown
    assert len(of_pulsar) > 500
