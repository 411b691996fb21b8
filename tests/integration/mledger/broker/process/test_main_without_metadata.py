"""A broker process ends when it is told to, although its ZooKeeper is gone."""

import pulsar
import pytest

from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.brokers.broker_process import ONE_BOOKIE, BrokerRun

TOPIC = "persistent://public/default/orders"


@pytest.fixture
def bookie(zookeeper_server, tmp_path):
    """A bookie on a ZooKeeper that the test stops."""
    initialize_cluster(zookeeper_server.url)
    processes = BookieProcesses(zookeeper_server.url, tmp_path / "bookies")
    processes.start(1)
    yield processes
    processes.close()


def test_sigterm_ends_it_without_waiting_for_a_store_that_is_gone(zookeeper_server, bookie, tmp_path):
    """With every wait for the store at its full length this would exceed the limit, which ends the process with 1."""
    broker = BrokerRun(zookeeper_server.url, tmp_path / "broker.log", (*ONE_BOOKIE, "brokerShutdownTimeoutMs=60000"))
    broker.start()
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(TOPIC, "sub")
    client.create_producer(TOPIC).send(b"0")
    consumer.acknowledge(consumer.receive())
    zookeeper_server.kill()
    assert broker.stop() == 0
    logged = broker.log_path.read_text()
    assert "broker_not_unregistered" in logged
    assert "event=stopped" in logged
    client.close()
