"""The metadata store, the servers and their options of `mledger up`: decided without starting anything."""

import pytest

from mledger.cli.local.cluster_plan import (
    OWN_TO_EACH,
    OWN_TO_EACH_BROKER,
    MetadataPlan,
    plan_bookie_options,
    plan_bookies,
    plan_broker_options,
    plan_brokers,
    plan_metadata,
)
from mledger.cli.local.cluster_state import MEMORY, ROCKSDB, ZOOKEEPER, ClusterState, LocalClusterError
from mledger.known_settings import SINGLE_COPY
from mledger.metastore.errors import InvalidMetadataUrl
from tests.support.commands.cluster_parts import ALIVE, BOOKIE, BROKER, part


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
