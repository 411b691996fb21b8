"""Brokers that serve HTTP by TLS only, with certificates of an authority of their own, ask each other."""

import json
import ssl
import urllib.error
import urllib.request

import pytest

from tests.support.brokers.broker_process import started, tls
from tests.support.certificates import certify, certify_by

PARTITIONS = 16


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The brokers' certificate, and their authority."""
    return certify(tmp_path_factory.mktemp("certificates") / "broker")


@pytest.fixture(scope="module")
def admin(certified, tmp_path_factory):
    """The certificate of an administrator."""
    return certify_by(certified, tmp_path_factory.mktemp("admin"), "admin")


def asked(run, certified, shown, method, path, body=None):
    """The status of a request by a client with this certificate, and the JSON of the answer."""
    context = ssl.create_default_context(cafile=certified.authority)
    context.load_cert_chain(shown.certificate, shown.key)
    request = urllib.request.Request(
        f"https://127.0.0.1:{run.web_port_tls}/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def settings_of(certified, *more):
    return tls(
        certified,
        f"tlsTrustCertsFilePath={certified.authority}",
        "webServicePort=",
        "authenticationEnabled=true",
        "authorizationEnabled=true",
        "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderTls",
        "superUserRoles=admin,localhost",
        *more,
    )


def stats_of_partitions(first, certified, admin, topic):
    """What a broker answers that has to ask another one for some of the partitions."""
    base = f"admin/v2/{topic.replace('://', '/')}"
    assert asked(first, certified, admin, "PUT", f"{base}/partitions", PARTITIONS)[0] == 204
    lookups = [
        asked(first, certified, admin, "GET", f"lookup/v2/topic/{topic.replace('://', '/')}-partition-{index}")[1]
        for index in range(PARTITIONS)
    ]
    assert len({found["brokerUrlTls"] for found in lookups}) == 2
    return asked(first, certified, admin, "GET", f"{base}/partitioned-stats?perPartition=true")


def test_a_client_with_a_certificate_is_answered_for_all_partitions(broker_url, own_topic, tmp_path, certified, admin):
    settings = settings_of(
        certified,
        f"brokerClientTrustCertsFilePath={certified.authority}",
        f"brokerClientCertificateFilePath={certified.certificate}",
        f"brokerClientKeyFilePath={certified.key}",
    )
    with started(broker_url, tmp_path / "a", *settings) as first, started(broker_url, tmp_path / "b", *settings):
        status, found = stats_of_partitions(first, certified, admin, own_topic)
        assert (status, len(found["partitions"])) == (200, PARTITIONS)


def test_without_their_authority_the_answer_says_why(broker_url, own_topic, tmp_path, certified, admin):
    settings = settings_of(certified)
    with started(broker_url, tmp_path / "a", *settings) as first, started(broker_url, tmp_path / "b", *settings):
        status, why = stats_of_partitions(first, certified, admin, own_topic)
        assert status == 503
        assert "certificate verify failed" in why
