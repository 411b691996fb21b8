"""Who owns a topic where a real Pulsar broker is live (M9)."""

import json
import time

import pytest

from tests.support.cli import answer, mledger
from tests.support.pulsar_broker import SESSION_TIMEOUT_S

pytestmark = pytest.mark.interop


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


def test_a_topic_that_nobody_serves_is_not_refused_though_a_broker_is_live(pulsar, tmp_path, monkeypatch):
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
