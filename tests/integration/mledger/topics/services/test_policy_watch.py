"""Open topics follow the policies of their namespace and their own (M6, M10)."""

import asyncio
import contextlib
import itertools
import json
from dataclasses import replace

import pytest

import mledger
from mledger.admin.policies.topic_policies import PolicyReader
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.url import open_store
from mledger.topics.services import policy_watch
from tests.support.aio import run
from tests.support.ledgers import client
from tests.support.recordings.policies import EVENTS, open_events, put_schema
from tests.support.topics import CONFIG, KEEP, fill

_namespaces = itertools.count(1)


@pytest.fixture
def namespace():
    return f"public/followed-{next(_namespaces)}"


class Told:
    """A listener to policies that a test can wait for."""

    def __init__(self, opened):
        self._queue = asyncio.Queue()
        opened.on_policies(self._queue.put_nowait)

    async def until(self, condition):
        """The first policies told from now on that satisfy `condition`."""
        while not condition(policies := await self._queue.get()):
            pass
        return policies


async def put(store, namespace, **policies):
    """Write the policies of a namespace as a broker does."""
    path, data = f"/admin/policies/{namespace}", json.dumps({"policies": {}, **policies}).encode()
    try:
        await store.put(path, data, -1)
    except NodeNotFound:
        await store.create(path, data, parents=True)


@contextlib.asynccontextmanager
async def followed(url, **options):
    """A store, and a cluster that follows policies."""
    async with await open_store(url) as store, mledger.open_cluster(url, policy_cluster="here", **options) as cluster:
        yield store, cluster


def test_a_topic_is_opened_with_the_policies_in_force(topic_url, namespace):
    async def main():
        async with followed(topic_url, config=KEEP, cluster_quorums=True) as (store, cluster):
            await put(
                store,
                namespace,
                message_ttl_in_seconds=60,
                persistence={
                    "bookkeeperEnsemble": 2,
                    "bookkeeperWriteQuorum": 2,
                    "bookkeeperAckQuorum": 1,
                    "managedLedgerMaxMarkDeleteRate": 5.0,
                },
            )
            opened = await cluster.create_topic(f"persistent://{namespace}/t")
            assert opened.policies.service.message_ttl_s == 60
            assert (opened.config.ensemble_size, opened.config.throttle_mark_delete) == (2, 5.0)

    run(main())


def test_quorums_of_policies_win_over_those_of_the_configuration(topic_url, namespace):
    async def main():
        async with followed(topic_url, config=KEEP) as (store, cluster):
            quorums = {"bookkeeperEnsemble": 4, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 1}
            await put(store, namespace, persistence=quorums)
            opened = await cluster.create_topic(f"persistent://{namespace}/t")
            async with client(topic_url) as bookkeeper:
                metadata = await bookkeeper.metadata(opened.ledgers[-1].ledger_id)
            assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (4, 2, 1)

    run(main())


def test_policies_that_change_are_told_and_applied_while_the_topic_is_open(topic_url, namespace):
    async def main():
        async with followed(topic_url, config=KEEP, cluster_quorums=True) as (store, cluster):
            opened = await cluster.create_topic(f"persistent://{namespace}/t")
            other = await cluster.create_topic(f"persistent://{namespace}/other")
            told, told_other = Told(opened), Told(other)
            quorums = {"bookkeeperEnsemble": 4, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 2}
            await put(store, namespace, max_producers_per_topic=3, persistence=quorums)
            await told.until(lambda found: found.service.max_producers == 3)
            await told_other.until(lambda found: found.service.max_producers == 3)
            assert (opened.config.ensemble_size, opened.config.write_quorum_size) == (4, 2)
            await fill(opened, 3)
            await opened.roll_over()
            async with client(topic_url) as bookkeeper:
                metadata = await bookkeeper.metadata(opened.ledgers[-1].ledger_id)
            assert (metadata.ensemble_size, metadata.write_quorum) == (4, 2)
            await put(store, namespace, max_producers_per_topic=5)
            await told.until(lambda found: found.service.max_producers == 5)
            assert opened.config == KEEP

    run(main())


def test_a_policy_without_quorums_leaves_a_topic_those_of_its_last_ledger(topic_url, namespace):
    topic = f"persistent://{namespace}/t"

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await fill(await cluster.create_topic(topic), 3)
        fewer = replace(KEEP, ensemble_size=2, write_quorum_size=2)
        async with followed(topic_url, config=fewer, cluster_quorums=True) as (store, cluster):
            opened = await cluster.open_topic(topic)
            told = Told(opened)
            await put(store, namespace, max_producers_per_topic=3)
            await told.until(lambda found: found.service.max_producers == 3)
            await fill(opened, 3)
            await opened.roll_over()
            async with client(topic_url) as bookkeeper:
                metadata = await bookkeeper.metadata(opened.ledgers[-1].ledger_id)
            assert (metadata.ensemble_size, metadata.write_quorum) == (3, 3)

    run(main())


def test_a_retention_that_ends_while_the_topic_is_open_trims_it(topic_url, namespace):
    async def main():
        async with followed(topic_url, config=CONFIG) as (store, cluster):
            await put(store, namespace, retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
            opened = await cluster.create_topic(f"persistent://{namespace}/t")
            cursor = await opened.open_cursor("sub")
            await fill(opened, 25)
            await cursor.clear_backlog()
            assert (await opened.trim()).deletions == ()
            await put(store, namespace, retention_policies={"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
            await Told(opened).until(lambda found: found.namespace.retention.minutes == 0)
            await opened.trim()
            assert len(opened.ledgers) == 1

    run(main())


def test_a_policy_of_the_topic_is_found_once_this_process_says_that_events_changed(bookies, monkeypatch):
    """On bookies of its own: the recorded events name `public/kept`, which other tests of the shared ones have."""
    bookies.start(3)

    async def main():
        monkeypatch.setattr(policy_watch, "LOOK_AGAIN_S", 1000.0)
        async with followed(bookies.metadata_url, config=KEEP) as (store, cluster):
            opened = await cluster.open_topic("persistent://public/kept/own", create=True)
            async with client(bookies.metadata_url) as bookkeeper:
                await put_schema(store, bookkeeper, "public/kept")
            events = await open_events(cluster, "public/kept")
            await events.append(EVENTS)
            told = Told(opened)
            cluster.policies.changed(mledger.TopicName.parse("persistent://public/kept/__change_events"))
            found = await told.until(lambda policies: policies.topic.retention is not None)
            assert found.topic.retention.minutes == 600
            assert opened.policies == found

    run(main())


def test_a_closed_topic_is_told_nothing_and_the_last_one_ends_the_watch(topic_url, namespace):
    async def main():
        async with followed(topic_url, config=KEEP) as (store, cluster):
            opened = await cluster.create_topic(f"persistent://{namespace}/t")
            other = await cluster.create_topic(f"persistent://{namespace}/other")
            told, found = Told(other), []
            opened.on_policies(found.append)
            await opened.close()
            await put(store, namespace, max_consumers_per_topic=3)
            await told.until(lambda policies: policies.service.max_consumers == 3)
            assert found == []
            await other.close()
            assert cluster._services.policy_watch._namespaces == {}

    run(main())


def test_a_cluster_that_does_not_follow_policies_has_none(topic_url, namespace):
    async def main():
        async with await open_store(topic_url) as store, mledger.open_cluster(topic_url, config=KEEP) as cluster:
            await put(store, namespace, message_ttl_in_seconds=60)
            opened = await cluster.create_topic(f"persistent://{namespace}/t")
            assert opened.policies.service.message_ttl_s is None

    run(main())


def test_policies_are_followed_after_an_error_that_nobody_expected(topic_url, namespace, monkeypatch):
    monkeypatch.setattr(policy_watch, "RETRY_S", 0.0)

    async def main():
        async with followed(topic_url, config=KEEP) as (store, cluster):
            left, of_namespace = [KeyError("nobody expected it")], PolicyReader.of_namespace

            async def failing_once(reader, topic, **options):
                if left and not options:  # not as the topic is opened
                    raise left.pop()
                return await of_namespace(reader, topic, **options)

            monkeypatch.setattr(PolicyReader, "of_namespace", failing_once)
            opened = await cluster.create_topic(f"persistent://{namespace}/t")
            told = Told(opened)
            while left:
                await asyncio.sleep(0.01)
            await put(store, namespace, max_producers_per_topic=3)
            await told.until(lambda found: found.service.max_producers == 3)

    run(main())
