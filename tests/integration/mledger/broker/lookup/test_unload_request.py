"""A request to unload a bundle ends with an error if its broker does not carry it out."""

import asyncio
import contextlib

import pytest

from mledger.broker.lookup.broker_records import (
    BrokerAddress,
    BrokerLoad,
    encode_bundle_owner,
    encode_report,
    is_disabled,
    report_content,
)
from mledger.broker.lookup.unload_request import check_unloads, request_unload
from mledger.errors import BrokerUnavailable, OwnedElsewhere
from mledger.ledgers.bundles import LIVE_BROKERS, NAMESPACES
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store
from tests.support.aio import run


@pytest.fixture
def name(topic):
    """A topic of a namespace that no other test has."""
    return TopicName.parse(f"persistent://tests/{topic.rpartition('/')[2]}/orders")


def bundle_of(name):
    """The node of its namespace's only bundle."""
    return f"{NAMESPACES}/{name.namespace_name}/0x00000000_0xffffffff"


@contextlib.asynccontextmanager
async def silent_broker(url, name):
    """The nodes of a broker of ours that serves the topic's bundle and does nothing; its session."""
    async with await open_store(url) as store:
        address = BrokerAddress("silent:6650", "pulsar://silent:6650")
        report = encode_report(report_content(address, BrokerLoad(), started_ms=0, now_ms=0))
        await store.create(f"{LIVE_BROKERS}/{address.name}", report, ephemeral=True, parents=True)
        await store.create(bundle_of(name), encode_bundle_owner(address), ephemeral=True, parents=True)
        yield store


def test_only_brokers_of_ours_are_asked_to_unload(topic_url, name):
    async def main():
        async with silent_broker(topic_url, name) as broker, await open_store(topic_url) as tool:
            await check_unloads(tool, bundle_of(name))
            await check_unloads(tool, f"{bundle_of(name)}x")
            await broker.delete(f"{LIVE_BROKERS}/silent:6650", -1)
            with pytest.raises(OwnedElsewhere):
                await check_unloads(tool, bundle_of(name))

    run(main())


def test_a_bundle_that_its_broker_does_not_unload_in_time_is_not_said_to_be_unloaded(topic_url, name):
    async def main():
        async with silent_broker(topic_url, name) as broker, await open_store(topic_url) as tool:
            with pytest.raises(BrokerUnavailable, match="has not unloaded it within"):
                await request_unload(tool, name, timeout_s=0.2)
            assert is_disabled((await broker.get(bundle_of(name))).data)

    run(main())


def test_a_bundle_whose_brokers_session_ends_meanwhile_is_not_said_to_be_unloaded(topic_url, name):
    async def main():
        async with await open_store(topic_url) as tool:
            async with silent_broker(topic_url, name) as broker, broker.watch(bundle_of(name)) as changes:
                asked = asyncio.ensure_future(request_unload(tool, name))
                await anext(changes)
            with pytest.raises(BrokerUnavailable, match=r"session .* ended"):
                await asked

    run(main())
