"""Who owns a topic while a real Pulsar broker is live (M9)."""

import asyncio
import json
import time

import pytest

from mledger import ManagedLedgerConfig, ManagedLedgerFenced, open_cluster
from tests.support.aio import run
from tests.support.cli import answer, mledger
from tests.support.java.pulsar_broker import SESSION_TIMEOUT_S
from tests.support.pulsar_entries import pulsar_entry

pytestmark = pytest.mark.interop

ROLLING = ManagedLedgerConfig(
    max_entries_per_ledger=1, minimum_rollover_time_ms=0, retention_time_ms=-1, retention_size_in_mb=-1
)
"""Makes each entry cause a write of the topic's record."""


def produce(pulsar, topic, count=5):
    with pulsar.client() as client:
        client.subscribe(topic, "sub").close()
        producer = client.create_producer(topic)
        for number in range(count):
            producer.send(b"%d" % number)


def unload_namespace(pulsar, namespace):
    pulsar.broker.ask("PUT", f"v2/namespaces/{namespace}/unload")


def clear(pulsar, topic):
    return mledger("cursors", "clear", f"persistent://{topic}", "sub", "--yes", "--output", "json", url=pulsar.url)


def test_a_topic_that_the_live_broker_serves_is_refused_at_once_and_the_broker_named(pulsar, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    topic = f"{pulsar.namespace('served')}/topic"
    produce(pulsar, topic)
    began = time.monotonic()
    refused = clear(pulsar, topic)
    assert refused.code == 4
    assert f"the Pulsar broker {pulsar.broker.service_url} serves its bundle" in refused.err
    assert time.monotonic() - began < SESSION_TIMEOUT_S
    assert pulsar.internal_stats(topic)["numberOfEntries"] == 5
    assert pulsar.broker.service_url in json.dumps(
        answer("topics", "describe", f"persistent://{topic}", url=pulsar.url)
    )


def test_a_topic_that_nobody_serves_is_not_refused_although_a_broker_is_live(pulsar, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = pulsar.namespace("unserved")
    topic, neighbour = f"{namespace}/topic", "public/default/still-served"
    produce(pulsar, topic)
    produce(pulsar, neighbour)
    unload_namespace(pulsar, namespace)
    cleared = clear(pulsar, topic)
    assert cleared.code == 0, cleared.err
    assert clear(pulsar, neighbour).code == 4
    with pulsar.client() as client:
        consumer = client.subscribe(topic, "sub")
        client.create_producer(topic).send(b"next")
        assert consumer.receive(60_000).data() == b"next"


def test_a_busy_owner_yields_to_the_broker_that_loads_its_topic_for_a_client(pulsar):
    """Each of its writes of the topic's record would make the broker fail to load it."""
    topic = f"{pulsar.namespace('busy')}/topic"
    produce(pulsar, topic, 1)
    unload_namespace(pulsar, "public/busy")
    acknowledged = []

    async def write(opened, busy):
        while True:
            payload = b"ours %d" % len(acknowledged)
            await opened.append([pulsar_entry(0, payload)])
            acknowledged.append(payload)
            if len(acknowledged) == 20:
                busy.set()

    def receive():
        with pulsar.client() as client:
            consumer = client.subscribe(topic, "sub")
            client.create_producer(topic).send(b"the broker's")
            received = []
            while not received or received[-1] != b"the broker's":
                received.append(consumer.receive(60_000).data())
            return received

    async def main():
        async with open_cluster(pulsar.url, config=ROLLING) as cluster:
            opened = await cluster.open_topic(f"persistent://{topic}")
            busy = asyncio.Event()
            writing = asyncio.ensure_future(write(opened, busy))
            await asyncio.wait([writing, asyncio.ensure_future(busy.wait())], return_when=asyncio.FIRST_COMPLETED)
            received = await asyncio.to_thread(receive)
            with pytest.raises(ManagedLedgerFenced, match=f"the Pulsar broker {pulsar.broker.service_url} serves"):
                await writing
            return received

    first, *ours, last = run(main(), timeout=300)
    in_flight = b"ours %d" % len(acknowledged)
    assert (first, last) == (b"0", b"the broker's")
    assert ours in (acknowledged, [*acknowledged, in_flight])
