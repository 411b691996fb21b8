"""Every route of HTTP is authorized: what each role gets of each, without sockets, from a broker with real bookies."""

import json
from http import HTTPStatus

import pytest

from mledger.broker.admin_rest.admin_api import AdminApi
from mledger.broker.admin_rest.requests import Access, AdminRequest
from mledger.broker.process.http_answers import HttpAnswers
from mledger.broker.process.http_guard import AdminGuard
from mledger.broker.process.http_lookup import LOOKUP, HttpLookup
from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.metastore.runtime.network.http import HttpRequest
from tests.support.aio import run
from tests.support.brokers.served_broker import SECURED, served, token_of

FOR_ANYONE = {
    "GET /admin/v2/brokers/ready",
    "GET /admin/v2/brokers/version",
    "GET /admin/v2/clusters",
}
"""What Pulsar, too, tells every role."""
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
UNAUTHORIZED_FOR_ADMINISTRATION = {
    *(f"{method} /admin/v2/tenants/{{tenant}}" for method in ("GET", "PUT", "POST", "DELETE")),
    "GET /admin/v2/namespaces/{tenant}",
    *(f"{method} /admin/v2/namespaces/{{tenant}}/{{namespace}}" for method in ("PUT", "DELETE")),
    *(f"{method} /admin/v2/namespaces/{{tenant}}/{{namespace}}/properties" for method in ("GET", "PUT", "DELETE")),
    *(f"{method} /admin/v2/namespaces/{{tenant}}/{{namespace}}/property/{{key}}" for method in ("GET", "DELETE")),
    "PUT /admin/v2/namespaces/{tenant}/{namespace}/property/{key}/{value}",
    f"GET {TOPIC}/permissions",
    *(f"{method} {TOPIC}/permissions/{{role}}" for method in ("POST", "DELETE")),
    *(f"{method} {TOPIC}/maxMessageSize" for method in ("GET", "POST", "DELETE")),
    f"POST {TOPIC}/createMissedPartitions",
    *(
        f"PUT /admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}/unload"
        for domain in ("persistent", "non-persistent")
    ),
    f"POST {TOPIC}/terminate",
    f"POST {TOPIC}/terminate/partitions",
    f"POST {TOPIC}/trim",
    f"DELETE {TOPIC}/truncate",
    *(f"{method} {TOPIC}/compaction" for method in ("GET", "PUT")),
    *(f"{method} {TOPIC}/properties" for method in ("PUT", "DELETE")),
    "DELETE /admin/v2/schemas/{tenant}/{namespace}/{topic}/schema",
    "POST /admin/v2/schemas/{tenant}/{namespace}/{topic}/compatibility",
}
"""What only administrators of the tenant may do and Pulsar 4.2.4 refuses with 401; the rest of that with 403."""
NAMES = {"{tenant}": "public", "{namespace}": "default", "{topic}": "orders", "{subscription}": "sub"}


def shown(role):
    return {"authorization": f"Bearer {token_of(role)}"}


async def set_node(store, path, data):
    (node,) = await store.get_many([path])
    if node is None:
        await store.create(path, data, parents=True)
    else:
        await store.put(path, data, node.version)


def path_of(pattern):
    return "/".join(NAMES.get(each, "1" if each.startswith("{") else each) for each in pattern.split("/"))


def test_every_route_of_the_admin_api_is_authorized(broker_url):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            api = AdminApi(broker.broker, broker.cluster, AdminGuard(broker.broker.security).authorize)
            routes = [route for route in api.routes if route.action is not None]
            assert {route.name for route in routes if route.access is Access.ANYONE} == FOR_ANYONE
            for route in routes:
                request = AdminRequest(route.method, path_of(route.pattern))
                answer = await api.answer(request)
                assert answer.status == HTTPStatus.UNAUTHORIZED, route.name
                for wrong in ({"authorization": "Bearer x"}, {"authorization": "Basic \udcff"}):
                    answer = await api.answer(AdminRequest(route.method, request.path, headers=wrong))
                    assert answer.status == HTTPStatus.UNAUTHORIZED, route.name
                answer = await api.answer(AdminRequest(route.method, request.path, headers=shown("stranger")))
                assert (answer.status in REFUSED) == (route.name not in FOR_ANYONE), route.name
                if route.access not in (Access.ANYONE, Access.TENANT_ADMIN, Access.NAMESPACE_ADMIN):
                    of_namespace = route.access is Access.LOOKUP and "{topic}" not in route.pattern
                    assert (answer.status == HTTPStatus.FORBIDDEN) == of_namespace, route.name
                elif route.name not in FOR_ANYONE:
                    known = route.name in UNAUTHORIZED_FOR_ADMINISTRATION
                    assert (answer.status == HTTPStatus.UNAUTHORIZED) == known, route.name

    run(main())


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "namespaces/public/default/unload", ()),
        ("PUT", "namespaces/public/default/0x00000000_0xffffffff/unload", ()),
        ("PUT", "namespaces/public/default/0x00000000_0xffffffff/split", ()),
        ("GET", "namespaces/public/default/0x00000000_0xffffffff/topicHashPositions", ("owner",)),
        ("POST", "namespaces/public/default/clearBacklog", ("owner",)),
        ("POST", "namespaces/public/default/unsubscribe/sub", ("owner",)),
        ("POST", "namespaces/public/default/delayedDelivery", ()),
        ("DELETE", "namespaces/public/default/delayedDelivery", ()),
        ("GET", "namespaces/public/default/delayedDelivery", ("owner",)),
        ("PUT", "persistent/public/default/orders/unload", ("owner",)),
        ("PUT", "persistent/public/default/orders/properties", ("owner",)),
        ("GET", "persistent/public/default/orders/properties", ("owner", "writer", "reader")),
        ("GET", "persistent/public/default/orders/stats", ("owner", "writer", "reader")),
        ("GET", "persistent/public/default/orders/subscriptions", ("owner", "reader")),
        ("PUT", "persistent/public/default/orders/backlogSize", ("owner", "reader")),
        ("POST", "persistent/public/default/orders/subscription/sub/analyzeBacklog", ("owner", "reader")),
        ("GET", "persistent/public/default/orders/subscription/sub/replicatedSubscriptionStatus", ("owner", "reader")),
        ("POST", "persistent/public/default/orders/subscription/sub/replicatedSubscriptionStatus", ("owner", "reader")),
        ("GET", "namespaces/public/default/bundles", ("owner", "writer", "reader")),
        ("GET", "tenants/public", ("owner",)),
        ("POST", "tenants/public", ("owner",)),
        ("DELETE", "tenants/public", ("owner",)),
        ("PUT", "tenants/another", ()),
        ("POST", "namespaces/public/default/antiAffinity", ("owner",)),
        ("GET", "namespaces/standalone/antiAffinity/group", ()),
        ("GET", "persistent/public/default/orders/getMessageIdByIndex", ("owner", "reader")),
        ("GET", "persistent/public/default/orders/sub/dispatchRate", ("owner",)),
        ("POST", "persistent/public/default/orders/sub/dispatchRate", ("owner",)),
        ("DELETE", "persistent/public/default/orders/sub/dispatchRate", ("owner",)),
        ("GET", "non-persistent/public/default/orders/subscriptions", ("owner", "reader")),
        ("GET", "schemas/public/default/orders/schema", ("owner", "writer", "reader")),
        ("GET", "schemas/public/default/orders/metadata", ("owner", "writer", "reader")),
        ("POST", "schemas/public/default/orders/schema", ("owner", "writer")),
        ("POST", "schemas/public/default/orders/compatibility", ("owner",)),
        ("DELETE", "schemas/public/default/orders/schema", ("owner",)),
    ],
)
def test_a_role_may_do_what_pulsar_lets_it_do(unshared_url, method, path, allowed):
    """`owner` administers the tenant, `writer` may publish in the namespace and `reader` consume."""
    grants = {"auth_policies": {"namespace_auth": {"writer": ["produce"], "reader": ["consume"]}}}
    nodes = {"public": {"adminRoles": ["owner"]}, "public/default": grants}

    async def main():
        async with served(unshared_url, *SECURED) as broker:
            for node, content in nodes.items():
                await set_node(broker.cluster.store, f"{NAMESPACE_POLICIES}/{node}", json.dumps(content).encode())
            api = AdminApi(broker.broker, broker.cluster, AdminGuard(broker.broker.security).authorize)
            for role in ("owner", "writer", "reader"):
                answer = await api.answer(AdminRequest(method, f"/admin/v2/{path}", headers=shown(role)))
                assert (answer.status not in REFUSED) == (role in allowed), (role, answer)

    run(main())


def test_what_is_not_built_says_so_without_doing_anything(broker_url):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            api = AdminApi(broker.broker, broker.cluster, AdminGuard(broker.broker.security).authorize)
            for route in api.routes:
                if route.action is None:
                    method = "GET" if route.method == "*" else route.method
                    answer = await api.answer(AdminRequest(method, path_of(route.pattern)))
                    assert answer.status == HTTPStatus.NOT_IMPLEMENTED, route.name

    run(main())


def test_the_other_paths_are_authorized_too(broker_url):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            routes = HttpAnswers(broker.broker, broker.cluster, topics=False).routes
            below = HttpLookup(broker.broker).below
            assert set(routes) == {"/metrics", "/health", "/heartbeat"}
            assert set(below) == {LOOKUP}
            assert (await routes["/metrics"](HttpRequest({}, "/metrics"))).status == HTTPStatus.UNAUTHORIZED
            path = f"{LOOKUP}/persistent/public/default/orders"
            assert (await below[LOOKUP](HttpRequest({}, path))).status == HTTPStatus.UNAUTHORIZED
            assert (await below[LOOKUP](HttpRequest(shown("stranger"), path))).status == HTTPStatus.UNAUTHORIZED

    run(main())


@pytest.mark.parametrize("topic", ["/persistent/public/default/a%2Fb", "/persistent/public/non-persistent/orders"])
def test_the_topic_that_is_authorized_is_the_one_that_is_acted_on(broker_url, topic):
    """A slash in a name does not make it another namespace's, nor a namespace's name another domain."""
    asked = []

    async def main():
        async with served(broker_url, *SECURED) as broker:
            security = broker.broker.security
            allow = security.allow

            async def seen(principal, operation, name, subscription=""):
                asked.append(name)
                await allow(principal, operation, name, subscription)

            security.allow = seen
            api = AdminApi(broker.broker, broker.cluster, AdminGuard(security).authorize)
            answer = await api.answer(AdminRequest("GET", f"/admin/v2{topic}/stats", headers=shown("stranger")))
            assert answer.status == HTTPStatus.UNAUTHORIZED

    run(main())
    ((name),) = asked
    assert name.is_persistent
    assert name.cluster is None
    assert name.tenant == "public"


def test_a_name_with_a_slash_is_not_that_of_a_topic_in_another_namespace(broker_url):
    """Rights in public/default are none in public/default/a, an old form of name: `persistent://public/default/a/b`."""

    async def main():
        async with served(broker_url, *SECURED) as broker:
            api = AdminApi(broker.broker, broker.cluster, AdminGuard(broker.broker.security).authorize)
            path = "/admin/v2/persistent/public/default/a%2Fb/subscription/sub"
            answer = await api.answer(AdminRequest("PUT", path, headers=shown("admin")))
            assert answer.status == HTTPStatus.PRECONDITION_FAILED
            assert await broker.cluster.topics("public/default/a") == []

    run(main())
