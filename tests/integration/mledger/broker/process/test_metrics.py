"""A broker's metrics: what clients do, under Pulsar's names, each of them documented."""

import asyncio

import pytest

import mledger
from mledger.broker.process import metrics
from mledger.broker.process.metrics import BrokerMetrics
from mledger.broker.topics import client_rates
from mledger.broker.topics.backlog_limits import BacklogLimits
from mledger.broker.topics.client_rates import RateSampler
from mledger.broker.topics.subscriptions import cursor_advance, driver, subscription
from mledger.metastore.runtime.exposition import Families, expose
from mledger.metastore.runtime.network.http import HttpRequest
from mledger.metrics import serve_metrics
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served
from tests.support.clock import SECOND_MS, Clock
from tests.support.http import get, undocumented

Type = pb.BaseCommand


async def scraped(broker, *, topics=True):
    """The metrics of a broker's process, of topics or of namespaces."""
    more = BrokerMetrics(broker.broker, "west", topics=topics)
    options = mledger.MetricsOptions(cluster_name="west", topics=topics)
    async with serve_metrics(broker.cluster, options, more.read) as server:
        return await get(server.port, "/metrics")


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
            found = await scraped(broker, topics=topics)
            labels = 'cluster="west",namespace="public/default"' + (f',topic="{topic}"' if topics else "")
            of_consumers = labels.replace("topic", 'subscription="sub",topic')
            expected = {
                'pulsar_active_connections{cluster="west"}': 1,
                'pulsar_connection_created_total_count{cluster="west"}': 1,
                'pulsar_connection_closed_total_count{cluster="west"}': 0,
                'pulsar_broker_topics_count{cluster="west"}': 1,
                'pulsar_broker_subscriptions_count{cluster="west"}': 1,
                'pulsar_broker_producers_count{cluster="west"}': 1,
                'pulsar_broker_consumers_count{cluster="west"}': 1,
                'pulsar_broker_msg_backlog{cluster="west"}': 2,
                f"pulsar_producers_count{{{labels}}}": 1,
                f"pulsar_in_messages_total{{{labels}}}": 3,
                f"pulsar_out_messages_total{{{of_consumers}}}": 3,
            }
            assert {name: found.samples[name] for name in expected} == expected
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
            answer = await scraped(broker, topics=topics)
            labels = f'cluster="west",namespace="public/default",subscription="sub",topic="{live}"'
            assert answer.samples.get(f"mledger_subscription_dropped_messages_total{{{labels}}}") == (
                2 if topics else None
            )
            assert bool(answer.samples.get(f"pulsar_subscription_msg_drop_rate{{{labels}}}")) is topics
            assert undocumented(answer) == []

    run(main())


def test_the_backlog_is_shown_with_its_quotas(broker_url, topic):
    async def main():
        async with served(broker_url, "backlogQuotaDefaultLimitBytes=1000") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            sent = await client.publish_all(b"0", b"1")
            client.publish(b"later", sequence=2, deliver_at=1 << 42)
            await client.expect("message")
            (opened,) = broker.broker.topics.open
            (subscription,) = opened.subscriptions
            while not subscription.delayed:
                await client.receive()
            back = {"consumer_id": 0, "message_ids": [pb.MessageIdData(ledgerId=sent[0].ledger_id, entryId=0)]}
            subscription.consumers[0].dispatch.permits = 0  # so that it waits
            client.send(Type.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", **back)
            await client.request(Type.CONSUMER_STATS, "consumerStats", "consumerStatsResponse", consumer_id=0)
            answer = await scraped(broker)
            labels = f'cluster="west",namespace="public/default",topic="{topic}"'
            named = labels.replace("topic", 'subscription="sub",topic')
            expected = {
                f"pulsar_storage_backlog_size{{{labels}}}": opened.managed_ledger.total_size,
                f"pulsar_storage_backlog_age_seconds{{{labels}}}": -1,
                f"pulsar_storage_backlog_quota_limit{{{labels}}}": 1000,
                f"pulsar_storage_backlog_quota_limit_time{{{labels}}}": -1,
                f"pulsar_subscription_back_log_no_delayed{{{named}}}": 2,
                f"pulsar_subscription_in_replay{{{named}}}": 1,
            }
            assert {name: answer.samples[name] for name in expected} == expected
            assert undocumented(answer) == []

    run(main())


@pytest.mark.parametrize(("limit", "blocked"), [("Subscription", 1), ("Consumer", 0)])
def test_a_subscription_that_is_held_back_by_its_own_limit_is_shown(broker_url, topic, limit, blocked):
    async def main():
        async with served(broker_url, f"maxUnackedMessagesPer{limit}=1") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.publish_all(b"0", b"1")
            await client.messages(1)
            answer = await scraped(broker)
            labels = f'cluster="west",namespace="public/default",subscription="sub",topic="{topic}"'
            assert answer.samples[f"pulsar_subscription_blocked_on_unacked_messages{{{labels}}}"] == blocked

    run(main())


def test_evictions_for_a_quota_are_counted(broker_url, topic):
    settings = ("backlogQuotaDefaultLimitBytes=1", "backlogQuotaDefaultRetentionPolicy=consumer_backlog_eviction")

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await client.publish_all(b"0")
            (opened,) = broker.broker.topics.open
            await BacklogLimits(lambda: [opened], broker.broker.settings).check_quota(opened)
            answer = await scraped(broker)
            name, labels = "pulsar_storage_backlog_quota_exceeded_evictions_total", f'topic="{topic}"'
            counts = [
                answer.samples[f'{name}{{cluster="west",namespace="public/default",quota_type="{each}",{labels}}}']
                for each in ("size", "time")
            ]
            assert counts == [1, 0]
            assert undocumented(answer) == []

    run(main())


@pytest.mark.parametrize("exposed", ["true", "false"])
def test_consumers_and_producers_are_shown_where_the_settings_say_so(broker_url, topic, exposed):
    levels = [f"expose{level}LevelMetricsInPrometheus={exposed}" for level in ("Consumer", "Producer")]

    async def main():
        async with served(broker_url, *levels) as broker:
            client, other = await broker.connect(), await broker.connect()
            await client.producer(3, topic=topic, producer_name="p")
            for each in (client, other):  # alike: they are one series
                await each.subscribe(7, topic=topic, subType="Shared", consumer_name="c", permits=10)
            client.publish(b"0", number=3)
            await client.expect("send_receipt")
            (opened,) = broker.broker.topics.open
            (subscription,) = opened.subscriptions
            assert subscription.messages_out == 1  # it is sent on as it is stored
            answer = await scraped(broker)
            found = {name: value for name, value in answer.samples.items() if "_name=" in name}
            assert bool(found) is (exposed == "true")
            if found:
                labels = f'consumer_name="c",namespace="public/default",subscription="sub",topic="{topic}"'
                named = f'{{cluster="west",consumer_id="7",{labels}}}'
                assert found[f"pulsar_consumer_unacked_messages{named}"] == 1
                assert found[f"pulsar_consumer_available_permits{named}"] == 19
                assert found[f"pulsar_consumer_blocked_on_unacked_messages{named}"] == 0
                (rate,) = (each for each in found if "producer_msg_rate_in" in each)
                assert 'producer_id="3",producer_name="p"' in rate
            assert undocumented(answer) == []

    run(main())


@pytest.mark.parametrize("topics", [True, False])
def test_rates_and_times_are_those_of_the_figures(broker_url, topic, topics, monkeypatch):
    rates_clock, clock = Clock(), Clock()
    monkeypatch.setattr(client_rates, "steady_ms", rates_clock)
    for module in (cursor_advance, subscription, driver):
        monkeypatch.setattr(module, "wall_clock_ms", clock)

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.messages(3)
            await client.ack_durably(sent[0])
            (opened,) = broker.broker.topics.open
            (served_subscription,) = opened.subscriptions
            await served_subscription.advance.expire_through(served_subscription.cursor, sent[1])
            rates_clock.ms += 3 * SECOND_MS
            await RateSampler(lambda: [opened], 60).look(0)
            answer = await scraped(broker, topics=topics)
            of_topic = 'cluster="west",namespace="public/default"' + (f',topic="{topic}"' if topics else "")
            ones = ("rate_in", "rate_out", "storage_write_rate", "storage_read_rate")
            found = {name: answer.samples[f"pulsar_{name}{{{of_topic}}}"] for name in ones}
            assert found == dict.fromkeys(ones, 1)
            assert answer.samples[f"pulsar_storage_write_latency_count{{{of_topic}}}"] == 3
            assert answer.samples[f"pulsar_entry_size_le_128{{{of_topic}}}"] == 3
            labels = f'cluster="west",namespace="public/default",subscription="sub",topic="{topic}"'
            expected = {
                "msg_rate_out": 1,
                "msg_ack_rate": 1 / 3,
                "msg_rate_redeliver": 0,
                "total_msg_expired": 1,
                "last_consumed_flow_timestamp": clock.ms,
                "last_consumed_timestamp": clock.ms,
                "last_acked_timestamp": clock.ms,
                "last_mark_delete_advanced_timestamp": clock.ms,
                "last_expire_timestamp": 0,
            }
            of_subscription = {name: answer.samples.get(f"pulsar_subscription_{name}{{{labels}}}") for name in expected}
            assert of_subscription == (expected if topics else dict.fromkeys(expected))
            assert undocumented(answer) == []

    run(main())
