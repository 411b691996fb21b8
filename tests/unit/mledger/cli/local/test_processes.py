"""The metadata store, the servers and their options of `mledger up`: decided without starting anything."""

import os

import psutil
import pytest

from mledger.cli.local import processes
from mledger.cli.local.processes import (
    MEMORY,
    OWN_TO_EACH,
    OWN_TO_EACH_BROKER,
    ROCKSDB,
    SINGLE_COPY,
    ZOOKEEPER,
    ClusterState,
    LocalCluster,
    LocalClusterError,
    MetadataPlan,
    Part,
    plan_bookie_options,
    plan_bookies,
    plan_broker_options,
    plan_brokers,
    plan_metadata,
    start_of,
)
from mledger.metastore.errors import InvalidMetadataUrl
from mledger.standalone.directory import StandaloneDirectory

ENDED = {"pid": 2**22 + 1, "started": 0.0}
BOOKIE = Part("bookie-1", "127.0.0.1:3181", **ENDED)
BROKER = Part("broker-1", "127.0.0.1:6650", **ENDED)
ALIVE = {"pid": os.getpid(), "started": psutil.Process().create_time()}


def part(name, address, **fields):
    return Part(name, address, **(ENDED | fields))


def test_a_new_cluster_gets_a_zookeeper_unless_the_url_says_otherwise(tmp_path):
    assert plan_metadata(ClusterState(), None, tmp_path) == MetadataPlan(ZOOKEEPER)
    assert plan_metadata(ClusterState(), "rocksdb:/metadata", tmp_path) == MetadataPlan(ROCKSDB, "/metadata")
    assert plan_metadata(ClusterState(), "memory:", tmp_path) == MetadataPlan(MEMORY, str(tmp_path / MEMORY))
    assert plan_metadata(ClusterState(), "zk://host:2181", tmp_path) == MetadataPlan("", "zk://host:2181")


def test_memory_of_another_process_is_refused(tmp_path):
    with pytest.raises(InvalidMetadataUrl, match="memory:"):
        plan_metadata(ClusterState(), "memory:other", tmp_path)


@pytest.mark.parametrize("url", [None, "rocksdb:/metadata"])
def test_a_cluster_keeps_its_store(tmp_path, url):
    state = ClusterState((part(ROCKSDB, "/metadata"), BOOKIE))
    assert plan_metadata(state, url, tmp_path) == MetadataPlan(ROCKSDB, "/metadata")


@pytest.mark.parametrize("url", ["rocksdb:/other", "memory:", "zk://host:2181"])
def test_another_store_than_the_cluster_s_is_refused_with_both_urls(tmp_path, url):
    state = ClusterState((part(ROCKSDB, "/metadata"), BOOKIE))
    with pytest.raises(LocalClusterError, match=f"in rocksdb:/metadata, not in {url}"):
        plan_metadata(state, url, tmp_path)


def test_a_cluster_on_an_ensemble_keeps_it(tmp_path):
    state = ClusterState((BOOKIE,), "zk://host:2181")
    assert plan_metadata(state, None, tmp_path) == MetadataPlan("", "zk://host:2181")


def test_a_cluster_whose_metadata_in_memory_ended_is_refused_with_what_to_do(tmp_path):
    memory = part(MEMORY, str(tmp_path / MEMORY))
    assert plan_metadata(ClusterState((memory,)), None, tmp_path).part == MEMORY
    with pytest.raises(LocalClusterError, match="mledger down"):
        plan_metadata(ClusterState((memory, BOOKIE)), None, tmp_path)


def test_a_part_is_running_only_as_the_process_that_was_started():
    started = psutil.Process().create_time()
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=started).process is not None
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=started - 60).process is None


def test_a_part_is_running_although_the_clock_was_set_since(monkeypatch, tmp_path):
    (tmp_path / "boot_id").write_text("this boot\n")
    monkeypatch.setattr(processes, "BOOT_ID", tmp_path / "boot_id")
    start = start_of(psutil.Process())
    boot_time, created = psutil.boot_time(), psutil.Process().create_time()
    monkeypatch.setattr(psutil, "boot_time", lambda: boot_time + 3600)
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: created + 3600)
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=created, start=start).process is not None
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=created, start=f"another {start}").process is None


def test_bookies_get_the_settings_without_those_that_each_has_for_itself(tmp_path):
    options = plan_bookie_options(tmp_path / "bookkeeper.conf", ["journalMaxSizeMB=8"], True, "json")
    assert options[:4] == ["--log-format", "json", "--config", str(tmp_path / "bookkeeper.conf")]
    assert options[-2:] == ["--metrics-port", "0"]
    assert [option for option in options if "=" in option] == [
        "journalMaxSizeMB=8",
        *(f"{key}=" for key in OWN_TO_EACH),
    ]


def test_brokers_get_their_settings_and_listen_on_loopback_only(tmp_path):
    options = plan_broker_options(tmp_path / "broker.conf", ["clusterName=eu"], "json")
    assert options[:6] == ["--host", "127.0.0.1", "--log-format", "json", "--config", str(tmp_path / "broker.conf")]
    assert options[-2:] == ["--metrics-port", "0"]
    assert [option for option in options if "=" in option] == [
        "clusterName=eu",
        *(f"{key}=" for key in OWN_TO_EACH_BROKER),
    ]


def test_a_broker_on_a_single_bookie_stores_one_copy():
    options = plan_broker_options(None, [], "text", single_copy=True)
    assert [option for option in options if option.endswith("=1")] == list(SINGLE_COPY)


def test_only_servers_that_do_not_run_are_started(tmp_path):
    state = ClusterState((part(ROCKSDB, "/metadata"), part("bookie-1", "127.0.0.1:3181", **ALIVE), BROKER))
    assert [each.name for each in plan_bookies(state, tmp_path, 2, ())] == ["bookie-2"]
    assert [each.name for each in plan_brokers(state, 2, 0, ())] == ["broker-1", "broker-2"]


@pytest.mark.parametrize(("first", "ports"), [(0, ["6650", "0"]), (7000, ["7000", "7001"])])
def test_a_broker_gets_the_port_that_is_asked_for_or_the_one_it_had(first, ports):
    planned = plan_brokers(ClusterState((BROKER,)), 2, first, ())
    assert [each.arguments[each.arguments.index("--port") + 1] for each in planned] == ports


def test_the_service_url_names_every_broker():
    state = ClusterState().with_part(part("broker-2", "127.0.0.1:6651")).with_part(BROKER).with_part(BOOKIE)
    assert [each.name for each in state.parts] == ["bookie-1", "broker-1", "broker-2"]
    assert state.service_url == "pulsar://127.0.0.1:6650,127.0.0.1:6651"
    assert ClusterState((BOOKIE,)).service_url == ""


def test_a_stopped_broker_can_be_forgotten_and_a_running_one_stays():
    state = ClusterState((BOOKIE, BROKER, part("broker-2", "127.0.0.1:6651", **ALIVE)))
    assert [each.name for each in state.without_stopped_brokers().parts] == ["bookie-1", "broker-2"]


def test_the_directory_of_a_standalone_gets_no_cluster(tmp_path):
    StandaloneDirectory(str(tmp_path)).close()
    with (
        pytest.raises(LocalClusterError, match=f"{tmp_path} holds the data of a standalone"),
        LocalCluster(tmp_path).locked(),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["standalone.lock"]
