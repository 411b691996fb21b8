"""Which processes are those of a local cluster, and how clients reach it."""

import os

import psutil

from mledger.cli.local import cluster_state
from mledger.cli.local.cluster_state import ZOOKEEPER, ClusterState, start_of
from tests.support.commands.cluster_parts import ALIVE, BOOKIE, BROKER, part


def test_a_part_is_running_only_as_the_process_that_was_started():
    started = psutil.Process().create_time()
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=started).process is not None
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=started - 60).process is None


def test_a_part_is_running_although_the_clock_was_set_since(monkeypatch, tmp_path):
    (tmp_path / "boot_id").write_text("this boot\n")
    monkeypatch.setattr(cluster_state, "BOOT_ID", tmp_path / "boot_id")
    start = start_of(psutil.Process())
    boot_time, created = psutil.boot_time(), psutil.Process().create_time()
    monkeypatch.setattr(psutil, "boot_time", lambda: boot_time + 3600)
    monkeypatch.setattr(psutil.Process, "create_time", lambda _: created + 3600)
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=created, start=start).process is not None
    assert part(ZOOKEEPER, "127.0.0.1:2181", pid=os.getpid(), started=created, start=f"another {start}").process is None


def test_the_service_url_names_every_broker():
    state = ClusterState().with_part(part("broker-2", "127.0.0.1:6651")).with_part(BROKER).with_part(BOOKIE)
    assert [each.name for each in state.parts] == ["bookie-1", "broker-1", "broker-2"]
    assert state.service_url == "pulsar://127.0.0.1:6650,127.0.0.1:6651"
    assert ClusterState((BOOKIE,)).service_url == ""


def test_a_stopped_broker_can_be_forgotten_and_a_running_one_stays():
    state = ClusterState((BOOKIE, BROKER, part("broker-2", "127.0.0.1:6651", **ALIVE)))
    assert [each.name for each in state.without_stopped_brokers().parts] == ["bookie-1", "broker-2"]
