"""Tenants in the metadata store, as Pulsar keeps them."""

import json

from tests.support.admin_rest import web_served
from tests.support.aio import run

BODY = {"adminRoles": ["a"], "allowedClusters": ["standalone"]}


def test_a_tenant_is_created_changed_and_deleted(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            path = f"tenants/{name}"
            assert await broker.refused("POST", path, BODY) == (404, f"Tenant {name} not found")
            await broker.done("PUT", path, BODY)
            assert await broker.refused("PUT", path, BODY) == (409, "Tenant already exist")
            await broker.done("POST", path, BODY | {"adminRoles": ["b"]})
            node = await broker.cluster.store.get(f"/admin/policies/{name}")
            assert json.loads(node.data) == BODY | {"adminRoles": ["b"]} == await broker.get(path)
            assert name in await broker.get("tenants")
            await broker.done("PUT", f"namespaces/{name}/ns")
            assert await broker.refused("DELETE", path) == (409, "The tenant still has active namespaces")
            await broker.done("DELETE", f"namespaces/{name}/ns")
            await broker.done("DELETE", path)
            assert await broker.refused("GET", path) == (404, "Tenant does not exist")
            assert await broker.refused("DELETE", path) == (404, "Tenant doesn't exist")

    run(main())


def test_a_tenant_is_not_deleted_by_force(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"tenants/{name}", BODY)
            refused = await broker.refused("DELETE", f"tenants/{name}?force=true")
            assert refused == (405, "Broker doesn't allow forced deletion of tenants")
            assert name in await broker.get("tenants")

    run(main())


def test_a_tenant_that_only_has_topics_is_one(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            await broker.cluster.open_topic(f"persistent://{name}/ns/t", create=True)
            assert await broker.get(f"tenants/{name}") == {"adminRoles": [], "allowedClusters": ["standalone"]}
            assert await broker.get(f"namespaces/{name}") == [f"{name}/ns"]
            assert (await broker.refused("DELETE", f"tenants/{name}"))[0] == 409

    run(main())
