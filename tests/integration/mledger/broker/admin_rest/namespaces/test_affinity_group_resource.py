"""The anti-affinity groups of namespaces, where Pulsar keeps them."""

import json

from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace


def test_a_group_is_set_shown_and_removed_in_the_local_policies(broker_url, topic):
    tenant = topic.rsplit("/", 1)[1]
    path, node = f"namespaces/{tenant}/ns/antiAffinity", f"/admin/local-policies/{tenant}/ns"

    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, f"{tenant}/ns")
            before = await broker.get(f"namespaces/{tenant}/ns/bundles")
            assert (await broker.ask("GET", path)).status == 204
            await broker.done("DELETE", path)
            assert await broker.cluster.store.exists(node) is None
            for body in (b"first", "group"):  # as it is, and as JSON
                await broker.done("POST", path, body)
            answer = await broker.ask("GET", path)
            assert (answer.status, answer.body) == (200, "group")
            assert json.loads((await broker.cluster.store.get(node)).data) == {
                "bookieAffinityGroup": None,
                "namespaceAntiAffinityGroup": "group",
                "bundles": before,
            }
            await broker.done("DELETE", path)
            assert (await broker.ask("GET", path)).status == 204
            assert await broker.get(f"namespaces/{tenant}/ns/bundles") == before
            await broker.done("DELETE", f"namespaces/{tenant}/ns")

    run(main())


def test_a_group_leaves_the_bundles_of_a_namespace_that_was_split(broker_url, topic):
    namespace = f"{topic.rsplit('/', 1)[1]}/ns"

    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, namespace)
            (first, end, *_) = (await broker.get(f"namespaces/{namespace}/bundles"))["boundaries"]
            await broker.done("PUT", f"namespaces/{namespace}/{first}_{end}/split")
            split = await broker.get(f"namespaces/{namespace}/bundles")
            await broker.done("POST", f"namespaces/{namespace}/antiAffinity", "g")
            assert await broker.get(f"namespaces/{namespace}/bundles") == split

    run(main())


def test_the_namespaces_of_a_group_are_those_of_one_tenant(broker_url, topic):
    tenant = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            for name, group in (("a", "G"), ("b", "g"), ("c", "other"), ("d", None)):
                await create_namespace(broker.cluster.store, f"{tenant}/{name}")
                if group:
                    await broker.done("POST", f"namespaces/{tenant}/{name}/antiAffinity", group)
            path = "namespaces/standalone/antiAffinity"
            assert await broker.get(f"{path}/g?tenant={tenant}") == [f"{tenant}/a", f"{tenant}/b"]
            assert await broker.get(f"{path}/none?tenant={tenant}") == []
            assert await broker.refused("GET", f"{path}/g") == (400, "Tenant should not be null")
            assert (await broker.refused("GET", f"namespaces/elsewhere/antiAffinity/g?tenant={tenant}"))[0] == 412

    run(main())


def test_what_is_no_group_is_refused(broker_url, topic):
    namespace = f"{topic.rsplit('/', 1)[1]}/ns"

    async def main():
        async with web_served(broker_url) as broker:
            await create_namespace(broker.cluster.store, namespace)
            for body, status in ((b"", 412), ("", 412), (b" ", 412), (b'"x', 400), (b"\xff", 400)):
                assert (await broker.refused("POST", f"namespaces/{namespace}/antiAffinity", body))[0] == status
            for method in ("GET", "POST", "DELETE"):
                assert (await broker.refused(method, f"namespaces/{namespace}x/antiAffinity", "g"))[0] == 404

    run(main())
