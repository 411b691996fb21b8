"""Clusters in the metadata store, as Pulsar keeps them."""

import json

from tests.support.admin_rest import web_served
from tests.support.aio import run


def test_a_cluster_is_created_changed_and_deleted(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            path = f"clusters/{name}"
            assert await broker.refused("POST", path, {"serviceUrl": "http://a"}) == (404, "Cluster does not exist")
            await broker.done("PUT", path, {"serviceUrl": "http://a"})
            assert await broker.refused("PUT", path, {"serviceUrl": "http://a"}) == (409, "Cluster already exists")
            await broker.done("POST", path, {"serviceUrl": "http://b", "brokerServiceUrl": "pulsar://b"})
            node = await broker.cluster.store.get(f"/admin/clusters/{name}")
            assert json.loads(node.data)["brokerServiceUrl"] == "pulsar://b"
            assert (await broker.get(path))["serviceUrl"] == "http://b"
            assert {name, "standalone"} <= set(await broker.get("clusters"))
            await broker.done("PUT", f"tenants/{name}", {"adminRoles": [], "allowedClusters": [name]})
            assert await broker.refused("DELETE", path) == (412, "Cluster not empty")
            await broker.done("DELETE", f"tenants/{name}")
            await broker.done("DELETE", path)
            assert await broker.refused("DELETE", path) == (404, "Cluster does not exist")
            assert (await broker.refused("PUT", "clusters/a%2Fb", {}))[0] == 412

    run(main())


def test_the_brokers_own_cluster_needs_no_node(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            found = await broker.get("clusters/standalone")
            assert found["brokerServiceUrl"] == broker.broker.owners.roster.address.url
            assert found["serviceUrl"] == f"http://127.0.0.1:{broker.web_port}"

    run(main())
