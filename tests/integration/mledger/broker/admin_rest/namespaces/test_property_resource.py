"""The properties of a namespace, one by one and together, where Pulsar keeps them."""

import json

from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace


def test_properties_are_set_shown_and_removed(broker_url, topic):
    namespace = f"{topic.rsplit('/', 1)[1]}/ns"
    path = f"namespaces/{namespace}"

    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, namespace)
            assert await broker.get(f"{path}/properties") == {}
            await broker.done("PUT", f"{path}/property/team/billing%2Feu")
            await broker.done("PUT", f"{path}/properties", {"cost": "7", "x": "y"})
            node = await broker.cluster.store.get(f"/admin/policies/{namespace}")
            found = {"team": "billing/eu", "cost": "7", "x": "y"}
            assert json.loads(node.data)["properties"] == found == await broker.get(f"{path}/properties")
            for method, key, value in (("GET", "team", "billing/eu"), ("DELETE", "x", "y"), ("GET", "x", "")):
                answer = await broker.ask(method, f"{path}/property/{key}")
                assert (answer.status, answer.body) == (200, value)
            assert await broker.get(f"{path}/properties") == {"team": "billing/eu", "cost": "7"}
            await broker.done("DELETE", f"{path}/properties")
            assert await broker.get(f"{path}/properties") == {}
            assert (await broker.refused("PUT", f"{path}/properties", {"a": [1]}))[0] == 400
            assert await broker.refused("GET", f"namespaces/{namespace}x/properties") == (
                404,
                "Namespace does not exist",
            )

    run(main())
