"""Pulsar's broker and one of ours, which the same administration is asked of."""

from dataclasses import dataclass

import pulsar as official
import pytest

from tests.support.brokers.broker_process import BrokerRun
from tests.support.java.pulsar_broker import CLUSTER
from tests.support.java.pulsar_cluster import QUIET
from tests.support.ports import free_late_port


@dataclass
class ComparedBroker:
    """One of the two brokers, with the ledger of the message that was sent last."""

    port: int
    service_url: str
    ledger: int = -1

    def send(self, topic: str, messages: int) -> None:
        """Send messages by the official client."""
        client = official.Client(self.service_url, logger=QUIET)
        producer = client.create_producer(topic, producer_name="compared")  # the sizes of given names differ
        for number in range(messages):
            sent = producer.send(b"m%d" % number, properties={"n": str(number)}, partition_key=str(number))
            self.ledger = sent.ledger_id()
        client.close()


@pytest.fixture(scope="module")
def of_pulsar(pulsar):
    """Pulsar's broker."""
    return ComparedBroker(pulsar.broker.web_port, pulsar.broker.service_url)


@pytest.fixture(scope="module")
def own(our_bookies, tmp_path_factory):
    """A broker of ours on a cluster of its own."""
    log, port = tmp_path_factory.mktemp("compared") / "broker.log", free_late_port()
    options, settings = ("--metrics-port", str(port)), (f"clusterName={CLUSTER}",)
    run = BrokerRun(our_bookies.tree.url, log, settings=settings, options=options).start()
    yield ComparedBroker(port, run.service_url)
    run.stop()
