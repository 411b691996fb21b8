"""A broker, and commands, on bookies that demand TLS and a role."""

import pytest

from mledger import ManagedLedgerConfig, open_cluster
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.tls_settings import VARIABLE
from tests.support.aio import run
from tests.support.bookies.encryption import arguments, broker_conf, demanding, showing
from tests.support.bookies.processes import SMALL, BookieProcesses, initialize_cluster
from tests.support.brokers.broker_process import ONE_BOOKIE, exchange, started
from tests.support.certificates import certify, certify_by
from tests.support.cli import answer, mledger, ok
from tests.support.topics import fill


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
    with started(demanding_url, tmp_path / "log", *ONE_BOOKIE, options=("--config", str(conf))) as broker:
        assert exchange(broker.service_url, topic) == b"hello"
    assert mledger("topics", "read", topic, url=demanding_url).code != 0
    monkeypatch.setenv(VARIABLE, str(conf))
    assert "hello" in ok("topics", "read", topic, url=demanding_url).out
    ok("topics", "produce", topic, "--count", 3, *(f"--set={each}" for each in ONE_BOOKIE), url=demanding_url)
    [bookie] = answer("bookies", "list", url=demanding_url)
    problems = answer("bookies", "describe", bookie["bookie_id"], url=demanding_url)["problems"]
    assert [problem for problem in problems if "disk" not in problem] == []
    ledgers = [each["ledger_id"] for each in answer("topics", "describe", topic, url=demanding_url)["ledgers"]]
    ok("ledgers", "check", *ledgers, url=demanding_url)


async def _write(url, topic, tls):
    """A topic with three entries and a cursor that has acknowledged the second, abandoned by its owner."""
    single = ManagedLedgerConfig(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
    async with open_cluster(url, config=single, client=ClientConfig(tls=tls)) as cluster:
        opened = await cluster.create_topic(topic)
        cursor = await opened.open_cursor("one")
        await cursor.acknowledge([(await fill(opened, 3))[1]])
        await opened.abandon()


def test_commands_that_change_topics_take_tls_from_their_configuration(demanding_url, certified, tmp_path, topic):
    client = certify_by(certified, tmp_path / "broker", "b", unit="0:broker")
    settings = ("--config", broker_conf(tmp_path / "broker.conf", client), *(f"--set={each}" for each in ONE_BOOKIE))
    for number, command in enumerate(("cursors skip", "topics truncate", "topics delete")):
        name, skip = f"{topic}-{number}", ("one", 1) if command == "cursors skip" else ()
        run(_write(demanding_url, name, showing(client)))
        undo_file = tmp_path / f"undo-{number}"
        ok(*command.split(), name, *skip, "--yes", "--undo-file", undo_file, *settings, url=demanding_url)
    run(_write(demanding_url, topic, showing(client)))
    ok("cursors", "recover", topic, "--apply", *settings, url=demanding_url)
