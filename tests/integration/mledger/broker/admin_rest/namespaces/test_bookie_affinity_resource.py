"""The bookie affinity groups of namespaces, where Pulsar keeps them."""

import json

from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace

PRIMARY = {"bookkeeperAffinityGroupPrimary": "g1,g2"}
BOTH = {**PRIMARY, "bookkeeperAffinityGroupSecondary": "g3"}


def test_a_namespace_s_groups_are_set_shown_and_removed_in_the_local_policies(broker_url, topic):
    tenant = topic.rsplit("/", 1)[1]
    path, node = f"namespaces/{tenant}/ns/persistence/bookieAffinity", f"/admin/local-policies/{tenant}/ns"

    async def main():
        async with web_served(broker_url) as broker:
            store = broker.cluster.store
            await create_namespace(store, f"{tenant}/ns")
            assert await broker.refused("GET", path) == (404, "Namespace local-policies does not exist")
            await broker.done("POST", f"namespaces/{tenant}/ns/antiAffinity", "kept")
            assert (await broker.ask("GET", path)).status == 204
            for group in (PRIMARY, BOTH):
                answer = await broker.ask("POST", path, group)
                assert (answer.status, answer.body) == (204, "")
                assert await broker.get(path) == group
            stored = json.loads((await store.get(node)).data)
            assert (stored["bookieAffinityGroup"], stored["namespaceAntiAffinityGroup"]) == (BOTH, "kept")
            await broker.done("DELETE", path)
            assert (await broker.ask("GET", path)).status == 204
            assert json.loads((await store.get(node)).data) == {**stored, "bookieAffinityGroup": None}
            for body in (b"{", [], {"bookkeeperAffinityGroupPrimary": 3}):
                assert (await broker.refused("POST", path, body))[0] == 400
            for method in ("GET", "POST", "DELETE"):
                assert (await broker.refused(method, path.replace("/ns/", "/none/"), BOTH))[0] == 404

    run(main())
