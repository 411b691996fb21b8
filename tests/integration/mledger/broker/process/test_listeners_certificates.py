"""Brokers that differ in their certificates: what they demand, and certificates that change while they run."""

import shutil

import pulsar
import pytest

from tests.support.brokers.broker_process import QUIET, BrokerRun, exchange, fails, own, started, tls
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


def test_a_required_certificate_admits_only_clients_that_have_one(
    broker_url, topic, tmp_path, certified, client_certificate, foreign
):
    settings = tls(
        certified,
        f"tlsTrustCertsFilePath={certified.authority}",
        "tlsRequireTrustedClientCertOnConnect=true",
        "brokerServicePort=",
    )
    with started(broker_url, tmp_path / "log", *settings, port=None) as run:
        assert run.service_url == ""
        fails(run.service_url_tls, topic, certified.authority)
        fails(run.service_url_tls, topic, certified.authority, authentication=own(foreign))
        certificate = own(client_certificate)
        assert exchange(run.service_url_tls, topic, certified.authority, authentication=certificate) == b"hello"


def test_a_new_certificate_is_served_to_the_next_client(broker_url, topic, tmp_path, certified, foreign):
    mine = certify(tmp_path / "mine")
    settings = tls(mine, "tlsCertRefreshCheckDurationSec=0")
    with started(broker_url, tmp_path / "log", *settings) as run:
        assert exchange(run.service_url_tls, topic, mine.authority) == b"hello"
        client = pulsar.Client(run.service_url_tls, tls_trust_certs_file_path=str(mine.authority), logger=QUIET)
        producer = client.create_producer(topic)
        shutil.copy(certified.certificate, mine.certificate)  # without its key: the certificate before stays
        assert exchange(run.service_url_tls, topic, mine.authority) == b"hello"
        shutil.copy(certified.key, mine.key)
        assert exchange(run.service_url_tls, topic, certified.authority) == b"hello"
        fails(run.service_url_tls, topic, mine.authority)
        producer.send(b"the old connection goes on")
        client.close()
        log = run.log_path.read_text()
        assert "event=certificates_not_renewed" in log
        assert "event=certificates_renewed" in log


def test_a_broker_without_its_key_does_not_start(broker_url, tmp_path, certified):
    settings = tls(certified)[:-1]
    run = BrokerRun(broker_url, tmp_path / "log", (*settings, f"tlsKeyFilePath={tmp_path / 'none.pem'}"))
    with pytest.raises(AssertionError, match=r"tlsKeyFilePath .*none\.pem"):
        run.start()


def test_two_brokers_that_serve_by_tls_only_share_topics(broker_url, topic, tmp_path, certified):
    settings = tls(certified, "brokerServicePort=")
    with (
        started(broker_url, tmp_path / "one", *settings, port=None) as one,
        started(broker_url, tmp_path / "two", *settings, port=None) as two,
    ):
        for run in (one, two):
            assert exchange(run.service_url_tls, topic, certified.authority) == b"hello"
        assert {run.running for run in (one, two)} == {True}
