"""Exports by a Spark cluster whose machines share nothing but the network, with killed processes."""

import json
import os
import subprocess
import sys

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.exports.destination import place_at
from mledger.snapshot.exports.errors import DestinationNotReadable
from tests.support.aio import HANG_S
from tests.support.cli import answer
from tests.support.commands.documents import blocks_of
from tests.support.environments.installed import Unreachable, build_wheel, install_from_index
from tests.support.snapshots import tables
from tests.support.snapshots.exports import all_rows, wait_for, write_varied_cluster
from tests.support.snapshots.hdfs import hdfs
from tests.support.snapshots.s3 import s3, s3_server
from tests.support.snapshots.spark_cluster import spark_cluster

__all__ = ["hdfs", "s3", "s3_server"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

IN_BUCKET = "s3://metadata/cluster"
(PACK,) = [
    line
    for block in blocks_of("how-to/spark-clusters.md", "sh")
    for line in block.text.splitlines()
    if line.startswith("tar ")
]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "0.01",
    "spark.speculation.quantile": "0.1",
}
"""Once a first task is done, Spark begins every other one again on a worker that is free."""
EVENT_LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The Spark cluster. Its Python has no package: each export brings what it needs."""
    with spark_cluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The URL of the metadata that is exported."""
    with ZooKeeperServer.start(tmp_path_factory.mktemp("zookeeper"), sync=False) as server:
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        yield url


@pytest.fixture(scope="module")
def one_process(url, tmp_path_factory):
    """The directory with an export by a single process."""
    directory = tmp_path_factory.mktemp("one-process") / "cluster"
    answer("snapshot", "export", directory, "--workers", 1, url=url)
    assert all_rows(directory) == tables.read({"metadata": url})
    return directory


def slowly(rate):
    return ("-D", "partitions=4", "-D", f"rate={rate}")


def records(s3):
    """The records of steps that an unfinished export to the bucket has completed."""
    return [name for name in s3.written("cluster") if name.startswith("_unfinished/") and "/steps/" in name]


def visible(s3):
    """What readers of names alone see."""
    return {name for name in s3.written("cluster") if not name.startswith("_")}


def test_killed_executors_and_drivers_leave_nothing_and_the_result_equals_a_one_process_export(
    cluster, s3, url, one_process
):
    with cluster.submitted(url, IN_BUCKET, *slowly(60)) as driver:
        wait_for(lambda: records(s3) or driver.poll() is not None)
        assert driver.poll() is None, driver.communicate()[1][-4000:]
        cluster.kill(driver)
    assert visible(s3) == set()
    assert answer("snapshot", "list", IN_BUCKET) == []
    left = len(records(s3))

    with cluster.submitted(url, IN_BUCKET, *slowly(60)) as driver:
        found = wait_for(lambda: cluster.executors_at_work() or driver.poll() is not None)
        assert driver.poll() is None, driver.communicate()[1][-4000:]
        found[0].kill()
        out, said = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 0, said[-4000:]
    done = json.loads(out[out.index("{") :])
    assert done["steps_kept"] >= left > 0
    assert answer("snapshot", "verify", IN_BUCKET)["whole"]
    assert all_rows(IN_BUCKET) == all_rows(one_process)
    assert visible(s3) == s3.written("cluster").keys()
    assert cluster.parts_on_workers() == []


def steps_recorded(to):
    """The records of steps that an unfinished export has completed; none while its directory is being created.

    While a record is being written, its name begins with a dot.
    """
    try:
        names = place_at(to).sizes()
    except DestinationNotReadable:
        return []
    return [name for name in names if name.startswith("_unfinished/") and "/steps/" in name and "/." not in name]


@pytest.mark.interop
def test_a_killed_driver_and_an_executor_killed_between_two_steps_leave_no_trace_in_the_rows(
    cluster, hdfs, url, one_process
):
    to = f"{hdfs}/metadata/cluster"
    with cluster.submitted(url, to, *slowly(200)) as driver:
        wait_for(lambda: steps_recorded(to) or driver.poll() is not None)
        assert driver.poll() is None, driver.communicate()[1][-4000:]
        cluster.kill(driver)
    assert answer("snapshot", "list", to) == []
    left = len(steps_recorded(to))

    with cluster.submitted(url, to, *slowly(200)) as driver:
        wait_for(lambda: (cluster.executors_at_work() and len(steps_recorded(to)) > left) or driver.poll() is not None)
        assert driver.poll() is None, driver.communicate()[1][-4000:]
        begun = cluster.executors_begun()
        cluster.executors_at_work()[0].kill()
        assert answer("snapshot", "list", to) == []
        out, said = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 0, said[-4000:]
    done = json.loads(out[out.index("{") :])
    assert done["steps_kept"] >= left > 0
    assert cluster.executors_begun() > begun  # an executor took the place of the killed one
    assert answer("snapshot", "verify", to)["whole"]
    assert all_rows(to) == all_rows(one_process)
    written = [name for name in place_at(to).sizes() if name.endswith(".parquet")]
    assert {part for name in written for part in name.split("/") if "=" in part} == {f"snapshot={done['name']}"}
    assert cluster.parts_on_workers() == []


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The archive that the guide makes of a virtual environment with mledger; CI's versions."""
    directory = tmp_path_factory.mktemp("packed")
    wheel = f"mledger[hdfs] @ {build_wheel(directory / 'wheel').as_uri()}"
    try:
        install_from_index(wheel, python=sys._base_executable, directory=directory / "env")
    except Unreachable as error:
        pytest.skip(f"the packages of a virtual environment come from an index, and none answers: {error}")
    quickly = os.environ | {"GZIP": "-1"}  # by default it packs for 12 s
    subprocess.run(PACK, shell=True, cwd=directory, env=quickly, check=True, timeout=HANG_S)
    return directory / "env.tar.gz"


@pytest.fixture(scope="module")
def speculated(cluster, packed, url, tmp_path_factory):
    """A directory with an export by speculating Spark, and Spark's log of events.

    Its workers get a virtual environment by `--archives`.
    """
    directory = tmp_path_factory.mktemp("speculated")
    (directory / "events").mkdir()
    settings = {**SPECULATION, **EVENT_LOG, "spark.eventLog.dir": (directory / "events").as_uri()}
    arguments = (url, str(directory / "cluster"), "-D", "partitions=3", "-D", "rate=200")
    with cluster.submitted(*arguments, packed=packed, settings=settings) as driver:
        out, said = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 0, said[-4000:]
    assert json.loads(out[out.index("{") :])["steps_kept"] == 0
    return directory


def test_workers_without_packages_write_the_rows_of_a_one_process_export(cluster, speculated, one_process):
    assert list(cluster.directory.glob("worker-*/work/*/*/env/bin/python")), "no worker had the archive"
    assert all_rows(str(speculated / "cluster")) == all_rows(one_process)


def test_tasks_that_spark_begins_again_by_speculation_leave_one_copy_of_each_file(speculated):
    (log,) = (speculated / "events").iterdir()
    begun = [
        event for event in map(json.loads, log.read_text().splitlines()) if event["Event"] == "SparkListenerTaskStart"
    ]
    assert any(event["Task Info"]["Speculative"] for event in begun), "no task was begun again"
    assert answer("snapshot", "verify", str(speculated / "cluster"))["whole"]  # every file, and no other
