"""Pulsar's official client, for the tests of standalones."""

import contextlib

import pulsar
import pytest

RECEIVE_MS = 120_000


class ClientOfStandalone:
    """What the tests do with the official client."""

    def __init__(self, client):
        self.client = client

    def publish(self, topic, *payloads):
        """Publish, and wait for every acknowledgement."""
        producer = self.client.create_producer(topic)
        for payload in payloads:
            producer.send(payload)
        producer.close()

    def subscribe(self, topic, name="sub"):
        """A consumer that begins with the first message."""
        return self.client.subscribe(topic, name, initial_position=pulsar.InitialPosition.Earliest)

    @staticmethod
    def receive(consumer, count):
        """The next payloads, acknowledged."""
        found = []
        for _ in range(count):
            message = consumer.receive(timeout_millis=RECEIVE_MS)
            consumer.acknowledge(message)
            found.append(message.data())
        return found


@pytest.fixture
def client_of():
    """Makes a context with the client of a service URL."""

    @contextlib.contextmanager
    def opened(service_url):
        client = pulsar.Client(
            service_url, operation_timeout_seconds=120, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        try:
            yield ClientOfStandalone(client)
        finally:
            client.close()

    return opened
