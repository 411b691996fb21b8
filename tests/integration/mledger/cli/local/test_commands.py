"""`mledger up`, `down` and `status`: real processes that outlive the command, and no other process is touched."""

import json
import subprocess
import sys

import psutil
import pytest

from mledger.cli.local.processes import LocalCluster
from tests.support.aio import HANG_S
from tests.support.cli import answer, mledger, ok


@pytest.fixture
def directory(tmp_path):
    """A directory for a cluster, which is stopped at the end."""
    place = tmp_path / "cluster"
    yield place
    if place.exists():
        ok("down", "--dir", place)


def started(directory, bookies=1):
    """What `up` says; metadata in RocksDB, which starts faster than ZooKeeper."""
    metadata = f"rocksdb:{directory / 'metadata'}"
    return answer("up", "--no-broker", "--dir", directory, "--metadata", metadata, "--bookies", bookies)


def pids(described) -> dict[str, int]:
    return {each["name"]: each["pid"] for each in described["processes"]}


def test_up_starts_zookeeper_and_bookies_that_register(directory) -> None:
    described = answer("up", "--no-broker", "--dir", directory, "--bookies", 2)
    assert list(pids(described)) == ["zookeeper", "bookie-1", "bookie-2"]
    bookies = answer("bookies", "list", url=described["metadata"])
    addresses = [each["address"] for each in described["processes"] if each["name"] != "zookeeper"]
    assert sorted(each["address"] for each in bookies) == sorted(addresses)


def test_up_leaves_what_runs_and_adds_what_is_missing(directory) -> None:
    first = pids(started(directory))
    second = pids(started(directory, 2))
    assert {name: second[name] for name in first} == first
    assert "bookie-2" in second


def test_a_killed_bookie_restarts_at_its_address(directory) -> None:
    before = started(directory)
    bookie = psutil.Process(pids(before)["bookie-1"])
    bookie.kill()
    bookie.wait(HANG_S)
    assert mledger("status", "--dir", directory).code == 5
    after = started(directory)
    assert after["processes"][1]["address"] == before["processes"][1]["address"]
    assert pids(after)["bookie-1"] != pids(before)["bookie-1"]


def test_down_ends_every_process_and_says_so_once(directory) -> None:
    running = pids(started(directory))
    assert answer("down", "--dir", directory)["stopped"] == ["bookie-1", "rocksdb"]
    assert not any(psutil.pid_exists(pid) for pid in running.values())
    assert answer("down", "--dir", directory)["stopped"] == []


def test_data_is_there_after_down_and_up(directory) -> None:
    url = answer("up", "--no-broker", "--dir", directory, "--bookies", 2)["metadata"]
    topic = "persistent://public/default/kept"
    ok("topics", "create", topic, url=url)
    ok("topics", "produce", topic, url=url, stdin="one\ntwo\n")
    ok("down", "--dir", directory)
    assert answer("up", "--no-broker", "--dir", directory)["metadata"] == url
    assert ok("topics", "read", topic, url=url).out == "one\ntwo\n"


def test_a_pid_that_now_is_another_program_is_not_signalled(directory) -> None:
    started(directory)
    ok("down", "--dir", directory)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        path = directory / "cluster.json"
        state = json.loads(path.read_text())
        for part in state["parts"]:
            part["pid"], part["started"] = stranger.pid, part["started"] - 100
        path.write_text(json.dumps(state))
        assert answer("down", "--dir", directory)["stopped"] == []
        assert stranger.poll() is None
        stranger.communicate(b"\n")


def test_status_and_down_of_a_directory_without_a_cluster_say_how_to_start_one(tmp_path) -> None:
    for verb in ("status", "down"):
        done = mledger(verb, "--dir", tmp_path)
        assert done.code == 3
        assert "mledger up" in done.err


@pytest.mark.parametrize(
    "text", ["{", '{"format": 1, "parts": [{"name": "zookeeper", "address": "", "pid": "7", "started": 0}]}']
)
def test_an_unreadable_state_file_is_refused(tmp_path, text) -> None:
    (tmp_path / "cluster.json").write_text(text)
    done = mledger("up", "--no-broker", "--dir", tmp_path)
    assert done.code == 1
    assert "cluster.json does not parse" in done.err
    assert (tmp_path / "cluster.json").read_text() == text


def test_two_ups_at_once_do_not_mix(tmp_path) -> None:
    with LocalCluster(tmp_path).locked():
        done = mledger("up", "--no-broker", "--dir", tmp_path)
    assert done.code == 1
    assert "is running in" in done.err


def test_a_bookie_that_cannot_start_is_an_error_and_leaves_no_process(directory) -> None:
    described = started(directory)
    ok("down", "--dir", directory)
    host, _, port = described["processes"][1]["address"].rpartition(":")
    with subprocess.Popen(
        [sys.executable, "-c", f"import socket as s; l = s.create_server(('{host}', {port})); print(); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as squatter:
        assert squatter.stdout is not None
        squatter.stdout.readline()
        done = mledger("up", "--no-broker", "--dir", directory)
        squatter.communicate(b"\n")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert "bookie-1" in done.err
    assert mledger("status", "--dir", directory).code == 5
