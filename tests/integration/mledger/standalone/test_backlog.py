"""Waits for subscriptions of a standalone."""

import urllib.request

import pytest

import mledger
from mledger.standalone.backlog import wait_until_durable
from tests.support.ports import free_late_port


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


@pytest.mark.parametrize("name", ["a b", "ü%", 'q"\\'])
def test_names_that_are_written_otherwise_elsewhere_are_found(pulsar, client_of, name):
    topic = f"persistent://public/default/{name}"
    with client_of(pulsar.service_url) as client:
        client.subscribe(topic, name)
        pulsar.wait_until_drained(topic, name)


def test_a_partition_that_is_not_open_may_have_a_backlog(pulsar, client_of):
    partitions = f"{pulsar.admin_url}/admin/v2/persistent/public/default/parted/partitions"
    urllib.request.urlopen(urllib.request.Request(partitions, b"2", {"Content-Type": "application/json"}, method="PUT"))
    with client_of(pulsar.service_url) as client:
        client.subscribe("parted-partition-0")
        with pytest.raises(mledger.StandaloneError, match="does not have it and all its partitions open"):
            pulsar.wait_until_drained("parted", "sub", timeout_s=0)
        client.subscribe("parted-partition-1")
        pulsar.wait_until_drained("parted", "sub")


def test_a_broker_that_does_not_answer_is_named():
    port = free_late_port()
    with pytest.raises(mledger.StandaloneError, match=f"127.0.0.1:{port}.* has no answer: .*refused"):
        wait_until_durable(f"http://127.0.0.1:{port}", "orders")


def test_metrics_that_need_credentials_are_named_with_the_setting(tmp_path):
    key = tmp_path / "token.key"
    key.write_bytes(bytes(32))
    settings = {
        "authenticationEnabled": True,
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": key.as_uri(),
    }
    with (
        mledger.start_standalone_process(settings=settings) as running,
        pytest.raises(mledger.StandaloneError, match=r"/metrics needs credentials .*authenticateMetricsEndpoint=false"),
    ):
        running.wait_until_durable("orders")


def test_a_proxy_of_the_machine_is_not_asked(pulsar, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_late_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # which remembers the proxies of its first use
    pulsar.wait_until_durable("orders")
