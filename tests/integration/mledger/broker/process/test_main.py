"""A broker process under the official Python client: it serves, ends in order, and survives kill -9."""

import contextlib

import pulsar
import pytest

from tests.support.brokers.broker_process import BrokerRun

RECEIVE_MS = 120_000


@pytest.fixture(scope="module")
def shared_broker(broker_bookie, tmp_path_factory):
    """The broker of all tests here, which may kill it."""
    run = BrokerRun(broker_bookie.metadata_url, tmp_path_factory.mktemp("broker") / "broker.log")
    yield run
    if run.running:
        run.kill()


@pytest.fixture
def broker(shared_broker):
    """A running broker."""
    return shared_broker if shared_broker.running else shared_broker.start()


@contextlib.contextmanager
def client_of(broker):
    """The official client."""
    client = pulsar.Client(
        broker.service_url,
        operation_timeout_seconds=120,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        yield client
    finally:
        client.close()


def receive(consumer, count):
    """The next messages, acknowledged."""
    found = []
    for _ in range(count):
        message = consumer.receive(timeout_millis=RECEIVE_MS)
        consumer.acknowledge(message)
        found.append(message.data())
    return found


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "KeyShared"])
@pytest.mark.parametrize("batched", [True, False])
def test_a_client_consumes_what_it_published(broker, topic, kind, batched):
    with client_of(broker) as client:
        consumer = client.subscribe(topic, "sub", getattr(pulsar.ConsumerType, kind))
        producer = client.create_producer(topic, batching_enabled=batched)
        sent = [b"%d" % number for number in range(100)]
        for payload in sent:
            producer.send_async(payload, lambda result, message_id: None)
        producer.flush()
        assert receive(consumer, 100) == sent


def test_a_chunked_message_arrives_whole(broker, topic):
    with client_of(broker) as client:
        consumer = client.subscribe(topic, "sub")
        producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        large = bytes(range(256)) * (12 << 12)
        producer.send(large)
        assert receive(consumer, 1) == [large]


def test_a_reader_reads_from_the_first_message_to_the_last(broker, topic):
    with client_of(broker) as client:
        producer = client.create_producer(topic)
        for number in range(5):
            producer.send(b"%d" % number)
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(timeout_millis=RECEIVE_MS).data())
        assert found == [b"0", b"1", b"2", b"3", b"4"]


def test_clients_go_on_after_kill_9_and_lose_nothing(broker, topic):
    with client_of(broker) as client:
        producer = client.create_producer(topic)
        consumer = client.subscribe(topic, "sub")
        for number in range(10):
            producer.send(b"%d" % number)
        assert receive(consumer, 5) == [b"%d" % number for number in range(5)]
        broker.kill()
        broker.start()
        producer.send(b"10")
        found = []
        while b"10" not in found:  # acknowledgements that no answer confirmed may be lost
            found += receive(consumer, 1)
        assert found[-6:] == [b"%d" % number for number in range(5, 11)]


def test_sigterm_ends_it_in_order(broker, topic):
    with client_of(broker) as client:
        consumer = client.subscribe(topic, "sub")  # without one, the ledger is consumed once it is closed
        producer = client.create_producer(topic)
        producer.send(b"0")
        logged = len(broker.log_path.read_text())
        assert broker.stop() == 0
        assert "event=stopped" in broker.log_path.read_text()[logged:]
        broker.start()
        producer.send(b"1")
        assert receive(consumer, 2) == [b"0", b"1"]
