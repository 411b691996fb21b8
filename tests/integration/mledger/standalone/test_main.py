"""The process of a standalone: it serves, ends in order, and goes on after kill -9."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.url import open_store
from mledger.standalone.backlog import wait_until_durable
from tests.support.aio import HANG_S
from tests.support.aio import run as run_loop
from tests.support.forked_python import ForkedPython

FREE_PORTS = ("--port", "0", "--http-port", "0")


class StandaloneCommand:
    """`mledger standalone` in a process."""

    def __init__(self, log, *arguments, **environment):
        self.log = log
        with log.open("a") as file:
            self.process = ForkedPython(
                [sys.executable, "-m", "mledger.standalone.main", *FREE_PORTS, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                cwd=os.getcwd(),
                env={**os.environ, **environment},
            )

    def serving(self):
        """What it says when it serves."""
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return json.loads(line) if line.startswith("{") else line

    def end(self, number):
        """Send a signal and wait for the end; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(HANG_S)
        self.process.stdout.close()
        return code


@pytest.fixture
def start(tmp_path):
    """Starts standalones, which end with the test."""
    runs = []

    def started(*arguments, **environment):
        runs.append(StandaloneCommand(tmp_path / "standalone.log", *arguments, "--output", "json", **environment))
        return runs[-1]

    yield started
    for run in runs:
        if run.process.poll() is None:
            run.end(signal.SIGKILL)


def test_it_says_where_it_serves_and_does(start, tmp_path, client_of):
    run = start("--data-dir", tmp_path / "data")
    serving = run.serving()
    assert serving["data_dir"] == str(tmp_path / "data")
    assert serving["metadata_url"] == f"rocksdb:{tmp_path / 'data' / 'metadata'}"
    with client_of(serving["service_url"]) as client:
        consumer = client.subscribe("orders")
        client.publish("orders", b"0", b"1")
        assert client.receive(consumer, 2) == [b"0", b"1"]
    with urllib.request.urlopen(f"{serving['admin_url']}/admin/v2/brokers/health") as answer:
        assert answer.read() == b"ok"


def test_people_get_one_line_too(tmp_path):
    run = StandaloneCommand(tmp_path / "log", "--ephemeral")
    line = run.serving()
    run.end(signal.SIGTERM)
    assert line.startswith("ready: service URL pulsar://127.0.0.1:")
    assert ", admin URL http://127.0.0.1:" in line


def test_after_kill_9_every_subscription_goes_on_where_it_was(start, tmp_path, client_of):
    run = start("--data-dir", tmp_path / "data")
    payloads = [b"%d" % number for number in range(20)]
    serving = run.serving()
    with client_of(serving["service_url"]) as client:
        names = {"none": 0, "some": 7, "all": 20}
        consumers = {name: client.subscribe("orders", name) for name in names}
        client.publish("orders", *payloads)
        for name, count in names.items():
            assert client.receive(consumers[name], count) == payloads[:count]
            consumers[name].close()
        wait_until_durable(serving["admin_url"], "orders")
        run.end(signal.SIGKILL)
    again = start("--data-dir", tmp_path / "data")
    with client_of(again.serving()["service_url"]) as client:
        client.publish("orders", b"20")
        for name, count in names.items():
            assert client.receive(client.subscribe("orders", name), 21 - count) == [*payloads[count:], b"20"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_the_data_stays(start, tmp_path, client_of, number):
    run = start("--data-dir", tmp_path / "data", "--bookies", 3)
    with client_of(run.serving()["service_url"]) as client:
        client.subscribe("orders").close()
        client.publish("orders", b"0")
    assert run.end(number) == 0
    log = run.log.read_text()
    assert log.count("event=stopped") == 4
    assert "level=error" not in log
    assert not (tmp_path / "data" / "metadata" / "metadata.sock").exists()
    again = start("--data-dir", tmp_path / "data")
    with client_of(again.serving()["service_url"]) as client:
        assert client.receive(client.subscribe("orders"), 1) == [b"0"]
    assert sorted(path.name for path in (tmp_path / "data").glob("bookie-*")) == ["bookie-1", "bookie-2", "bookie-3"]


@pytest.mark.parametrize("gone", ["metadata", "metadata/store", "metadata/store/CURRENT"])
def test_a_metadata_store_that_is_gone_is_not_begun_anew_beside_its_bookies(start, tmp_path, client_of, gone):
    run = start("--data-dir", tmp_path / "data")
    with client_of(run.serving()["service_url"]) as client:
        client.subscribe("orders").close()
        client.publish("orders", b"0")
    assert run.end(signal.SIGTERM) == 0
    (tmp_path / "data" / gone).rename(tmp_path / "kept")
    left = sorted((tmp_path / "data").rglob("*"))
    refused = start("--data-dir", tmp_path / "data")
    assert refused.end(0) == 1
    assert f"{tmp_path / 'data' / 'metadata'} holds no metadata store, but " in refused.log.read_text()
    assert sorted((tmp_path / "data").rglob("*")) == left
    (tmp_path / "kept").rename(tmp_path / "data" / gone)
    with client_of(start("--data-dir", tmp_path / "data").serving()["service_url"]) as client:
        assert client.receive(client.subscribe("orders"), 1) == [b"0"]


def test_a_directory_in_use_is_refused_and_left_alone(start, tmp_path, client_of):
    run = start("--data-dir", tmp_path / "data")
    serving = run.serving()
    second = start("--data-dir", tmp_path / "data")
    assert second.end(0) == 1
    assert f"process {serving['pid']} runs a standalone on this directory" in second.log.read_text()
    with client_of(serving["service_url"]) as client:
        client.publish("orders", b"0")


def test_a_port_in_use_ends_it_in_order(start, tmp_path):
    port = start("--data-dir", tmp_path / "data").serving()["service_url"].rpartition(":")[2]
    second = start("--data-dir", tmp_path / "other", "--port", port)
    assert second.end(0) == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in second.log.read_text()
    again = start("--data-dir", tmp_path / "other")
    assert again.serving()


def test_a_program_at_the_port_of_its_bookie_is_to_be_ended(start, tmp_path):
    run = start("--data-dir", tmp_path / "data")
    run.serving()
    assert run.end(signal.SIGTERM) == 0
    port = int(re.search(r" bookie=127\.0\.0\.1:(\d+)", run.log.read_text())[1])
    with socket.create_server(("127.0.0.1", port)):
        refused = start("--data-dir", tmp_path / "data")
        assert refused.end(0) == 1
    assert (
        f"port {port}: Address already in use; the bookie's entries are known by this port" in refused.log.read_text()
    )
    assert start("--data-dir", tmp_path / "data").serving()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_ephemeral_directory_is_removed(start, tmp_path, number):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    run = start("--ephemeral", TMPDIR=str(scratch))
    assert os.path.dirname(run.serving()["data_dir"]) == str(scratch)
    assert run.end(number) == 0
    assert os.listdir(scratch) == []


def test_the_metadata_can_be_elsewhere(start, tmp_path, metadata_url, client_of):
    run = start("--data-dir", tmp_path / "data", "--metadata", metadata_url)
    serving = run.serving()
    assert serving["metadata_url"] == metadata_url
    with client_of(serving["service_url"]) as client:
        client.subscribe("orders").close()
        client.publish("orders", b"0")
    assert run.end(signal.SIGTERM) == 0
    assert not (tmp_path / "data" / "metadata").exists()
    again = start("--data-dir", tmp_path / "data", "--metadata", metadata_url)
    with client_of(again.serving()["service_url"]) as client:
        assert client.receive(client.subscribe("orders"), 1) == [b"0"]


def test_idle_clients_leave_the_storage_files_to_open(start, tmp_path):
    files = 160
    standalone = start("--data-dir", tmp_path / "data")
    served = standalone.serving()
    resource.prlimit(served["pid"], resource.RLIMIT_NOFILE, (files, files))

    async def bookie_port():
        async with await open_store(served["metadata_url"]) as store:
            (bookie,) = await list_bookies(store)
            return bookie.port

    async def write():
        async with await open_store(served["metadata_url"]) as store:
            await store.create("/written", b"")

    with contextlib.ExitStack() as clients:
        for port in (int(served["service_url"].rpartition(":")[2]), run_loop(bookie_port())):
            for _ in range(files):
                last = clients.enter_context(socket.create_connection(("127.0.0.1", port), HANG_S))
            with contextlib.suppress(ConnectionError):  # it is closed, by the broker with the reason
                while last.recv(1024):
                    pass
        run_loop(write())
    assert standalone.end(signal.SIGTERM) == 0
