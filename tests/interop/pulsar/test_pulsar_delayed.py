"""Delayed messages of a topic that moves from Java's broker to ours and back: all come, none early (D3)."""

import contextlib
import re
import time

import pulsar
import pytest

from tests.interop.conftest import start_our_bookies
from tests.support.brokers.broker_process import ONE_BOOKIE, BrokerRun
from tests.support.cli import answer
from tests.support.java.pulsar_cluster import QUIET, eventually, pulsar_cluster

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TICK_MS = 1_000
SOON_MS, LATER_MS = 40_000, 3_600_000
SETTINGS = {
    "delayedDeliveryTrackerFactoryClassName": "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory",
    "delayedDeliveryMinIndexCountPerBucket": 3,
    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment": 2,
    "delayedDeliveryTickTimeMillis": TICK_MS,
    "managedLedgerMaxEntriesPerLedger": 4,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
}
TOPIC = "persistent://public/default/delayed"


@pytest.fixture(scope="module")
def cluster(broker_class_path, tmp_path_factory):
    directory = tmp_path_factory.mktemp("delayed")
    with pulsar_cluster(broker_class_path, directory, start_our_bookies(directory / "bookies"), SETTINGS) as cluster:
        yield cluster


class OfficialClient:
    """An official client with a producer and a shared consumer; payloads say when they may come."""

    def __init__(self, service_url):
        self.client = pulsar.Client(service_url, logger=QUIET, operation_timeout_seconds=120)
        self.consumer = self.client.subscribe(TOPIC, "sub", pulsar.ConsumerType.Shared)
        self.producer = self.client.create_producer(TOPIC, batching_enabled=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def send(self, *due_times):
        for at in due_times:
            self.producer.send(b"%d" % at, deliver_at=at)
        self.producer.send(b"0")

    def receive(self, count=1, wait_ms=120_000):
        found = []
        for _ in range(count):
            message = self.consumer.receive(wait_ms)
            found.append(int(message.data()))
            assert now_ms() >= found[-1] - TICK_MS, "early"
            self.consumer.acknowledge(message)
        return found


def now_ms():
    return time.time_ns() // 1_000_000


def buckets(cluster):
    """The names of the buckets that the subscription's cursor has."""
    described = answer("cursors", "describe", TOPIC, "sub", url=cluster.url)
    return sorted(name for name in str(described).split("'") if name.startswith("#pulsar.internal.delayed.bucket_"))


def test_delayed_messages_stay_with_a_topic_that_moves_to_our_broker_and_back(cluster, tmp_path):
    begin, later = now_ms() + SOON_MS, now_ms() + LATER_MS
    soon = [begin + 100 * each for each in range(12)]
    first = [at for pair in zip(soon[:6], range(later, later + 6), strict=True) for at in pair]
    second = [at for pair in zip(soon[6:], range(later + 6, later + 12), strict=True) for at in pair]
    with OfficialClient(cluster.broker.service_url) as client:
        client.send(*first)
        assert client.receive() == [0]
        eventually(lambda: buckets(cluster) != [], lambda: "Java's broker has stored a bucket")
    cluster.broker.stop()
    of_java = set(buckets(cluster))
    assert of_java

    ours = BrokerRun(
        cluster.url, tmp_path / "broker.log", (*ONE_BOOKIE, *(f"{key}={value}" for key, value in SETTINGS.items()))
    ).start()
    try:
        with OfficialClient(ours.service_url) as client:
            client.send(*second)
            found = client.receive(1)
            while 0 not in found:
                found += client.receive(1)
            eventually(lambda: not of_java.issuperset(buckets(cluster)), lambda: "our broker has stored a bucket")
    finally:
        ours.kill()
    assert "delayed_messages_found" in ours.log_path.read_text()
    assert "delayed_messages_lost" not in ours.log_path.read_text()
    stored = buckets(cluster)
    assert of_java < set(stored)

    cluster.broker.start()
    with OfficialClient(cluster.broker.service_url) as client:
        while not set(soon) <= set(found):
            found += client.receive()
        with contextlib.suppress(pulsar.Timeout):  # what was not acknowledged when our broker was killed may come again
            while True:
                found += client.receive(wait_ms=2_000)
    restored = re.search(
        r"bucket snapshot finish, buckets: ([0-9]+), numberDelayedMessages: ([0-9]+)", cluster.broker.process.log()
    )
    assert restored is not None
    assert int(restored[1]) == len(stored)
    assert int(restored[2]) >= 2 * len(stored)
    assert set(found) == {0, *soon}
