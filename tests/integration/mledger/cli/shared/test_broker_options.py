"""`mledger topics stats` and its like, of a broker that authenticates, over HTTPS with a certificate of its own."""

import jwt
import pulsar
import pytest

from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.brokers.broker_process import QUIET, started, tls
from tests.support.certificates import certify
from tests.support.cli import answer, mledger, ok

SECRET = b"s" * 32
TOPIC = "persistent://public/default/guarded"


def token(role):
    return jwt.encode({"sub": role}, SECRET, "HS256")


@pytest.fixture
def guarded(rocksdb_thread, tmp_path):
    """The URL of a cluster whose broker wants tokens and serves HTTPS, and the authority of its certificate."""
    certified = certify(tmp_path / "broker")
    server = rocksdb_thread.serve(tmp_path / "metadata")
    initialize_cluster(server.url)
    processes = BookieProcesses(server.url, tmp_path / "bookies")
    processes.start(1)
    settings = tls(
        certified,
        "authenticationEnabled=true",
        "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        f"tokenSecretKey=data:,{SECRET.decode()}",
        "authorizationEnabled=true",
        "superUserRoles=admin",
    )
    with started(server.url, tmp_path / "log", *settings, options=("--metrics-port", "0")) as run:
        authentication = pulsar.AuthenticationToken(token("admin"))
        client = pulsar.Client(run.service_url, authentication=authentication, logger=QUIET)
        client.subscribe(TOPIC, "billing", consumer_name="till")
        client.create_producer(TOPIC).send(b"order")
        yield server.url, certified.authority
        client.close()
    processes.close()
    rocksdb_thread.stop(server)


def test_figures_need_a_token_and_a_trusted_authority(guarded, tmp_path, monkeypatch):
    url, authority = guarded
    file = tmp_path / "token"
    file.write_text(f"{token('admin')}\n")
    secured = ("--token-file", file, "--trust-certs", authority)
    assert answer("topics", "stats", TOPIC, *secured, url=url)["msgInCounter"] == 1
    assert answer("topics", "subscriptions", TOPIC, *secured, url=url)[0]["subscription"] == "billing"
    assert answer("topics", "consumers", TOPIC, *secured, url=url)[0]["consumerName"] == "till"
    assert ok("topics", "peek", TOPIC, "billing", *secured, url=url).out == "order\n"
    monkeypatch.setenv("MLEDGER_TOKEN_FILE", str(file))
    assert ok("topics", "stats", TOPIC, "--trust-certs", authority, url=url)
    monkeypatch.delenv("MLEDGER_TOKEN_FILE")
    missing = mledger("topics", "stats", TOPIC, url=url)
    assert (missing.code, "--token-file" in missing.err) == (5, True)
    for role, code in (("admin", 0), ("stranger", 5)):
        monkeypatch.setenv("MLEDGER_TOKEN", token(role))
        done = mledger("topics", "stats", TOPIC, url=url)
        assert done.code == code
        assert token(role) not in done.err
    assert "give it a valid token of a role that may do that" in done.err
    other = certify(tmp_path / "other").authority
    assert "--trust-certs" in mledger("topics", "stats", TOPIC, "--trust-certs", other, url=url).err
