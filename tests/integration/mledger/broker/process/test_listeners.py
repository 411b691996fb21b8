"""TLS at a broker's ports, under the official Python client and under connections that do it wrong."""

import contextlib
import json
import socket
import ssl
import urllib.request
from urllib.parse import urlsplit

import pulsar
import pytest

from tests.support.brokers.broker_process import QUIET, exchange, fails, own, started, tls
from tests.support.certificates import certify, certify_by


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The broker's certificate."""
    return certify(tmp_path_factory.mktemp("certificates") / "broker")


@pytest.fixture(scope="module")
def client_certificate(certified, tmp_path_factory):
    """A client's certificate, of the same authority."""
    return certify_by(certified, tmp_path_factory.mktemp("client"), "billing")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A certificate of another authority."""
    return certify(tmp_path_factory.mktemp("foreign"), "billing")


@pytest.fixture(scope="module")
def broker(broker_bookie, certified, tmp_path_factory):
    """A broker with and without TLS, whose clients may show certificates."""
    log = tmp_path_factory.mktemp("broker") / "broker.log"
    settings = tls(certified, f"tlsTrustCertsFilePath={certified.authority}")
    with started(broker_bookie.metadata_url, log, *settings, options=("--metrics-port", "0")) as run:
        yield run


def test_a_client_sends_and_receives_by_tls(broker, topic, certified):
    assert broker.service_url_tls.startswith("pulsar+ssl://127.0.0.1:")
    assert exchange(broker.service_url_tls, topic, certified.authority) == b"hello"
    assert exchange(broker.service_url, topic, certified.authority) == b"hello"


def test_messages_of_many_frames_arrive_by_tls(broker, topic, certified):
    client = pulsar.Client(broker.service_url_tls, tls_trust_certs_file_path=str(certified.authority), logger=QUIET)
    consumer = client.subscribe(topic, "sub")
    producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    large = bytes(range(256)) * (12 << 12)
    producer.send(large)
    assert consumer.receive(60_000).data() == large
    client.close()


def test_a_client_with_an_https_url_is_told_where_tls_is_served(broker, topic, certified):
    url = f"https://127.0.0.1:{broker.web_port_tls}"
    context = ssl.create_default_context(cafile=str(certified.authority))
    path = f"/lookup/v2/topic/{topic.replace('://', '/')}"
    with urllib.request.urlopen(f"{url}{path}", context=context) as answer:
        assert json.load(answer)["brokerUrlTls"] == broker.service_url_tls
    assert exchange(url, topic, certified.authority) == b"hello"


def test_a_client_that_trusts_another_authority_goes_away(broker, topic, certified, foreign):
    fails(broker.service_url_tls, topic, foreign.authority)
    assert exchange(broker.service_url_tls, topic, certified.authority) == b"hello"


def test_a_certificate_of_another_authority_ends_the_handshake(broker, topic, certified, client_certificate, foreign):
    fails(broker.service_url_tls, topic, certified.authority, authentication=own(foreign))
    assert "event=tls_handshake_failed" in broker.log_path.read_text()
    certificate = own(client_certificate)
    assert exchange(broker.service_url_tls, topic, certified.authority, authentication=certificate) == b"hello"


@pytest.mark.parametrize(
    "sent", [b"\0\0\0\x08\0\0\0\x04\x08\x02\x12\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000]
)
def test_what_is_no_handshake_ends_its_own_connection_only(broker, topic, certified, sent):
    for port in (urlsplit(broker.service_url_tls).port, broker.web_port_tls):
        with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(sent)
            while connection.recv(1 << 16):
                pass
    assert broker.running
    assert exchange(broker.service_url_tls, topic, certified.authority) == b"hello"


def test_clients_that_go_away_in_the_handshake_leave_nothing(broker, topic, certified):
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", urlsplit(broker.service_url_tls).port)) as connection:
            connection.sendall(b"\x16\x03\x01")
    assert exchange(broker.service_url_tls, topic, certified.authority) == b"hello"
    assert "Traceback" not in broker.log_path.read_text()
