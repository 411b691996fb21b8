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


def test_who_might_use_a_deleted_topic_may_not_use_a_new_one_of_its_name(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"namespaces/public/{name}")
            root = f"persistent/public/{name}"
            for each in ("gone", "stays"):
                await broker.done("PUT", f"{root}/{each}")
                await broker.done("POST", f"{root}/{each}/permissions/guest", ["produce"])
            await broker.done("DELETE", f"{root}/gone")
            await broker.done("PUT", f"{root}/gone")
            assert await broker.get(f"{root}/gone/permissions") == {}
            assert await broker.get(f"{root}/stays/permissions") == {"guest": ["produce"]}

    run(main())


def test_the_permissions_of_a_partitioned_topic_and_its_partitions_go_with_it(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"namespaces/public/{name}")
            root = f"persistent/public/{name}"
            await broker.done("PUT", f"{root}/t/partitions", 2)
            for each in ("t", "t-partition-1"):
                await broker.done("POST", f"{root}/{each}/permissions/guest", ["consume"])
            await broker.done("DELETE", f"{root}/t/partitions")
            node = json.loads((await broker.cluster.store.get(f"/admin/policies/public/{name}")).data)
            assert node["auth_policies"]["destination_auth"] == {}

    run(main())


def test_a_deletion_that_was_cut_off_is_finished_by_the_next_one(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            granted = {"destination_auth": {f"persistent://public/{name}/t": {"guest": ["consume"]}}}
            await broker.done("PUT", f"namespaces/public/{name}", {"auth_policies": granted})
            assert (await broker.refused("DELETE", f"persistent/public/{name}/t"))[0] == 404
            await broker.done("PUT", f"persistent/public/{name}/t")
            assert await broker.get(f"persistent/public/{name}/t/permissions") == {}

    run(main())


def test_a_broker_may_grant_in_advance(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url, "allowAclChangesOnNonExistentTopics=true") as broker:
            await broker.done("PUT", f"namespaces/public/{name}")
            path = f"persistent/public/{name}/later/permissions"
            await broker.done("POST", f"{path}/guest", ["consume"])
            assert await broker.get(path) == {"guest": ["consume"]}
            await broker.done("DELETE", f"{path}/guest")

    run(main())


def test_nothing_is_granted_on_a_topic_that_does_not_exist(broker_url, topic):
    name = topic.rsplit("/", 1)[1]

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"namespaces/public/{name}")
            root = f"persistent/public/{name}"
            await broker.done("PUT", f"{root}/t/partitions", 1)
            for each in ("t", "t-partition-0", "__change_events"):  # brokers create the last one when they need it
                await broker.done("POST", f"{root}/{each}/permissions/guest", ["consume"])
            for each in ("none", "t-partition-1"):
                missing = (404, f"Topic persistent://public/{name}/{each} not found")
                assert await broker.refused("GET", f"{root}/{each}/permissions") == missing
                assert await broker.refused("POST", f"{root}/{each}/permissions/guest", ["consume"]) == missing
                assert await broker.refused("DELETE", f"{root}/{each}/permissions/guest") == missing

    run(main())
