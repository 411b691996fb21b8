"""A real client's subscribe after the broker's restart, as one timeline."""

import json
import os

import pulsar

from tests.support.brokers.broker_process import BrokerRun

SERVED = (
    "request allowed",
    "partitions answered",
    "request allowed",
    "lookup answered",
    "request allowed",
    "subscribing",
    "loading topic",
    "opening",
    "ledger recovered",
    "ledger created",
    "topic created",
    "subscription opened",
    "subscription created",
)
RECOVERED = ("ledger created", "loading cursor", "recovered to position", "subscription opened")
"""Beside "topic created": a topic takes messages while its cursors are being recovered."""


def client_of(broker):
    quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    return pulsar.Client(broker.service_url, operation_timeout_seconds=120, logger=quiet)


def explained(broker, until):
    """The timeline up to the first event of that name."""
    found = []
    while not found or found[-1]["event"] != until:
        found.append(json.loads(broker.process.stdout.readline()))
    return found


def test_a_subscribe_after_a_restart_is_one_timeline(broker_url, topic, tmp_path):
    broker = BrokerRun(broker_url, tmp_path / "broker.log").start()
    try:
        client = client_of(broker)
        client.subscribe(topic, "billing")
        client.create_producer(topic).send(b"order")
        broker.kill()
        broker.options = ("--explain", "--log-format", "json")
        broker.port = 0  # the first client does not find it there, and subscribes no more
        broker.start()
        again = client_of(broker)
        again.subscribe(topic, "billing")
        timeline = explained(broker, "subscription created")
        again.close()
        client.close()
    finally:
        broker.kill()
    names = [each["event"] for each in timeline]
    assert [name for name in names if name in SERVED] == list(SERVED)
    assert [name for name in names if name in RECOVERED] == list(RECOVERED)
    assert {each["topic"] for each in timeline} == {topic}
    assert [each["time"] for each in timeline] == sorted(each["time"] for each in timeline)
    assert timeline[-1]["text"].startswith("Created subscription billing of 127.0.0.1:")
    assert timeline[-1]["text"].endswith("backlog 1")
