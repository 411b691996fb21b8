"""Clusters in the metadata store, as Pulsar keeps them."""

import json

import pytest

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


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"serviceUrl": "a"}, "Illegal service url, example: http://pulsar.example.com:8080"),
        ({"serviceUrl": 5}, "Illegal service url, example: http://pulsar.example.com:8080"),
        ({"serviceUrlTls": "http://a"}, "Illegal service tls url, example: https://pulsar.example.com:8443"),
        ({"brokerServiceUrl": "http://["}, "Illegal broker service url, example: pulsar://pulsar.example.com:6650"),
        ({"migrated": "perhaps"}, "migrated of a cluster is not true or false"),
        ({"listenerName": {}}, "listenerName of a cluster is not text"),
        ({"proxyProtocol": "HTTP"}, "proxyProtocol of a cluster is not one of SNI"),
        ({"migratedClusterUrl": "a"}, "migratedClusterUrl of a cluster is not a JSON object"),
    ],
)
def test_a_cluster_that_java_could_not_read_is_refused(broker_url, topic, wrong, why):
    path = f"clusters/{topic.rsplit('/', 1)[1]}"

    async def main():
        async with web_served(broker_url) as broker:
            assert await broker.refused("PUT", path, wrong) == (400, why)
            await broker.done("PUT", path, {"serviceUrl": "", "brokerServiceUrlTls": "pulsar+ssl://a:1"})
            assert await broker.refused("POST", path, wrong) == (400, why)
            await broker.done("DELETE", path)

    run(main())


def test_the_brokers_own_cluster_needs_no_node(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            found = await broker.get("clusters/standalone")
            assert found["brokerServiceUrl"] == broker.broker.owners.roster.address.url
            assert found["serviceUrl"] == f"http://127.0.0.1:{broker.web_port}"

    run(main())
