"""Settings that are stored come before those that the broker was started with."""

import asyncio
import contextlib
import json

import pytest

from mledger.broker.dynamic_settings import CONFIGURATION, DYNAMIC_KEYS, DynamicSettings, plan_dynamic
from mledger.broker.settings import KEYS, BrokerSettings
from mledger.metastore.errors import InvalidSetting, NodeNotFound
from mledger.metastore.url import open_store
from tests.support.aio import run

STARTED = BrokerSettings(default_partitions=2, keep_alive_s=7.0)


def test_every_dynamic_key_is_one_of_the_settings():
    assert set(DYNAMIC_KEYS) <= {each.key for each in KEYS}
    assert list(DYNAMIC_KEYS) == sorted(DYNAMIC_KEYS)


def test_only_settings_that_can_change_are_taken_from_what_is_stored():
    given = {
        "defaultNumPartitions": "3",
        "keepAliveIntervalSeconds": "1",
        "maxTenants": "5",
        "subscriptionTypesEnabled": "Shared,Failover",
    }
    found = plan_dynamic(STARTED, given)
    assert (found.default_partitions, found.keep_alive_s) == (3, 7.0)
    assert found.subscription_types == ("Shared", "Failover")


def test_a_value_that_is_none_is_refused():
    with pytest.raises(InvalidSetting, match="defaultNumPartitions"):
        plan_dynamic(STARTED, {"defaultNumPartitions": "none"})


@contextlib.asynccontextmanager
async def followed(*listeners):
    """A store with settings that follow it, and those that were told after the other listeners."""
    store, told = await open_store("memory:dynamic-settings"), asyncio.Queue()
    dynamic = DynamicSettings(store, STARTED)
    for listener in (*listeners, told.put_nowait):
        dynamic.follow(listener)
    await dynamic.start()
    try:
        yield store, told
    finally:
        dynamic.stop()
        with contextlib.suppress(NodeNotFound):
            await store.delete(CONFIGURATION, -1)
        await store.close()


async def put(store, **values):
    data = json.dumps(values).encode()
    if await store.exists(CONFIGURATION) is None:
        await store.create(CONFIGURATION, data, parents=True)
    else:
        await store.put(CONFIGURATION, data, -1)


def test_what_another_broker_stores_is_followed_until_it_is_removed():
    async def main():
        async with followed() as (store, told):
            await put(store, defaultNumPartitions="5", maxTenants="3")
            assert (await told.get()).default_partitions == 5
            await put(store, maxTopicsPerNamespace="9")
            found = await told.get()
            assert (found.default_partitions, found.max_topics_per_namespace) == (2, 9)
            await store.delete(CONFIGURATION, -1)
            assert await told.get() == STARTED

    run(main())


def test_a_value_or_a_node_that_cannot_be_read_does_not_hide_what_can():
    async def main():
        async with followed() as (store, told):
            await put(store, defaultNumPartitions="none", maxTopicsPerNamespace="9")
            found = await told.get()
            assert (found.default_partitions, found.max_topics_per_namespace) == (2, 9)
            await store.put(CONFIGURATION, b"[nonsense", -1)
            await put(store, maxTopicsPerNamespace="8")
            assert (await told.get()).max_topics_per_namespace == 8

    run(main())


def test_a_listener_that_fails_does_not_keep_the_others_from_being_told():
    def fail(_):
        raise RuntimeError("a listener failed")

    async def main():
        async with followed(fail) as (store, told):
            await put(store, maxTopicsPerNamespace="9")
            assert (await told.get()).max_topics_per_namespace == 9

    run(main())
