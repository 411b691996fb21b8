"""Authorization comes before every action, and errors are answers."""

import json

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.requests import Access
from mledger.metastore.store import ANY_VERSION
from tests.support.admin_rest import web_served
from tests.support.aio import run


def test_who_may_not_is_refused_before_anything_happens(broker_url, topic):
    asked = []

    async def authorize(request, operation):
        asked.append((operation.name, operation.access, operation.tenant, request.headers.get("authorization")))
        if request.headers.get("authorization") != "Bearer right":
            raise AdminRefusal(401, "who are you?")

    async def main():
        name = topic.rsplit("/", 1)[1]
        async with web_served(broker_url, authorize=authorize) as broker:
            path, body = f"tenants/{name}", {"adminRoles": [], "allowedClusters": ["standalone"]}
            assert await broker.refused("PUT", path, body) == (401, "who are you?")
            assert (await broker.ask("PUT", path, body, Authorization="Bearer right")).status == 204
            assert name in (await broker.ask("GET", "tenants", Authorization="Bearer right")).json
        assert asked[0] == ("PUT /admin/v2/tenants/{tenant}", Access.TENANT_ADMIN, name, None)

    run(main())


def test_what_pulsar_has_and_the_broker_has_not_answers_501_by_name(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            for path in (
                "functions/a/b",
                "namespaces/a/b/allowedTopicPropertyKeysForMetrics",
                "namespaces/a/b/offloadPolicies",
                "persistent/a/b/c/offload",
                "resource-quotas",
                "resourcegroups",
            ):
                status, reason = await broker.refused("GET", path)
                assert (status, reason.startswith("this broker does not serve GET /admin/v2/")) == (501, True)
            assert (await broker.refused("GET", "nothing"))[0] == 404

    run(main())


@pytest.mark.parametrize(
    ("method", "what"), [("GET", "persistent/{}/permissions"), ("DELETE", "namespaces/{}/backlogQuota")]
)
def test_a_node_with_json_of_another_shape_is_an_error_with_pulsars_json(broker_url, own_topic, method, what):
    wrong = {"auth_policies": {"namespace_auth": 5}, "backlog_quota_map": 5}
    name = own_topic.split("://")[1]

    async def main():
        async with web_served(broker_url) as broker:
            namespace = name.rpartition("/")[0]
            path = f"/admin/policies/{namespace}"
            await broker.done("PUT", f"persistent/{name}")
            await broker.cluster.store.put(path, json.dumps(wrong).encode(), ANY_VERSION)
            subject = name if what.startswith("persistent") else namespace
            status, reason = await broker.refused(method, what.format(subject))
            assert (status, reason.startswith("unexpected ")) == (500, True)

    run(main())
