"""A broker, and commands, on bookies that demand TLS and a role."""

import pytest

from mledger.bookie.client.tls_settings import VARIABLE
from tests.support.bookies.encryption import arguments, broker_conf, demanding
from tests.support.bookies.processes import SMALL, BookieProcesses, initialize_cluster
from tests.support.broker_process import ONE_BOOKIE, exchange, started
from tests.support.certificates import certify, certify_by
from tests.support.cli import answer, mledger, ok


@pytest.fixture
def demanding_url(rocksdb_thread, certified, tmp_path):
    """A cluster with one such bookie."""
    server = rocksdb_thread.serve(tmp_path / "metadata")
    initialize_cluster(server.url)
    processes = BookieProcesses(server.url, tmp_path / "bookies", (*SMALL, *arguments(demanding(certified))))
    processes.start(1)
    yield server.url
    processes.close()
    rocksdb_thread.stop(server)


@pytest.fixture
def certified(tmp_path):
    """The bookie's certificate."""
    return certify(tmp_path / "bookie")


def test_messages_and_commands_go_over_tls(demanding_url, certified, tmp_path, topic, monkeypatch):
    conf = broker_conf(tmp_path / "broker.conf", certify_by(certified, tmp_path / "broker", "b", unit="0:broker"))
    with started(demanding_url, tmp_path / "log", *ONE_BOOKIE, options=("--config", str(conf))) as run:
        assert exchange(run.service_url, topic) == b"hello"
    assert mledger("topics", "read", topic, url=demanding_url).code != 0
    monkeypatch.setenv(VARIABLE, str(conf))
    assert "hello" in ok("topics", "read", topic, url=demanding_url).out
    ok("topics", "produce", topic, "--count", 3, *(f"--set={each}" for each in ONE_BOOKIE), url=demanding_url)
    [bookie] = answer("bookies", "list", url=demanding_url)
    problems = answer("bookies", "describe", bookie["bookie_id"], url=demanding_url)["problems"]
    assert [problem for problem in problems if "disk" not in problem] == []
    ledgers = [each["ledger_id"] for each in answer("topics", "describe", topic, url=demanding_url)["ledgers"]]
    ok("ledgers", "check", *ledgers, url=demanding_url)
