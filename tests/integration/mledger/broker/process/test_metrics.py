"""A broker's metrics: what clients do, under Pulsar's names, each of them documented."""

import asyncio

import pytest

import mledger
from mledger.broker.process import metrics
from mledger.broker.process.metrics import BrokerMetrics
from mledger.metastore.runtime.exposition import Families, expose
from mledger.metastore.runtime.network.http import HttpRequest
from mledger.metrics import serve_metrics
from tests.support.aio import run
from tests.support.http import get, undocumented
from tests.support.served_broker import served


@pytest.mark.parametrize("topics", [True, False])
def test_metrics_count_what_clients_do(broker_url, topic, topics):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.messages(3)
            await client.ack_durably(sent[0])
            more = BrokerMetrics(broker.broker, "west", topics=topics)
            options = mledger.MetricsOptions(cluster_name="west", topics=topics)
            async with serve_metrics(broker.cluster, options, more.read) as server:
                found = await get(server.port, "/metrics")
            labels = 'cluster="west",namespace="public/default"' + (f',topic="{topic}"' if topics else "")
            for line in (
                'pulsar_active_connections{cluster="west"} 1.0',
                f"pulsar_producers_count{{{labels}}} 1.0",
                f"pulsar_in_messages_total{{{labels}}} 3.0",
                f"pulsar_out_messages_total{{{labels}}} 3.0",
            ):
                assert line in found.body
            unacked = f'subscription="sub",topic="{topic}"}} 2.0'
            of_subscription = [
                line for line in found.body.splitlines() if "pulsar_subscription_unacked_messages{" in line
            ]
            assert [line.endswith(unacked) for line in of_subscription] == [True] * topics
            assert undocumented(found) == []
            series = [line.rpartition(" ")[0] for line in found.body.splitlines() if not line.startswith("#")]
            assert len(series) == len(set(series))

    run(main())


def test_others_have_turns_while_many_topics_are_read(broker_url, topic, monkeypatch):
    monkeypatch.setattr(metrics, "TOPICS_AT_ONCE", 1)

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            for number in range(3):
                await client.producer(number, f"{topic}-{number}")
            turns, reading = 0, asyncio.ensure_future(BrokerMetrics(broker.broker, "west", topics=True).read())
            while not reading.done():
                turns += 1
                await asyncio.sleep(0)
            families = Families()
            reading.result()(families)
            found = expose(families, HttpRequest({})).body.decode()
            assert (turns > 3, found.count("pulsar_producers_count{")) == (True, 3)

    run(main())


@pytest.mark.parametrize("topics", [True, False])
def test_messages_that_nobody_got_are_counted(broker_url, topic, topics):
    live = topic.replace("persistent", "non-persistent")

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=live)
            await client.subscribe(1, topic=live, permits=1)
            for sequence in range(3):
                client.publish(b"x", sequence)
            while (found := broker.broker.topics.nonpersistent[0]).messages_in < 3:
                await client.receive()
            assert sum(each.drops.dropped for each in found.subscriptions) == 2
            options = mledger.MetricsOptions(cluster_name="west", topics=topics)
            more = BrokerMetrics(broker.broker, "west", topics=topics)
            async with serve_metrics(broker.cluster, options, more.read) as server:
                answer = await get(server.port, "/metrics")
            labels = f'cluster="west",namespace="public/default",subscription="sub",topic="{live}"'
            assert answer.samples.get(f"mledger_subscription_dropped_messages_total{{{labels}}}") == (
                2 if topics else None
            )
            assert bool(answer.samples.get(f"pulsar_subscription_msg_drop_rate{{{labels}}}")) is topics
            assert undocumented(answer) == []

    run(main())
