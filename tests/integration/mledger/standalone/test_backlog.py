"""Waits for subscriptions of a standalone."""

import pytest

import mledger


@pytest.fixture(scope="module")
def pulsar():
    with mledger.start_standalone_process() as running:
        yield running


def test_a_subscription_is_drained_once_all_is_acknowledged(pulsar, client_of):
    with client_of(pulsar.service_url) as client:
        consumer = client.subscribe("drained")
        client.publish("drained", b"0", b"1")
        with pytest.raises(mledger.StandaloneError, match="it has a backlog of 2 after 0 s"):
            pulsar.wait_until_drained("drained", "sub", timeout_s=0)
        client.receive(consumer, 2)
        pulsar.wait_until_drained("drained", "sub")


def test_a_topic_that_nobody_opens_is_named(pulsar):
    with pytest.raises(mledger.StandaloneError, match="subscription sub of closed is not drained: the broker does not"):
        pulsar.wait_until_drained("closed", "sub", timeout_s=0)
