"""Policies that are written while the topic of their events moves."""

from mledger.broker.admin_rest.topics.policy_writer import PolicyWriter
from tests.support.admin_rest import web_served
from tests.support.aio import run


def test_a_policy_is_set_though_its_namespace_is_unloaded_meanwhile(broker_url, own_topic, monkeypatch):
    namespace, path = own_topic.removeprefix("persistent://").removesuffix("/t"), own_topic.replace("://", "/")
    unloads = iter((True,))
    name = PolicyWriter._producer_name  # asked for right before an event is written

    async def main():
        async with web_served(broker_url) as broker:

            async def name_after_unload(writer):
                if next(unloads, False):
                    await broker.done("PUT", f"namespaces/{namespace}/unload")
                return await name(writer)

            await broker.done("PUT", path)
            await broker.done("POST", f"{path}/maxProducers", 1)
            monkeypatch.setattr(PolicyWriter, "_producer_name", name_after_unload)
            await broker.done("POST", f"{path}/maxConsumers", 7)
            assert next(unloads, None) is None
            assert await broker.get(f"{path}/maxConsumers") == 7
            assert await broker.get(f"{path}/maxProducers") == 1

    run(main())
