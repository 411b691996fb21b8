"""Authentication and authorization of a broker, under the official Python client and over HTTP."""

import json
import time
import urllib.error
import urllib.request

import jwt
import pulsar
import pytest
from passlib.hash import apr_md5_crypt

from tests.support.brokers.broker_process import ONE_BOOKIE, exchange, fails, own, started, tls
from tests.support.certificates import certify, certify_by

SECRET = b"s" * 32
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


def token(role, key=SECRET, **claims):
    return jwt.encode({"sub": role, **claims}, key, "HS256")


def shown(role, **claims):
    return pulsar.AuthenticationToken(token(role, **claims))


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """The broker's certificate."""
    return certify(tmp_path_factory.mktemp("certificates") / "broker")


@pytest.fixture(scope="module")
def broker(broker_bookie, certified, tmp_path_factory):
    """A broker that authenticates and authorizes in every way."""
    directory = tmp_path_factory.mktemp("security")
    (directory / "token.key").write_bytes(SECRET)
    (directory / "users").write_text(f"admin:{apr_md5_crypt.hash('the password')}\n")
    settings = tls(
        certified,
        f"tlsTrustCertsFilePath={certified.authority}",
        "authenticationEnabled=true",
        f"authenticationProviders={PROVIDER}Token,{PROVIDER}Tls,{PROVIDER}Basic",
        f"tokenSecretKey=file://{directory / 'token.key'}",
        f"basicAuthConf={directory / 'users'}",
        "authorizationEnabled=true",
        "superUserRoles=admin",
        "proxyRoles=proxy",
    )
    with started(broker_bookie.metadata_url, directory / "log", *settings, options=("--metrics-port", "0")) as run:
        yield run


def ask(broker, path, credentials=None):
    """The status of an answer over HTTP."""
    request = urllib.request.Request(f"http://127.0.0.1:{broker.web_port}{path}")
    if credentials is not None:
        request.add_header("Authorization", f"Bearer {credentials}")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_each_kind_of_credentials_is_accepted(broker, topic, certified, tmp_path):
    assert exchange(broker.service_url, topic, authentication=shown("admin")) == b"hello"
    basic = pulsar.AuthenticationBasic("admin", "the password")
    assert exchange(broker.service_url, topic, authentication=basic) == b"hello"
    certificate = own(certify_by(certified, tmp_path / "client", "admin"))
    assert exchange(broker.service_url_tls, topic, certified.authority, authentication=certificate) == b"hello"


def test_wrong_credentials_are_refused_and_never_logged(broker, topic):
    expired, foreign = token("admin", exp=1), token("admin", key=b"f" * 32)
    unsigned = jwt.encode({"sub": "admin"}, None, "none")
    wrong = [pulsar.AuthenticationToken(each) for each in (expired, foreign, unsigned, "no token at all")]
    wrong += [pulsar.AuthenticationBasic("admin", "guessed password"), pulsar.AuthenticationBasic("nobody", "x"), None]
    for authentication in wrong:
        fails(broker.service_url, topic, authentication=authentication)
    log = broker.log_path.read_text()
    assert "event=client_refused" in log
    assert not [secret for secret in (expired, foreign, unsigned, "guessed password") if secret in log]
    assert exchange(broker.service_url, topic, authentication=shown("admin")) == b"hello"


def test_a_role_without_the_right_is_refused(broker, topic):
    fails(broker.service_url, topic, error=pulsar.PulsarException, authentication=shown("stranger"))
    assert "the role 'stranger' may not look up" in broker.log_path.read_text()
    fails(broker.service_url, topic, authentication=shown("proxy"))  # names no client of its own
    assert exchange(broker.service_url, topic, authentication=shown("admin")) == b"hello"


def test_a_role_without_the_right_is_told_of_a_tenant_that_does_not_exist(broker):
    name = "persistent://nobody/ns/orders"
    fails(broker.service_url, name, error=pulsar.exceptions.TopicNotFound, authentication=shown("stranger"))
    assert ask(broker, "/lookup/v2/topic/persistent/nobody/ns/orders", token("stranger")) == 404


def test_http_needs_credentials_and_the_right(broker, topic):
    path = f"/lookup/v2/topic/{topic.replace('://', '/')}"
    for asked in (path, "/admin/v2/clusters", "/admin/v2/tenants"):
        assert ask(broker, asked) == 401
        assert ask(broker, asked, token("admin", key=b"f" * 32)) == 401
        assert ask(broker, asked, token("admin")) == 200
    assert ask(broker, path, token("stranger")) == 401
    assert ask(broker, "/admin/v2/tenants", token("stranger")) == 401
    assert ask(broker, "/admin/v2/namespaces/public/default/topics", token("stranger")) == 403
    assert ask(broker, "/metrics") == 401
    assert ask(broker, "/metrics", token("stranger")) == 200
    assert ask(broker, "/health") == 200


def test_a_client_renews_a_token_that_expires(broker_url, topic, tmp_path):
    (tmp_path / "token.key").write_bytes(SECRET)
    settings = (
        *ONE_BOOKIE,
        "authenticationEnabled=true",
        f"authenticationProviders={PROVIDER}Token",
        f"tokenSecretKey=file://{tmp_path / 'token.key'}",
        "authenticationRefreshCheckSeconds=1",
    )
    made = []

    def next_token():
        made.append(token("admin", exp=int(time.time()) + 2))
        return made[-1]

    with started(broker_url, tmp_path / "log", *settings) as run:
        client = pulsar.Client(run.service_url, authentication=pulsar.AuthenticationToken(next_token))
        producer = client.create_producer(topic)
        while len(made) < 3:
            producer.send(json.dumps(len(made)).encode())
        client.close()
        assert "its credentials have expired" not in run.log_path.read_text()
