"""What a broker says that it has to do."""

import os

import pytest

from mledger.broker.topics import client_rates
from mledger.broker.topics.client_rates import RateSampler
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.clock import MINUTE_MS, Clock

RATES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")


def test_the_load_report_counts_clients_and_has_their_rates(broker_url, topic, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(client_rates, "steady_ms", clock)

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await client.publish_all(b"0", b"1", b"2")
            client.flow(3)
            await client.messages(3)
            clock.ms += MINUTE_MS
            await RateSampler(lambda: broker.broker.topics.open, 60).look(0)
            report = await broker.get("broker-stats/load-report")
            (opened,) = broker.broker.topics.open
        assert [report[name] for name in ("numTopics", "numProducers", "numConsumers")] == [1, 1, 1]
        assert [report[name] * 60 for name in RATES] == pytest.approx([3, 3, opened.bytes_in, opened.bytes_in])
        assert len(report["bundles"]) == report["numBundles"] == 1

    run(main())


def test_the_load_report_says_how_busy_the_machine_is(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            report = await broker.get("broker-stats/load-report")
        assert report["cpu"]["limit"] == 100 * os.cpu_count()
        assert 0 < report["memory"]["usage"] < report["memory"]["limit"]
        assert report["maxResourceUsage"] >= 0

    run(main())


def test_what_else_pulsar_tells_of_its_process_is_refused_by_name(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            for name in ("mbeans", "metrics", "allocator-stats/default", "bookieops"):
                status, why = await broker.refused("GET", f"broker-stats/{name}")
                assert (status, name in why) == (501, True)

    run(main())
