"""A real Pulsar broker on bookies of ours: what the other tests of it stand on."""

import pytest

from tests.support.cli import answer

pytestmark = pytest.mark.interop


def test_what_a_client_is_acknowledged_is_what_it_is_delivered_and_what_we_describe(pulsar):
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
