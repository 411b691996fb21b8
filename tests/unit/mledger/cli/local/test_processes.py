"""The directory of a local cluster."""

import contextlib

import pytest

from mledger.cli.local.cluster_state import ClusterState, LocalClusterError
from mledger.cli.local.processes import LocalCluster
from mledger.metastore.errors import ZooKeeperNotFound
from mledger.metastore.zookeeper import launcher
from mledger.standalone.directory import StandaloneDirectory
from tests.support.forked_python import forked_child


def test_the_directory_of_a_standalone_gets_no_cluster(tmp_path):
    StandaloneDirectory(str(tmp_path)).close()
    with (
        pytest.raises(LocalClusterError, match=f"{tmp_path} holds the data of a standalone"),
        LocalCluster(tmp_path).locked(),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["standalone.lock"]


def test_a_process_forked_during_a_command_does_not_keep_its_lock(tmp_path):
    with contextlib.ExitStack() as stack:
        with LocalCluster(tmp_path).locked():
            stack.enter_context(forked_child())
        with LocalCluster(tmp_path).locked():
            pass


def test_a_machine_without_zookeeper_is_told_of_the_store_that_needs_none(tmp_path, monkeypatch):
    def none_found():
        raise ZooKeeperNotFound("no ZooKeeper on this machine: install one")

    monkeypatch.setattr(launcher, "find_zookeeper", none_found)
    with pytest.raises(ZooKeeperNotFound, match="install one; or keep the metadata without it: --metadata rocksdb:DIR"):
        LocalCluster(tmp_path).start_metadata(ClusterState())
