"""An owner of ours yields when a Pulsar broker begins to serve its topic's bundle (M9), as the broker's node shows."""

import asyncio
import json
import re

import pytest

import mledger
from mledger.ledgers.bundles import bundle_folders, has_topic
from mledger.metastore.errors import MetadataAccessDenied
from mledger.metastore.records.paths import TopicName, owner_path
from mledger.metastore.url import open_store
from mledger.topics.services import broker_watch
from tests.support.aio import run
from tests.support.metadata.held_answers import held_answers
from tests.support.topics import KEEP
from tests.support.zookeeper.server import SHORT_SESSION_S

BUNDLES = ("0x00000000_0x80000000", "0x80000000_0xffffffff")
OWNED = json.dumps({"nativeUrl": "pulsar://127.0.0.1:6650"}).encode()
SERVED = "the Pulsar broker pulsar://127.0.0.1:6650 serves its bundle"


def bundle_of(topic, *, own=True):
    """The path of the node of the topic's bundle, or of the other one."""
    name = TopicName.parse(topic)
    return f"{bundle_folders(name)[0]}/{next(each for each in BUNDLES if has_topic(each, name) is own)}"


async def fenced(events):
    while not any(isinstance(event, mledger.events.Fenced) for event in events):
        await asyncio.sleep(0.01)


def test_an_owner_yields_to_the_broker_that_takes_its_bundle_and_names_it(topic_url, topic):
    async def main():
        events = []
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as broker:
            opened = await cluster.create_topic(topic, events=events.append)
            await opened.append([b"one"])
            await broker.create(bundle_of(topic), OWNED, ephemeral=True, parents=True)
            await fenced(events)
            with pytest.raises(mledger.ManagedLedgerFenced, match=re.escape(SERVED)):
                await opened.append([b"two"])

    run(main(), timeout=60.0)


@pytest.fixture
def held(topic_url):
    """A link to the store that can be cut."""
    with held_answers(topic_url) as held:
        yield held


def test_an_owner_that_has_outlived_its_session_yields_to_a_broker_that_comes_later(held, topic):
    async def main():
        events = []
        async with mledger.open_cluster(held.url, config=KEEP, session_timeout=SHORT_SESSION_S) as cluster:
            opened = await cluster.create_topic(topic, events=events.append)
            await held.lose_session(owner_path(opened.name))
            async with held.direct() as broker:
                while not await broker.exists(owner_path(opened.name)):  # the next session exists
                    await asyncio.sleep(0.01)
                await opened.append([b"one"])
                await broker.create(bundle_of(topic), OWNED, ephemeral=True, parents=True)
                await fenced(events)
            with pytest.raises(mledger.ManagedLedgerFenced, match=re.escape(SERVED)):
                await opened.append([b"two"])

    run(main())


def test_an_owner_yields_to_the_broker_that_came_while_it_had_no_session(held, topic):
    async def main():
        events = []
        async with mledger.open_cluster(held.url, config=KEEP, session_timeout=SHORT_SESSION_S) as cluster:
            opened = await cluster.create_topic(topic, events=events.append)
            await held.lose_session(owner_path(opened.name), back=False)
            async with held.direct() as broker:
                await broker.create(bundle_of(topic), OWNED, ephemeral=True, parents=True)
                held.release()
                await fenced(events)
            with pytest.raises(mledger.ManagedLedgerFenced, match=re.escape(SERVED)):
                await opened.append([b"two"])

    run(main())


def test_a_broker_that_takes_another_bundle_is_ignored(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as broker:
            opened = await cluster.create_topic(topic)
            await broker.create(bundle_of(topic, own=False), OWNED, ephemeral=True, parents=True)
            await cluster.metadata.children(bundle_folders(TopicName.parse(topic))[0])  # the watch has fired before
            await opened.append([b"one"])
            assert opened.state is mledger.TopicState.OPEN

    run(main())


def test_a_topic_taken_from_its_serving_broker_is_given_back_when_that_one_fences_its_ledger(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as broker:
            await broker.create(bundle_of(topic), OWNED, ephemeral=True, parents=True)
            opened = await cluster.create_topic(topic)
            await opened.append([b"one"])
            async with mledger.open_cluster(topic_url, config=KEEP) as other:
                await other._bookkeeper.open_ledger(opened.ledgers[-1].ledger_id)  # as the broker does to load it
            with pytest.raises(mledger.ManagedLedgerFenced, match=re.escape(SERVED)):
                await opened.append([b"two"])

    run(main())


def test_topics_opened_and_closed_leave_no_watch_behind(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await (await cluster.create_topic(topic)).close()
            again = await cluster.open_topic(topic)
            await again.append([b"one"])
            await again.close()
            assert not cluster._services.brokers._namespaces

    run(main())


def test_an_owner_that_opened_the_topic_again_yields_though_the_one_before_was_closed_since(topic_url, topic):
    async def main():
        events = []
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as broker:
            before = await cluster.create_topic(topic)
            before._record.fence("a test says so")
            again = await cluster.open_topic(topic, events=events.append)
            await before.close()
            await broker.create(bundle_of(topic), OWNED, ephemeral=True, parents=True)
            await fenced(events)
            with pytest.raises(mledger.ManagedLedgerFenced, match=re.escape(SERVED)):
                await again.append([b"two"])
            await again.close()
            assert not cluster._services.brokers._namespaces

    run(main(), timeout=60.0)


@pytest.mark.parametrize("error", [MetadataAccessDenied("not today"), KeyError("nobody expected it")])
def test_an_owner_still_yields_after_the_bundles_could_not_be_read(topic_url, topic, monkeypatch, error):
    monkeypatch.setattr(broker_watch, "REFUSED_S", 0.0)

    async def main():
        events, left = [], [error]
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await open_store(topic_url) as broker:
            children_many = cluster.metadata.children_many

            async def refused_once(paths):
                if left and paths == [bundle_folders(TopicName.parse(topic))[0]]:
                    raise left.pop()
                return await children_many(paths)

            monkeypatch.setattr(cluster.metadata, "children_many", refused_once)
            await cluster.create_topic(topic, events=events.append)
            assert not left
            await broker.create(bundle_of(topic), OWNED, ephemeral=True, parents=True)
            await fenced(events)

    run(main(), timeout=60.0)
