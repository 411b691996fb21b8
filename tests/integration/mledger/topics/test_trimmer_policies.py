"""Nothing is deleted that the policies of a topic or of its namespace keep, wherever it is opened (M10)."""

import asyncio
import contextlib
import itertools
from dataclasses import replace

import pytest

import mledger
from mledger.admin.policies.policy_events import PolicyScope
from mledger.admin.policies.topic_policies import PolicyReader
from mledger.errors import PoliciesUnavailable
from mledger.events import RemovingLedger
from mledger.ledgers.retention import KEEP_ALL, RetentionOrigin, retention_in_force
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.clock import Clock
from tests.support.ledgers import client
from tests.support.recordings.policies import (
    EVENTS,
    OF_NAMESPACE,
    applied_retention,
    open_events,
    put_compacted,
    put_namespace_policies,
    put_schema,
)
from tests.support.topics import CONFIG, Events, everything, fill, payloads

MINUTE_MS = 60_000
BROKER = "/loadbalance/brokers/localhost:8080"
_namespaces = itertools.count(1)


@pytest.fixture
def namespace():
    return f"public/kept-{next(_namespaces)}"


@contextlib.asynccontextmanager
async def store_at(url):
    async with await open_store(url) as store:
        yield store


async def consumed(url, topic, count=25, **options):
    """A consumed and closed topic of several ledgers, with nothing trimmed; its payloads."""
    async with mledger.open_cluster(url, config=CONFIG) as cluster:
        opened = await cluster.create_topic(topic, trim=False, **options)
        cursor = await opened.open_cursor("sub")
        await fill(opened, count)
        await cursor.clear_backlog()
    return payloads(count)


async def put_events(url, entries, namespace="public/kept"):
    async with store_at(url) as store, client(url) as bookkeeper:
        await put_schema(store, bookkeeper, namespace)
    async with mledger.open_cluster(url) as cluster:
        events = await open_events(cluster, namespace)
        await events.append(entries)


def test_opening_and_trimming_delete_nothing_that_the_namespace_keeps(topic_url, namespace):
    async def main():
        topic = f"persistent://{namespace}/t"
        wanted = await consumed(topic_url, topic)
        async with store_at(topic_url) as store:
            await put_namespace_policies(store, namespace)
        async with mledger.open_cluster(topic_url) as cluster:
            opened = await cluster.open_topic(topic, config=replace(CONFIG, retention_time_ms=0))
            await opened.initialized()
            assert opened.plan_trim().deletions == ()
            assert (await opened.trim()).deletions == ()
            assert await everything(opened) == wanted

    run(main())


def test_ledgers_are_deleted_once_the_time_of_the_policy_has_passed(topic_url, namespace):
    async def main():
        topic, clock, events = f"persistent://{namespace}/t", Clock(), Events()
        async with store_at(topic_url) as store:
            await put_namespace_policies(store, namespace)
        async with mledger.open_cluster(topic_url, config=CONFIG, now_ms=clock) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 25)
            await cursor.clear_backlog()
            assert (await opened.trim()).deletions == ()
            gone = asyncio.ensure_future(events.next(RemovingLedger))
            clock.ms += OF_NAMESPACE.minutes * MINUTE_MS + 2
            cluster.run_due()
            await gone

    run(main())


def test_a_policy_that_keeps_more_is_followed_while_the_topic_is_open(topic_url, namespace):
    async def main():
        topic = f"persistent://{namespace}/t"
        async with store_at(topic_url) as store, mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.initialized()
            await put_namespace_policies(store, namespace)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 25)
            await cursor.clear_backlog()
            assert (await opened.trim()).deletions == ()
            assert await everything(opened) == payloads(25)

    run(main())


@pytest.mark.parametrize("policies", [b"{", None], ids=["damaged", "in another store"])
def test_if_policies_cannot_be_read_nothing_is_deleted(topic_url, namespace, policies):
    async def main():
        topic = f"persistent://{namespace}/t"
        wanted = await consumed(topic_url, topic)
        async with store_at(topic_url) as store:
            if policies is None:
                await store.create(f"/admin/local-policies/{namespace}", b"{}", parents=True)
            else:
                await put_namespace_policies(store, namespace, policies)
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            with pytest.raises(PoliciesUnavailable, match="none of its ledgers is trimmed"):
                await opened.trim()
            assert await everything(opened) == wanted

    run(main())


@pytest.mark.parametrize("asked", [None, True, False])
def test_beside_a_live_broker_nothing_is_deleted_unless_requested(topic_url, namespace, asked):
    async def main():
        topic = f"persistent://{namespace}/t"
        wanted = await consumed(topic_url, topic)
        async with store_at(topic_url) as store:
            await store.create(BROKER, b"{}", ephemeral=True, parents=True)
            async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
                opened = await cluster.open_topic(topic, take_over=True, trim=asked)
                await opened.initialized()
                left = await everything(opened)
                assert left == ([] if asked else wanted)
                assert len((await opened.trim()).deletions) == (0 if asked else 3)

    run(main())


def test_a_live_broker_of_mledger_leaves_trimming_to_each_owner(topic_url, namespace):
    async def main():
        topic = f"persistent://{namespace}/t"
        await consumed(topic_url, topic)
        async with store_at(topic_url) as store:
            await store.create(BROKER, b'{"loadManagerClassName": "mledger"}', ephemeral=True, parents=True)
            async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
                opened = await cluster.open_topic(topic)
                await opened.initialized()
                assert await everything(opened) == []

    run(main())


def test_a_policy_that_was_removed_gives_way_to_no_default_that_may_not_be_the_brokers(topic_url, namespace):
    """The policy that was read a moment before keeps nothing any more; the brokers' default may."""

    async def main():
        topic, clock = f"persistent://{namespace}/t", Clock(wall_clock_ms() + 2 * OF_NAMESPACE.minutes * MINUTE_MS)
        wanted = await consumed(topic_url, topic)
        async with store_at(topic_url) as broker:
            await broker.create(BROKER, b"{}", ephemeral=True, parents=True)
            await put_namespace_policies(broker, namespace)
        async with store_at(topic_url) as store, mledger.open_cluster(topic_url, now_ms=clock) as cluster:
            await (await cluster.create_topic(f"persistent://{namespace}/other")).initialized()
            await store.delete(f"/admin/policies/{namespace}")
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            assert await everything(opened) == wanted

    run(main())


def test_the_default_leaves_a_topic_to_its_live_owner(topic_url, namespace):
    async def main():
        topic = f"persistent://{namespace}/t"
        async with (
            mledger.open_cluster(topic_url, config=CONFIG) as owner,
            mledger.open_cluster(topic_url, config=CONFIG, session_timeout=0.5) as other,
        ):
            opened = await owner.create_topic(topic)
            for refused in (other.open_topic, other.delete_topic):
                with pytest.raises(mledger.OwnedElsewhere):
                    await refused(topic)
            await fill(opened, 5)
            assert (await other.open_topic(topic, take_over=True)).number_of_entries == 5

    run(main())


def test_a_topic_is_opened_again_by_the_program_that_has_it(topic_url, namespace):
    async def main():
        topic = f"persistent://{namespace}/t"
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            opened._record.fence("a test says so")  # its owner node exists
            again = await cluster.open_topic(topic)
            assert again.state is mledger.TopicState.OPEN

    run(main())


@pytest.fixture(scope="session")
def policies_url(topic_bookies):
    """A cluster whose namespace public/kept has the recorded events, half of them before the compacted ledger."""
    url = topic_bookies.metadata_url

    async def prepare():
        async with store_at(url) as store:
            await put_namespace_policies(store, "public/kept")
        await put_events(url, EVENTS)

    run(prepare())
    return url


@pytest.mark.parametrize("name", ["own", "local-wins", "shorter", "parts-partition-1", "after-compaction", "removed"])
def test_a_topic_s_own_policy_is_read_from_the_events_of_its_namespace(policies_url, name):
    async def main():
        async with await open_reader(policies_url) as reader, client(policies_url) as bookkeeper:
            found = await PolicyReader(reader, bookkeeper).policies(f"public/kept/persistent/{name}")
        in_force = retention_in_force(found, CONFIG)
        wanted = applied_retention(name.removesuffix("-partition-1"))
        minutes = (
            in_force.retention_time_ms // MINUTE_MS if in_force.retention_time_ms > 0 else in_force.retention_time_ms
        )
        assert (minutes, in_force.retention_size_in_mb) == (wanted.minutes, wanted.size_mb)
        origin = RetentionOrigin.NAMESPACE if name == "removed" else RetentionOrigin.TOPIC
        assert in_force.origin is origin

    run(main())


def test_reading_policies_changes_nothing(policies_url):
    async def main():
        path = "/managed-ledgers/public/kept/persistent/__change_events"
        async with await open_reader(policies_url) as reader, client(policies_url) as bookkeeper:
            before = await reader.get(path)
            await PolicyReader(reader, bookkeeper).policies("public/kept/persistent/own")
            assert await reader.get(path) == before

    run(main())


def test_nothing_is_deleted_that_a_topic_s_own_policy_keeps(policies_url):
    async def main():
        wanted = await consumed(policies_url, "persistent://public/kept/parts-partition-0")
        await consumed(policies_url, "persistent://public/kept/shorter")
        async with mledger.open_cluster(policies_url, config=CONFIG) as cluster:
            kept = await cluster.open_topic("persistent://public/kept/parts-partition-0")
            short = await cluster.open_topic("persistent://public/kept/shorter")
            await kept.initialized()
            await short.initialized()
            assert await everything(kept) == wanted
            assert await everything(short) == []  # its own policy keeps nothing, whatever the namespace's says

    run(main())


def test_newer_events_are_read_from_the_topic_and_older_ones_from_the_compacted_ledger(topic_url, namespace):
    async def main():
        async with store_at(topic_url) as store, client(topic_url) as bookkeeper:
            await put_schema(store, bookkeeper, namespace)
            compacted = await put_compacted(bookkeeper)
            async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
                events = await open_events(cluster, namespace)
                cursor = await events.open_cursor("__compaction")
                await events.append(EVENTS[:-1])
                await cursor.acknowledge_cumulative(
                    events.last_confirmed, properties={"CompactedTopicLedger": compacted}
                )
                reader = PolicyReader(store, bookkeeper)
                events_of = mledger.TopicName.parse(f"{namespace}/__change_events")
                await events.trim()
                assert events.number_of_entries < len(EVENTS) - 1
                table = (await reader.of_namespace(events_of)).topics
                own = mledger.TopicName.parse("public/kept/own")
                late = mledger.TopicName.parse("public/kept/after-compaction")
                assert table.of(own, PolicyScope.LOCAL).retention == applied_retention("own")
                await events.append([EVENTS[-1]])
                table = (await reader.of_namespace(events_of)).topics
                assert table.of(late, PolicyScope.LOCAL).retention == applied_retention("after-compaction")

    run(main())


def test_unreadable_events_keep_everything(topic_url, namespace):
    async def main():
        topic = f"persistent://{namespace}/t"
        wanted = await consumed(topic_url, topic)
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            events = await open_events(cluster, namespace)
            await events.append([b"not an event"])
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            assert opened.plan_trim().deletions == ()
            with pytest.raises(PoliciesUnavailable):
                await opened.trim()
            assert await everything(opened) == wanted
            assert opened._trimmer._policy.known is KEEP_ALL

    run(main())
