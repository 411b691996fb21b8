"""Permissions are in the policies of a namespace."""

import json

from tests.support.admin_rest import web_served
from tests.support.aio import run


def test_permissions_are_granted_and_revoked(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"namespaces/public/{name}")
            base = f"namespaces/public/{name}"
            await broker.done("POST", f"{base}/permissions/me", ["produce", "consume"])
            await broker.done("POST", f"{base}/permissions/subscription/sub", ["you"])
            node = json.loads((await broker.cluster.store.get(f"/admin/policies/public/{name}")).data)
            assert node["auth_policies"] == {
                "namespace_auth": {"me": ["produce", "consume"]},
                "subscription_auth_roles": {"sub": ["you"]},
            }
            assert await broker.get(f"{base}/permissions") == {"me": ["produce", "consume"]}
            assert await broker.get(f"{base}/permissions/subscription") == {"sub": ["you"]}
            await broker.done("DELETE", f"{base}/permissions/me")
            await broker.done("DELETE", f"{base}/permissions/sub/you")
            assert await broker.get(f"{base}/permissions") == {}
            assert await broker.get(f"{base}/permissions/subscription") == {"sub": []}
            await broker.done("POST", f"{base}/replication", ["standalone"])
            assert await broker.get(f"{base}/replication") == ["standalone"]

    run(main())
