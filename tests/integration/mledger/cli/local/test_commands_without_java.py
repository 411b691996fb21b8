"""`mledger up` with its metadata in RocksDB, in memory, or in an ensemble that already runs."""

import json
import os
import signal
import subprocess
import sys

import psutil
import pulsar
import pytest

from mledger.metastore.cluster.layout import instance_id
from mledger.metastore.url import open_reader
from tests.support.aio import HANG_S, run
from tests.support.cli import answer, mledger, ok

TOPIC = "persistent://public/default/kept"
SINGLE = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A directory for a cluster, which is stopped at the end; Java cannot be found."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    place = tmp_path / "cluster"
    yield place
    if (place / "cluster.json").exists():
        ok("down", "--dir", place)


def pids(described) -> dict[str, int]:
    return {each["name"]: each["pid"] for each in described["processes"]}


def publish(service_url: str, payload: bytes) -> None:
    """Publish with the official client."""
    client = pulsar.Client(service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    try:
        client.create_producer(TOPIC).send(payload)
    finally:
        client.close()


def kill(*processes) -> None:
    found = [psutil.Process(pid) for pid in processes]
    for process in found:
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(found, HANG_S)


def test_a_cluster_in_rocksdb_survives_kill_9_of_all_its_processes(directory) -> None:
    metadata = f"rocksdb:{directory / 'metadata'}"
    started = answer("up", "--no-broker", "--dir", directory, "--metadata", metadata, "--bookies", 1)
    assert started["metadata"] == metadata
    assert list(pids(started)) == ["rocksdb", "bookie-1"]
    ok("topics", "create", TOPIC, *SINGLE, url=metadata)
    ok("topics", "produce", TOPIC, *SINGLE, url=metadata, stdin="one\ntwo\n")
    ok("cursors", "create", TOPIC, "c", *SINGLE, url=metadata)
    kill(*pids(started).values())
    assert mledger("status", "--dir", directory).code == 5
    again = answer("up", "--no-broker", "--dir", directory)
    assert again["metadata"] == metadata
    assert again["processes"][1]["address"] == started["processes"][1]["address"]
    ok("topics", "produce", TOPIC, *SINGLE, url=metadata, stdin="three\n")
    assert ok("topics", "read", TOPIC, url=metadata).out == "one\ntwo\nthree\n"
    assert answer("cursors", "list", TOPIC, url=metadata)[0]["backlog"] == 3
    assert answer("down", "--dir", directory)["stopped"] == ["bookie-1", "rocksdb"]
    assert mledger("topics", "list", url=metadata).code == 5


def test_a_metadata_store_that_is_gone_is_not_begun_anew_beside_its_bookies(directory, tmp_path) -> None:
    metadata = directory / "metadata"
    ok("up", "--no-broker", "--dir", directory, "--metadata", f"rocksdb:{metadata}", "--bookies", 1)
    ok("topics", "create", TOPIC, *SINGLE, url=f"rocksdb:{metadata}")
    ok("down", "--dir", directory)
    (metadata / "store").rename(tmp_path / "kept")
    refused = mledger("up", "--dir", directory)
    assert (refused.code, f"{metadata} holds no metadata store any more" in refused.err) == (1, True), refused
    assert not (metadata / "store").exists()
    (tmp_path / "kept").rename(metadata / "store")
    ok("up", "--no-broker", "--dir", directory)
    assert mledger("topics", "describe", TOPIC, url=f"rocksdb:{metadata}").code == 0


def test_the_timeout_ends_a_start(directory) -> None:
    started = mledger("--timeout", "0.05", "up", "--no-broker", "--dir", directory, "--metadata", "memory:")
    assert (started.code, started.err) == (5, "mledger: not done within --timeout, 0.05 s\n")
    assert mledger("status", "--dir", directory).code == 3


def test_a_relative_directory_is_relative_to_where_the_command_runs(directory, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    started = answer("up", "--no-broker", "--dir", directory, "--metadata", "rocksdb:below/metadata", "--bookies", 1)
    assert started["metadata"] == f"rocksdb:{tmp_path}/below/metadata"


def test_a_cluster_in_memory_serves_and_ends_with_its_server(directory) -> None:
    started = answer("up", "--no-broker", "--dir", directory, "--metadata", "memory:", "--bookies", 1)
    url = started["metadata"]
    assert url.startswith("rocksdb:")
    ok("topics", "create", TOPIC, *SINGLE, url=url)
    assert [each["topic"] for each in answer("topics", "list", url=url)] == [TOPIC]
    kill(pids(started)["memory"])
    done = mledger("up", "--no-broker", "--dir", directory)
    assert done.code == 1
    assert "in memory and lost it" in done.err


def test_brokers_serve_clients_come_back_at_their_addresses_and_stop_first(directory) -> None:
    metadata = f"rocksdb:{directory / 'metadata'}"
    started = answer("up", "--dir", directory, "--metadata", metadata, "--bookies", 1, "--brokers", 2)
    assert list(pids(started)) == ["rocksdb", "bookie-1", "broker-1", "broker-2"]
    addresses = [each["address"] for each in started["processes"] if each["name"].startswith("broker")]
    assert started["service_url"] == f"pulsar://{','.join(addresses)}"
    publish(started["service_url"], b"before")
    kill(*(pid for name, pid in pids(started).items() if name.startswith("broker")))
    assert mledger("status", "--dir", directory).code == 5
    again = answer("up", "--dir", directory)
    assert again["service_url"] == started["service_url"]
    publish(again["service_url"], b"after")
    kill(pids(again)["broker-2"])
    assert answer("up", "--dir", directory, "--no-broker")["service_url"] == f"pulsar://{addresses[0]}"
    assert mledger("status", "--dir", directory).code == 0
    assert answer("down", "--dir", directory)["stopped"] == ["broker-1", "bookie-1", "rocksdb"]


def test_a_broker_s_bad_settings_are_refused_before_anything_starts(directory) -> None:
    done = mledger("up", "--dir", directory, "--broker-set", "brokerServicePort=many")
    assert (done.code, directory.exists()) == (2, False)
    assert "brokerServicePort" in done.err
    done = mledger("up", "--dir", directory, "--no-broker", "--broker-set", "clusterName=eu")
    assert (done.code, directory.exists()) == (2, False)
    assert "--no-broker excludes" in done.err


def test_a_cluster_uses_a_running_ensemble(directory, metadata_url) -> None:
    started = answer("up", "--no-broker", "--dir", directory, "--metadata", metadata_url, "--bookies", 1)
    assert started["metadata"] == metadata_url
    assert list(pids(started)) == ["bookie-1"]
    assert len(answer("bookies", "list", url=metadata_url)) == 1
    assert answer("up", "--no-broker", "--dir", directory)["processes"] == started["processes"]
    assert answer("down", "--dir", directory)["stopped"] == ["bookie-1"]

    async def main():
        async with await open_reader(metadata_url) as reader:
            assert await instance_id(reader)

    run(main())


def test_a_cluster_keeps_the_store_it_began_with(directory) -> None:
    answer("up", "--no-broker", "--dir", directory, "--metadata", "memory:", "--bookies", 1)
    before = (directory / "cluster.json").read_text()
    for other in (f"rocksdb:{directory}/other", "zk://127.0.0.1:1"):
        done = mledger("up", "--no-broker", "--dir", directory, "--metadata", other)
        assert done.code == 1
        assert "omit --metadata" in done.err
    assert (directory / "cluster.json").read_text() == before
    assert not (directory / "other").exists()


def test_the_url_in_the_environment_does_not_decide_where_a_new_cluster_keeps_its_metadata(directory) -> None:
    done = mledger("up", "--no-broker", "--dir", directory, "--bookies", 1, url=f"rocksdb:{directory}/other")
    assert done.code == 5  # this would be a ZooKeeper, and there is no Java
    assert "JAVA_HOME" in done.err


@pytest.mark.parametrize("url", ["memory:name", "etcd:host", "rocksdb:"])
def test_a_store_that_up_cannot_start_is_a_usage_error(directory, url) -> None:
    assert mledger("up", "--no-broker", "--dir", directory, "--metadata", url).code == 2


def test_a_metadata_server_that_cannot_start_is_an_error_and_leaves_no_process(directory, tmp_path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "CURRENT").write_text("")
    done = mledger("up", "--no-broker", "--dir", directory, "--metadata", f"rocksdb:{taken}")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert "another program's RocksDB" in done.err
    assert not (directory / "cluster.json").exists()
    assert os.listdir(taken) == ["CURRENT"]


def test_the_state_file_keeps_its_form(directory) -> None:
    answer("up", "--no-broker", "--dir", directory, "--metadata", "memory:", "--bookies", 1)
    state = json.loads((directory / "cluster.json").read_text())
    del state["ensemble"]
    (directory / "cluster.json").write_text(json.dumps(state))
    assert mledger("status", "--dir", directory).code == 0


KILLED_WHILE_IT_WAITS = """
import os, signal
from mledger.cli.local.processes import LocalCluster
from mledger.cli.main import main
LocalCluster._wait_until_serving = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


@pytest.fixture
def left_behind(directory):
    """A cluster of one bookie, and the process of a second one whose `up` was killed before it served."""
    ok("up", "--no-broker", "--dir", directory, "--metadata", f"rocksdb:{directory / 'metadata'}", "--bookies", 1)
    more = ("up", "--no-broker", "--dir", str(directory), "--bookies", "2")
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_IT_WAITS, *more], check=False, timeout=HANG_S)
    assert killed.returncode == -signal.SIGKILL
    (left,) = json.loads((directory / "cluster.json").read_text())["starting"]
    return psutil.Process(left["pid"])


def test_down_stops_what_a_killed_up_has_started(directory, left_behind) -> None:
    assert answer("down", "--dir", directory)["stopped"] == ["bookie-2", "bookie-1", "rocksdb"]
    assert not left_behind.is_running()


def test_up_stops_what_a_killed_up_has_started_and_starts_it_anew(directory, left_behind) -> None:
    again = answer("up", "--no-broker", "--dir", directory, "--bookies", 2)
    assert list(pids(again)) == ["rocksdb", "bookie-1", "bookie-2"]
    assert not left_behind.is_running()
    assert json.loads((directory / "cluster.json").read_text())["starting"] == []
