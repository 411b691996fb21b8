"""A real Pulsar broker on bookies of ours: the basis of the other tests of it."""

import pytest

from tests.support.cli import answer

pytestmark = pytest.mark.interop


def test_what_a_client_sends_is_delivered_to_it_and_described_by_us(pulsar):
    sent = [b"message %d" % number for number in range(20)]
    with pulsar.client() as client:
        consumer = client.subscribe("public/default/first", "all of it")
        producer = client.create_producer("public/default/first")
        for payload in sent:
            producer.send(payload)
        received = [consumer.receive(60_000).data() for _ in sent]
    assert received == sent
    described = answer("topics", "describe", "persistent://public/default/first", url=pulsar.url)
    assert (described["topic"], described["entries"]) == ("persistent://public/default/first", 20)
