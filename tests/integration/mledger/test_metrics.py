"""What an owner reports to Prometheus about its topics and itself."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.ledgers import ledger_factory, topic_record
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import cursor_path
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.http import get, undocumented
from tests.support.topics import KEEP, fill

METRICS = mledger.MetricsOptions(cluster_name="test")


def test_backlogs_sizes_and_counts_have_pulsar_s_names(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, metrics=METRICS) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 9)
            await cursor.acknowledge([positions[0], positions[4]])
            await opened.read(positions[0], 5)
            await opened.initialized()
            answer = await get(cluster.metrics_port, "/metrics")
            assert undocumented(answer) == []
            found = answer.samples
            namespace = 'cluster="test",namespace="tests/ns"'
            named = f'{namespace},topic="{topic}"'
            assert found[f"pulsar_msg_backlog{{{named}}}"] == cursor.backlog == 7
            subscribed = f'{namespace},subscription="sub",topic="{topic}"'
            assert found[f"pulsar_subscription_back_log{{{subscribed}}}"] == 7
            assert found[f"pulsar_storage_size{{{named}}}"] == opened.total_size
            assert found[f"pulsar_topics_count{{{namespace}}}"] == found['pulsar_ml_count{cluster="test"}'] == 1
            assert found[f"pulsar_subscriptions_count{{{namespace}}}"] == 1
            assert found[f"mledger_added_entries_total{{{namespace}}}"] == 9
            assert found[f"mledger_added_bytes_total{{{namespace}}}"] == opened.total_size
            assert found[f"mledger_read_entries_total{{{namespace}}}"] == 5
            assert found[f"mledger_add_seconds_count{{{namespace}}}"] == 1
            assert found[f"mledger_open_seconds_count{{{namespace}}}"] == 1
            assert found[f"pulsar_ml_cursor_persistZookeeperSucceed{{{namespace}}}"] >= 1
            assert found['mledger_topics{cluster="test",state="open"}'] == 1

    run(main())


def test_a_topic_is_labelled_with_its_name_as_pulsar_s_clients_have_it(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, metrics=METRICS) as cluster:
            await cluster.create_topic(f"{topic} ü%")
            answer = await get(cluster.metrics_port, "/metrics")
            assert answer.samples[f'pulsar_msg_backlog{{cluster="test",namespace="tests/ns",topic="{topic} ü%"}}'] == 0

    run(main())


def test_without_topic_level_metrics_a_namespace_has_the_sums(topic_url, topic):
    async def main():
        options = replace(METRICS, topics=False)
        async with mledger.open_cluster(topic_url, config=KEEP, metrics=options) as cluster:
            for number in range(2):
                opened = await cluster.create_topic(f"{topic}-{number}")
                await opened.open_cursor("sub")
                await fill(opened, 3)
            answer = await get(cluster.metrics_port, "/metrics")
            assert answer.samples['pulsar_msg_backlog{cluster="test",namespace="tests/ns"}'] == 6
            assert topic not in answer.body

    run(main())


def test_recoveries_are_counted(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            await fill(opened, 3)
            await opened.abandon()
        async with mledger.open_cluster(topic_url, config=KEEP, metrics=METRICS) as cluster:
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            found = (await get(cluster.metrics_port, "/metrics")).samples
            namespace = 'cluster="test",namespace="tests/ns"'
            assert found[f"mledger_recovered_ledgers_total{{{namespace}}}"] == 1
            assert found[f"mledger_recovered_cursors_total{{{namespace}}}"] == 1
            assert found[f"mledger_cursors_not_recovered{{{namespace}}}"] == 0

    run(main())


def test_a_cursor_whose_state_is_not_known_is_visible_until_it_is(topic_url, topic, monkeypatch):
    monkeypatch.setattr("mledger.cursors.container.RETRY_DELAYS_S", (3600.0,))  # the test is the timer

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, metrics=METRICS) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            await opened.close()
            path = cursor_path(opened.name, "sub")
            good = await cluster.metadata.get(path)
            damaged = await cluster.metadata.put(path, b"no record", good.version)
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            found = (await get(cluster.metrics_port, "/metrics")).samples
            namespace = 'cluster="test",namespace="tests/ns"'
            assert found[f"mledger_cursors_not_recovered{{{namespace}}}"] == 1
            assert found[f"mledger_delayed_cursor_recoveries_total{{{namespace}}}"] == 1
            await cluster.metadata.put(path, good.data, damaged)
            await opened.open_cursor("sub")
            found = (await get(cluster.metrics_port, "/metrics")).samples
            assert found[f"mledger_cursors_not_recovered{{{namespace}}}"] == 0

    run(main())


def test_a_cursor_whose_state_cannot_be_written_is_visible(topic_url, topic, monkeypatch):
    for module in (topic_record, ledger_factory):
        monkeypatch.setattr(module, "RETRY_DELAYS_S", ())

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP, metrics=METRICS) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 3)
            multi = cluster.metadata.multi

            async def away(operations):
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(cluster.metadata, "multi", away)
            with pytest.raises(StoreUnavailable):
                await cursor.acknowledge(positions[:1])
            found = (await get(cluster.metrics_port, "/metrics")).samples
            namespace = 'cluster="test",namespace="tests/ns"'
            assert found[f"mledger_cursors_not_persisted{{{namespace}}}"] == 1
            assert found[f"mledger_cursor_oldest_unpersisted_seconds{{{namespace}}}"] > 0
            monkeypatch.setattr(cluster.metadata, "multi", multi)

    run(main())


@pytest.fixture
def own_cluster(zookeeper_server, tmp_path):
    """A metadata store that can be killed, and three bookies."""
    initialize_cluster(zookeeper_server.url)
    processes = BookieProcesses(zookeeper_server.url, tmp_path / "bookies")
    processes.start(3)
    yield zookeeper_server, processes
    processes.close()


def test_an_owner_is_not_healthy_while_its_metadata_store_is_down(own_cluster):
    zookeeper, bookies = own_cluster

    async def main():
        options = {"config": KEEP, "metrics": METRICS, "session_timeout": 60}
        async with mledger.open_cluster(bookies.metadata_url, **options) as cluster:
            await cluster.create_topic("persistent://tests/ns/health")
            well = await get(cluster.metrics_port, "/health")
            assert (well.status, well.json["topics"], well.json["session"]) == (200, 1, "connected")
            zookeeper.kill()
            while (answer := await get(cluster.metrics_port, "/health")).status == 200:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(zookeeper.restart)
            assert (answer.status, answer.json["status"]) == (503, "metadata store away")
            assert (await get(cluster.metrics_port, "/heartbeat")).body == "OK\n"
            while (await get(cluster.metrics_port, "/health")).status != 200:
                await asyncio.sleep(0.05)

    run(main())


def test_a_port_in_use_is_an_error_and_leaves_nothing_open(topic_url):
    async def main():
        async with mledger.open_cluster(topic_url, metrics=METRICS) as cluster:
            taken = mledger.MetricsOptions(port=cluster.metrics_port)
            with pytest.raises(OSError, match="in use"):
                await mledger.open_cluster(topic_url, metrics=taken).__aenter__()

    run(main())
